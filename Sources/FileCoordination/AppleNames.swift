// SPDX-License-Identifier: Apache-2.0
public import Foundation

// With these names, code that was written for Apple's Foundation needs only one more import to compile.

public typealias NSFileCoordinator = FileCoordinator
public typealias NSFilePresenter = FilePresenter
public typealias NSFileAccessIntent = FileAccessIntent

/// The type of the parameter `error`: `&error` of a `var error: NSError?`, or nil.
///
/// Foundation on Linux does not have this type.
public typealias NSErrorPointer = UnsafeMutablePointer<NSError?>?
