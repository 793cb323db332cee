// SPDX-License-Identifier: Apache-2.0
import FileCoordination
import Foundation

/// Coordinating methods that throw errors and return values, as is usual in Swift.
///
/// The methods of Apple's API report errors through a pointer and return no value.
extension NSFileCoordinator {
    func reading<Value>(
        _ url: URL, _ options: ReadingOptions = [], _ body: (URL) throws -> Value
    ) throws -> Value {
        var coordinationError: NSError?
        var result: Result<Value, any Error>?
        coordinate(readingItemAt: url, options: options, error: &coordinationError) { newURL in
            result = Result { try body(newURL) }
        }
        return try Self.value(of: result, coordinationError)
    }

    func writing<Value>(
        _ url: URL, _ options: WritingOptions = [], _ body: (URL) throws -> Value
    ) throws -> Value {
        var coordinationError: NSError?
        var result: Result<Value, any Error>?
        coordinate(writingItemAt: url, options: options, error: &coordinationError) { newURL in
            result = Result { try body(newURL) }
        }
        return try Self.value(of: result, coordinationError)
    }

    private static func value<Value>(
        of result: Result<Value, any Error>?, _ coordinationError: NSError?
    ) throws -> Value {
        if let coordinationError { throw coordinationError }
        guard let result else { throw CocoaError(.userCancelled) }
        return try result.get()
    }
}
