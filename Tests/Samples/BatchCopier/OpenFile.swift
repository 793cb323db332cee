// SPDX-License-Identifier: Apache-2.0
import FileCoordination
import Foundation

/// A file that is open in an editor, with changes that are not on the disk yet.
final class OpenFile: NSObject, NSFilePresenter, @unchecked Sendable {
    // @unchecked: `state` is accessed only while `lock` is held; everything else never changes.
    private struct State {
        var url: URL
        var unsavedText: String?
        var saves = 0
    }

    let presentedItemOperationQueue: OperationQueue
    private let report: @Sendable (String) -> Void
    private let lock = NSLock()
    private var state: State

    init(url: URL, unsavedText: String?, report: @escaping @Sendable (String) -> Void) {
        state = State(url: url, unsavedText: unsavedText)
        self.report = report
        presentedItemOperationQueue = OperationQueue()
        presentedItemOperationQueue.maxConcurrentOperationCount = 1
        super.init()
        NSFileCoordinator.addFilePresenter(self)
    }

    func close() {
        NSFileCoordinator.removeFilePresenter(self)
    }

    var presentedItemURL: URL? { lock.withLock { state.url } }

    /// How many times the file's program was asked to save. Requests that came when nothing was unsaved also count.
    var saves: Int { lock.withLock { state.saves } }

    func savePresentedItemChanges(completionHandler: @escaping @Sendable ((any Error)?) -> Void) {
        let (url, text) = lock.withLock {
            state.saves += 1
            return (state.url, state.unsavedText)
        }
        guard let text else { return completionHandler(nil) }
        var coordinationError: NSError?
        var writeError: (any Error)?
        NSFileCoordinator(filePresenter: self).coordinate(
            writingItemAt: url, options: [], error: &coordinationError
        ) { newURL in
            do {
                try Data(text.utf8).write(to: newURL, options: .atomic)
                lock.withLock { state.unsavedText = nil }
            } catch {
                writeError = error
            }
        }
        completionHandler(coordinationError ?? writeError)
    }

    /// Called when a reader comes. If a program has called `prepare` for many files, the presenter can be asked to save without
    /// this question.
    func relinquishPresentedItem(toReader reader: @escaping @Sendable ((@Sendable () -> Void)?) -> Void) {
        reader { [report] in report("reacquired from a reader") }
    }

    func accommodatePresentedItemDeletion(completionHandler: @escaping @Sendable ((any Error)?) -> Void) {
        close()
        report("closed")
        completionHandler(nil)
    }

    func presentedItemDidMove(to newURL: URL) {
        lock.withLock { state.url = newURL }
        report("moved to \(newURL.lastPathComponent)")
    }
}
