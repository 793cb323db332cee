// SPDX-License-Identifier: Apache-2.0
import Coordination
public import Foundation

/// Methods for accesses that do not block a thread. If the task is cancelled while an access waits, the method throws a
/// `CancellationError`.
///
/// If the accessor throws an error, the method throws the same error. If the accessor begins an access in the same task, that
/// access does not wait for the outer access.
extension FileCoordinator {
    /// Reads one item. The accessor receives the URL that the item has when the access begins.
    public func read<Value: Sendable>(
        _ url: URL, options: ReadingOptions = [], by accessor: (URL) async throws -> Value
    ) async throws -> Value {
        try await perform([AccessItem(url, .read(options.coordinationOptions))]) { try await accessor($0[0]) }
    }

    /// Writes one item. The accessor may also read the item.
    public func write<Value: Sendable>(
        _ url: URL, options: WritingOptions = [], by accessor: (URL) async throws -> Value
    ) async throws -> Value {
        try await perform([AccessItem(url, .write(options.coordinationOption))]) { try await accessor($0[0]) }
    }

    /// Writes one item that still has a generation, as from ``FileCoordinator/generation(ofItemAt:)``. If the item has changed
    /// since, the accessor is not called, and the method throws an error with the code
    /// ``FileCoordinationError/Code/changed``.
    public func write<Value: Sendable>(
        _ url: URL, options: WritingOptions = [], ifGeneration generation: String,
        by accessor: (URL) async throws -> Value
    ) async throws -> Value {
        let item = AccessItem(url, .write(options.coordinationOption), ifGeneration: generation)
        return try await perform([item]) { try await accessor($0[0]) }
    }

    /// Accesses several items. If they are in one mount, the accesses are granted at the same time. Inside the accessor, use
    /// the URLs of the intents.
    public func access<Value: Sendable>(
        _ intents: [FileAccessIntent], by accessor: () async throws -> Value
    ) async throws -> Value {
        try await perform(intents.map { AccessItem($0) }) { urls in
            for (intent, url) in zip(intents, urls) { intent.move(to: url) }
            return try await accessor()
        }
    }

    /// Asks the presenters of many items in one step, before the program accesses the items one by one.
    ///
    /// No claim is held. Until the accessor returns, the presenters that have answered are not asked again.
    public func prepare<Value: Sendable>(
        reading readingURLs: [URL], options readingOptions: ReadingOptions = [], writing writingURLs: [URL],
        options writingOptions: WritingOptions = [], by accessor: () async throws -> Value
    ) async throws -> Value {
        let items =
            readingURLs.map { AccessItem($0, .read(readingOptions.coordinationOptions)) }
            + writingURLs.map { AccessItem($0, .write(writingOptions.coordinationOption)) }
        guard !items.isEmpty else { return try await accessor() }
        let granted = try await wait(for: try begin(items, isBatch: true))
        defer { granted.end() }
        return try await accessor()
    }

    private func perform<Value: Sendable>(
        _ items: [AccessItem], _ accessor: ([URL]) async throws -> Value
    ) async throws -> Value {
        let granted = try await wait(for: try begin(items))
        let accesses = items.map(\.access)
        guard accesses.contains(where: \.isForUploading) else {
            try noteRunning(granted)
            defer { end(granted) }
            return try await AccessContext.$current.withValue(AccessContext.current.within(granted.accesses))
            {
                try await accessor(granted.urls)
            }
        }
        let uploadCopies = try await Self.offThread {
            try UploadCopies(of: accesses, endingOnFailure: granted)
        }
        defer { uploadCopies?.remove() }
        let urls = uploadCopies?.urls ?? granted.urls
        // The accessor uses only copies of the items. So the accesses end before the accessor runs, and other programs need not
        // wait for it.
        if uploadCopies?.coversAll ?? false {
            try granted.check()
            granted.end()
            return try await accessor(urls)
        }
        try noteRunning(granted)
        defer { end(granted) }
        return try await AccessContext.$current.withValue(AccessContext.current.within(granted.accesses)) {
            try await accessor(urls)
        }
    }

    private func wait(for group: AccessGroup) async throws -> AccessGroup.GrantedAccesses {
        defer { removeWaiting(group) }
        do {
            return try await withTaskCancellationHandler {
                try await withCheckedThrowingContinuation { continuation in
                    DispatchQueue.global().async { group.begin { continuation.resume(with: $0) } }
                }
            } onCancel: {
                group.cancel()
            }
        } catch let error as CocoaError where error.code == .userCancelled && Task.isCancelled {
            throw CancellationError()
        }
    }

    /// Runs slow work on a dispatch queue, because it would block a thread that Swift's tasks share.
    private static func offThread<Value: Sendable>(
        _ body: @escaping @Sendable () throws -> Value
    ) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            DispatchQueue.global().async { continuation.resume(with: Result { try body() }) }
        }
    }
}
