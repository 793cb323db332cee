// SPDX-License-Identifier: Apache-2.0
import Coordination
public import Foundation

/// Apple's methods. They block until their accessor has returned or the access has failed, unless noted otherwise.
extension FileCoordinator {
    /// Reads one item.
    ///
    /// The accessor is called on this thread, with the item's present URL. If it was not called, the error says why.
    public func coordinate(
        readingItemAt url: URL, options: ReadingOptions = [], error outError: NSErrorPointer,
        byAccessor reader: (URL) -> Void
    ) {
        attempt(outError) { try perform([(url, .read(options.coordinationOptions))]) { reader($0[0]) } }
    }

    /// Writes one item, which includes reading it.
    public func coordinate(
        writingItemAt url: URL, options: WritingOptions = [], error outError: NSErrorPointer,
        byAccessor writer: (URL) -> Void
    ) {
        attempt(outError) { try perform([(url, .write(options.coordinationOption))]) { writer($0[0]) } }
    }

    /// Reads one item and writes another, for example to copy it; both are granted at once.
    public func coordinate(
        readingItemAt readingURL: URL, options readingOptions: ReadingOptions = [],
        writingItemAt writingURL: URL, options writingOptions: WritingOptions = [],
        error outError: NSErrorPointer, byAccessor readerWriter: (URL, URL) -> Void
    ) {
        attempt(outError) {
            try perform([
                (readingURL, .read(readingOptions.coordinationOptions)),
                (writingURL, .write(writingOptions.coordinationOption)),
            ]) { readerWriter($0[0], $0[1]) }
        }
    }

    /// Writes two items, for example to move one to the place of the other: `.forMoving` and `.forReplacing`.
    public func coordinate(
        writingItemAt url1: URL, options options1: WritingOptions = [], writingItemAt url2: URL,
        options options2: WritingOptions = [], error outError: NSErrorPointer,
        byAccessor writer: (URL, URL) -> Void
    ) {
        attempt(outError) {
            try perform([
                (url1, .write(options1.coordinationOption)), (url2, .write(options2.coordinationOption)),
            ]) {
                writer($0[0], $0[1])
            }
        }
    }

    /// Asks the presenters of many items, and of all items in them, before each is accessed.
    ///
    /// Pass the items that the user has selected. No claim is held. The batch accessor coordinates each access as
    /// usual, with this coordinator. Presenters that have answered are not asked again until the completion handler is
    /// called. The batch accessor is called on this thread, and may call its completion handler on any thread.
    ///
    /// - Precondition: Neither `.resolvesSymbolicLink` nor `.forReplacing`.
    public func prepare(
        forReadingItemsAt readingURLs: [URL], options readingOptions: ReadingOptions = [],
        writingItemsAt writingURLs: [URL], options writingOptions: WritingOptions = [],
        error outError: NSErrorPointer, byAccessor batchAccessor: (@escaping @Sendable () -> Void) -> Void
    ) {
        let items =
            readingURLs.map { ($0, Access.read(readingOptions.coordinationOptions)) }
            + writingURLs.map { ($0, Access.write(writingOptions.coordinationOption)) }
        attempt(outError) {
            guard !items.isEmpty else { return batchAccessor({}) }
            let group = try begin(items, isBatch: true)
            defer { removeWaiting(group) }
            let granted = try group.wait()
            batchAccessor { granted.end() }
        }
    }

    /// Accesses several items with an accessor that runs later, on a queue.
    ///
    /// This method does not block. The accessor is called on the queue, with an error if there is no access. The access
    /// ends when the accessor returns.
    public func coordinate(
        with intents: [FileAccessIntent], queue: OperationQueue,
        byAccessor accessor: @escaping @Sendable ((any Error)?) -> Void
    ) {
        // The queue's threads do not inherit this thread's task-local context.
        let accessContext = AccessContext.current
        let enqueue: QueueExecutor = { body in
            queue.addOperation { AccessContext.$current.withValue(accessContext) { body() } }
        }
        let group: AccessGroup
        do {
            group = try begin(intents.map { ($0.url, $0.access) })
        } catch {
            return enqueue { accessor(error) }
        }
        // Connecting may take a moment, and this method must not block.
        DispatchQueue.global().async { [self] in
            group.begin { result in
                self.removeWaiting(group)
                self.run(intents, result, enqueue, accessor)
            }
        }
    }

    /// Runs a body on a queue. If its operation is cancelled, the body is released without a call.
    private typealias QueueExecutor = @Sendable (@escaping @Sendable () -> Void) -> Void

    private func run(
        _ intents: [FileAccessIntent], _ result: Result<AccessGroup.GrantedAccesses, any Error>,
        _ enqueue: @escaping QueueExecutor, _ accessor: @escaping @Sendable ((any Error)?) -> Void
    ) {
        let granted: AccessGroup.GrantedAccesses
        switch result {
        case .success(let access): granted = access
        case .failure(let error): return enqueue { accessor(error) }
        }
        guard intents.contains(where: { $0.access.isForUploading }) else {
            for (intent, url) in zip(intents, granted.urls) { intent.move(to: url) }
            return enqueue { self.serve(granted, accessor) }
        }
        // Copying is slow, so it runs outside the accessor's queue.
        DispatchQueue.global().async {
            do {
                let uploadCopies = try UploadCopies(of: intents.map(\.access), endingOnFailure: granted)
                for (intent, url) in zip(intents, uploadCopies?.urls ?? granted.urls) { intent.move(to: url) }
                try granted.check()
                let coversAll = uploadCopies?.coversAll ?? false
                if coversAll { granted.end() }
                enqueue {
                    if coversAll { accessor(nil) } else { self.serve(granted, accessor) }
                    uploadCopies?.remove()
                }
            } catch {
                enqueue { accessor(error) }
            }
        }
    }

    /// Runs the accessor after checking the access again, since it may have been lost while the queue was busy.
    private func serve(_ granted: AccessGroup.GrantedAccesses, _ accessor: ((any Error)?) -> Void) {
        do {
            try run(granted) { accessor(nil) }
        } catch {
            accessor(error)
        }
    }

    private func attempt(_ outError: NSErrorPointer, _ body: () throws -> Void) {
        do {
            try body()
        } catch let error as FileCoordinationError {
            outError?.pointee = error.asNSError
        } catch {
            outError?.pointee = error as NSError
        }
    }
}

extension Access {
    var isForUploading: Bool {
        if case .read(let options) = self { options.contains(.forUploading) } else { false }
    }
}
