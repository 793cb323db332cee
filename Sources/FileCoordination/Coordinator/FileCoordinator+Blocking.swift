// SPDX-License-Identifier: Apache-2.0
import Coordination
public import Foundation

/// Apple's methods for accesses. Unless a method says otherwise, it blocks until its accessor has returned or the access has
/// failed.
extension FileCoordinator {
    /// Reads one item.
    ///
    /// The accessor is called on the calling thread, with the URL that the item has when the access begins. If the access
    /// fails, the accessor is not called, and the error gives the reason.
    public func coordinate(
        readingItemAt url: URL, options: ReadingOptions = [], error outError: NSErrorPointer,
        byAccessor reader: (URL) -> Void
    ) {
        attempt(outError) {
            try perform([AccessItem(url, .read(options.coordinationOptions))]) { reader($0[0]) }
        }
    }

    /// Writes one item. The accessor may also read the item.
    public func coordinate(
        writingItemAt url: URL, options: WritingOptions = [], error outError: NSErrorPointer,
        byAccessor writer: (URL) -> Void
    ) {
        attempt(outError) {
            try perform([AccessItem(url, .write(options.coordinationOption))]) { writer($0[0]) }
        }
    }

    /// Writes one item that still has a generation, as from ``FileCoordinator/generation(ofItemAt:)``. If the item has changed
    /// since, the accessor is not called, and the error has the code ``FileCoordinationError/Code/changed``.
    public func coordinate(
        writingItemAt url: URL, options: WritingOptions = [], ifGeneration generation: String,
        error outError: NSErrorPointer, byAccessor writer: (URL) -> Void
    ) {
        attempt(outError) {
            let item = AccessItem(url, .write(options.coordinationOption), ifGeneration: generation)
            try perform([item]) { writer($0[0]) }
        }
    }

    /// Reads one item and writes another item, for example to copy the first to the second. If the items are in one mount, both
    /// accesses are granted at the same time.
    public func coordinate(
        readingItemAt readingURL: URL, options readingOptions: ReadingOptions = [],
        writingItemAt writingURL: URL, options writingOptions: WritingOptions = [],
        error outError: NSErrorPointer, byAccessor readerWriter: (URL, URL) -> Void
    ) {
        attempt(outError) {
            try perform([
                AccessItem(readingURL, .read(readingOptions.coordinationOptions)),
                AccessItem(writingURL, .write(writingOptions.coordinationOption)),
            ]) { readerWriter($0[0], $0[1]) }
        }
    }

    /// Writes two items. To move the first item to the place of the second, use `.forMoving` and `.forReplacing`.
    public func coordinate(
        writingItemAt url1: URL, options options1: WritingOptions = [], writingItemAt url2: URL,
        options options2: WritingOptions = [], error outError: NSErrorPointer,
        byAccessor writer: (URL, URL) -> Void
    ) {
        attempt(outError) {
            try perform([
                AccessItem(url1, .write(options1.coordinationOption)),
                AccessItem(url2, .write(options2.coordinationOption)),
            ]) {
                writer($0[0], $0[1])
            }
        }
    }

    /// Asks the presenters of many items, and of all items in them, before the program accesses the items one by one.
    ///
    /// Pass the items that the user has selected. No claim is held. The batch accessor is called on the calling thread, and
    /// coordinates each access with this coordinator as usual. Presenters that have answered are not asked again until the
    /// batch accessor calls its completion handler. It may call the handler on any thread.
    ///
    /// - Precondition: The options contain neither `.resolvesSymbolicLink` nor `.forReplacing`.
    public func prepare(
        forReadingItemsAt readingURLs: [URL], options readingOptions: ReadingOptions = [],
        writingItemsAt writingURLs: [URL], options writingOptions: WritingOptions = [],
        error outError: NSErrorPointer, byAccessor batchAccessor: (@escaping @Sendable () -> Void) -> Void
    ) {
        let items =
            readingURLs.map { AccessItem($0, .read(readingOptions.coordinationOptions)) }
            + writingURLs.map { AccessItem($0, .write(writingOptions.coordinationOption)) }
        attempt(outError) {
            guard !items.isEmpty else { return batchAccessor({}) }
            let group = try begin(items, isBatch: true)
            defer { removeWaiting(group) }
            let granted = try group.wait()
            batchAccessor { granted.end() }
        }
    }

    /// Accesses several items. The accessor runs later, on a queue.
    ///
    /// This method does not block. If the access fails, the accessor is called with an error. The access ends when the accessor
    /// returns.
    public func coordinate(
        with intents: [FileAccessIntent], queue: OperationQueue,
        byAccessor accessor: @escaping @Sendable ((any Error)?) -> Void
    ) {
        // The threads of the queue do not inherit the task-local context of the calling thread. This line passes the context
        // on.
        let accessContext = AccessContext.current
        let enqueue: QueueExecutor = { body in
            queue.addOperation { AccessContext.$current.withValue(accessContext) { body() } }
        }
        let group: AccessGroup
        do {
            group = try begin(intents.map { AccessItem($0) })
        } catch {
            return enqueue { accessor(error) }
        }
        // To connect to the daemon can take a moment, and this method must not block. So another queue does it.
        DispatchQueue.global().async { [self] in
            group.begin { result in
                self.removeWaiting(group)
                self.run(intents, result, enqueue, accessor)
            }
        }
    }

    /// Runs a closure on a queue. If the closure's operation is cancelled, the closure is released without being called.
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
        // To copy the items takes long, so it is not done on the queue of the accessor.
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

    /// Runs the accessor if the accesses are still held. If they were lost while the accessor waited on its queue, the accessor
    /// is called with an error.
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
