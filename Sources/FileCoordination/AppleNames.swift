// SPDX-License-Identifier: Apache-2.0
public import Foundation

// These names are aliases, so that code for Apple's Foundation compiles with only one more import.

public typealias NSFileCoordinator = FileCoordinator
public typealias NSFilePresenter = FilePresenter
public typealias NSFileAccessIntent = FileAccessIntent
public typealias NSFileVersion = FileVersion

/// The type of Apple's parameter `error`: pass `&error` for a variable `error` of type `NSError?`, or nil.
///
/// Foundation on Linux does not have this type.
public typealias NSErrorPointer = UnsafeMutablePointer<NSError?>?
