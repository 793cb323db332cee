// SPDX-License-Identifier: Apache-2.0
public import Foundation

// With these names, code for Apple's Foundation compiles with one more import.

public typealias NSFileCoordinator = FileCoordinator
public typealias NSFilePresenter = FilePresenter
public typealias NSFileAccessIntent = FileAccessIntent

/// `&error` of a `var error: NSError?`, or nil.
///
/// Foundation on Linux has no such name.
public typealias NSErrorPointer = UnsafeMutablePointer<NSError?>?
