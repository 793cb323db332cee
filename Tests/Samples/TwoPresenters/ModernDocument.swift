// SPDX-License-Identifier: Apache-2.0
import FileCoordination
import Foundation

/// A document that uses `async` methods instead of completion handlers.
///
/// Work that blocks runs on the document's own queue, because a task must not block.
final class ModernDocument: NSObject, NSFilePresenter, Sendable {
    private struct State {
        var fileURL: URL
        var savedText = ""
        var unsavedText: String?
    }

    let presentedItemOperationQueue: OperationQueue
    private let report: @Sendable (String) -> Void
    private let state: LockProtected<State>
    private let fileAccess = DispatchQueue(label: "org.example.TwoPresenters.modern.files")

    init(url: URL, report: @escaping @Sendable (String) -> Void) {
        state = LockProtected(State(fileURL: url))
        self.report = report
        presentedItemOperationQueue = OperationQueue()
        presentedItemOperationQueue.name = "org.example.TwoPresenters.modern"
        presentedItemOperationQueue.maxConcurrentOperationCount = 1
        super.init()
    }

    var presentedItemURL: URL? { state.with { $0.fileURL } }

    func open() throws {
        try read { [self] text in
            state.with { $0.savedText = text }
            NSFileCoordinator.addFilePresenter(self)
        }
    }

    func close() {
        NSFileCoordinator.removeFilePresenter(self)
    }

    func edit(_ text: String) {
        state.with { $0.unsavedText = text }
    }

    func save() async throws {
        try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
            fileAccess.async { [self] in continuation.resume(with: Result { try write() }) }
        }
    }

    private func read(_ body: (String) -> Void) throws {
        var coordinationError: NSError?
        var readError: (any Error)?
        NSFileCoordinator(filePresenter: self).coordinate(
            readingItemAt: state.with { $0.fileURL }, options: [], error: &coordinationError
        ) { newURL in
            do { body(try String(contentsOf: newURL, encoding: .utf8)) } catch { readError = error }
        }
        if let error = coordinationError ?? readError { throw error }
    }

    private func write() throws {
        let (url, unsaved) = state.with { ($0.fileURL, $0.unsavedText) }
        guard let unsaved else { return }
        var coordinationError: NSError?
        var writeError: (any Error)?
        NSFileCoordinator(filePresenter: self).coordinate(writingItemAt: url, error: &coordinationError) {
            do {
                try Data(unsaved.utf8).write(to: $0, options: .atomic)
                state.with { state in
                    state.savedText = unsaved
                    state.unsavedText = nil
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

    func savePresentedItemChanges() async throws {
        guard state.with({ $0.unsavedText != nil }) else { return }
        try await save()
        report("saved on request")
    }

    func accommodatePresentedItemDeletion() async throws {
        close()
        report("closed")
    }

    func presentedItemDidMove(to newURL: URL) {
        state.with { $0.fileURL = newURL }
    }

    /// Reads the file again. ``ClassicDocument`` describes the deadlock that could happen if both documents read at the same
    /// time.
    func presentedItemDidChange() {
        do {
            try read { text in
                let isNews = state.with { state in
                    defer { state.savedText = text }
                    return state.savedText != text
                }
                if isNews { report("has read '\(text)'") }
            }
        } catch {
            report("could not read: \(error)")
        }
    }
}

/// A value that only one thread at a time can access.
final class LockProtected<Value>: @unchecked Sendable {
    // @unchecked: `value` is accessed only while `lock` is held.
    private let lock = NSLock()
    private var value: Value

    init(_ value: Value) {
        self.value = value
    }

    func with<Result>(_ body: (inout Value) throws -> Result) rethrows -> Result {
        try lock.withLock { try body(&value) }
    }
}
