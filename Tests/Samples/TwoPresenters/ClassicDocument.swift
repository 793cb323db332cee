// SPDX-License-Identifier: Apache-2.0
import FileCoordination
import Foundation

/// A document in the style that was usual before `async`: it uses completion handlers, all on its own queue.
final class ClassicDocument: NSObject, NSFilePresenter, @unchecked Sendable {
    // @unchecked: the three variables are accessed only while `lock` is held; everything else never changes.
    let presentedItemOperationQueue: OperationQueue
    private let report: @Sendable (String) -> Void
    private let lock = NSLock()
    private var fileURL: URL
    private var savedText = ""
    private var unsavedText: String?

    init(url: URL, report: @escaping @Sendable (String) -> Void) {
        fileURL = url
        self.report = report
        presentedItemOperationQueue = OperationQueue()
        presentedItemOperationQueue.name = "org.example.TwoPresenters.classic"
        // The queue is serial. If a message arrives while the document reads, the message waits until the read has ended.
        presentedItemOperationQueue.maxConcurrentOperationCount = 1
        super.init()
    }

    var presentedItemURL: URL? { lock.withLock { fileURL } }

    func open() throws {
        var coordinationError: NSError?
        var readError: (any Error)?
        NSFileCoordinator(filePresenter: self).coordinate(
            readingItemAt: lock.withLock { fileURL }, error: &coordinationError
        ) { newURL in
            do {
                let text = try String(contentsOf: newURL, encoding: .utf8)
                lock.withLock { savedText = text }
                NSFileCoordinator.addFilePresenter(self)
            } catch {
                readError = error
            }
        }
        if let error = coordinationError ?? readError { throw error }
    }

    func close() {
        NSFileCoordinator.removeFilePresenter(self)
    }

    func edit(_ text: String) {
        lock.withLock { unsavedText = text }
    }

    /// Saves with a coordinator that belongs to the document, so that the document is not told of its own save.
    func save() throws {
        guard let text = lock.withLock({ unsavedText }) else { return }
        var coordinationError: NSError?
        var writeError: (any Error)?
        NSFileCoordinator(filePresenter: self).coordinate(
            writingItemAt: lock.withLock { fileURL }, options: [], error: &coordinationError
        ) { newURL in
            do {
                try Data(text.utf8).write(to: newURL, options: .atomic)
                lock.withLock {
                    savedText = text
                    unsavedText = nil
                }
            } catch {
                writeError = error
            }
        }
        if let error = coordinationError ?? writeError { throw error }
    }

    // MARK: - Questions and notices (NSFilePresenter)

    func relinquishPresentedItem(toReader reader: @escaping @Sendable ((@Sendable () -> Void)?) -> Void) {
        reader(nil)
    }

    func relinquishPresentedItem(toWriter writer: @escaping @Sendable ((@Sendable () -> Void)?) -> Void) {
        report("relinquished")
        writer { [report] in report("reacquired") }
    }

    func savePresentedItemChanges(completionHandler: @escaping ((any Error)?) -> Void) {
        do {
            try save()
            completionHandler(nil)
        } catch {
            completionHandler(error)
        }
    }

    func accommodatePresentedItemDeletion(completionHandler: @escaping ((any Error)?) -> Void) {
        close()
        report("closed")
        completionHandler(nil)
    }

    func presentedItemDidMove(to newURL: URL) {
        lock.withLock { fileURL = newURL }
    }

    /// Reads the file again, on the document's own queue.
    ///
    /// This could be a deadlock: the daemon asks the other document to relinquish the file for this read. At this time the
    /// other document also reads on its own queue, and can answer only after its read. This document can also answer only after
    /// its own read.
    func presentedItemDidChange() {
        var coordinationError: NSError?
        var result: Result<String, any Error>?
        NSFileCoordinator(filePresenter: self).coordinate(
            readingItemAt: lock.withLock { fileURL }, options: [], error: &coordinationError
        ) { newURL in
            result = Result { try String(contentsOf: newURL, encoding: .utf8) }
        }
        switch result {
        case .success(let text)?:
            let isNews = lock.withLock {
                defer { savedText = text }
                return savedText != text
            }
            if isNews { report("has read '\(text)'") }
        case .failure(let error)?: report("could not read: \(error)")
        case nil: report("was not allowed to read: \(String(describing: coordinationError))")
        }
    }
}
