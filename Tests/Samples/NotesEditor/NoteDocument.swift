// SPDX-License-Identifier: Apache-2.0
import FileCoordination
import Foundation

/// The date and size that a file had when a document last read or wrote it.
struct FileStamp: Equatable {
    let modificationDate: Date?
    let size: Int?
    let fileNumber: Int?

    init(of url: URL) throws {
        let attributes = try FileManager.default.attributesOfItem(atPath: url.path)
        modificationDate = attributes[.modificationDate] as? Date
        size = (attributes[.size] as? NSNumber)?.intValue
        fileNumber = (attributes[.systemFileNumber] as? NSNumber)?.intValue
    }
}

/// A plain-text note that saves itself. Other programs may read, write, move and delete its file.
final class NoteDocument: NSObject, @unchecked Sendable {
    // @unchecked: `state` is accessed only while `lock` is held; everything else never changes.
    struct State {
        /// The URL of the note's file; nil if the note was never saved.
        var fileURL: URL?
        var text = ""
        var editCount = 0
        var savedEditCount = 0
        var stamp: FileStamp?
        /// The number of accesses of other programs to which the note has relinquished its file. While it is above 0, autosave
        /// waits.
        var relinquishments = 0
        var hasConflict = false
        var isPresenting = false
        var autosave: DispatchWorkItem?

        var hasUnsavedChanges: Bool { editCount != savedEditCount }
        var canAutosave: Bool {
            fileURL != nil && hasUnsavedChanges && relinquishments == 0 && !hasConflict && isPresenting
        }
    }

    let presentedItemOperationQueue: OperationQueue
    let report: @Sendable (String) -> Void

    private let lock = NSLock()
    private var state = State()
    /// Locked during each save, so that an autosave and a save on request take turns. Coordinators of one presenter do not
    /// exclude each other.
    private let writing = NSLock()
    private let autosaveDelay: TimeInterval
    private let autosaveQueue = DispatchQueue(label: "org.example.NotesEditor.autosave")

    init(autosaveDelay: TimeInterval = 15, report: @escaping @Sendable (String) -> Void) {
        self.autosaveDelay = autosaveDelay
        self.report = report
        presentedItemOperationQueue = OperationQueue()
        presentedItemOperationQueue.name = "org.example.NotesEditor.presenter"
        presentedItemOperationQueue.maxConcurrentOperationCount = 1
        super.init()
    }

    func withState<Value>(_ body: (inout State) throws -> Value) rethrows -> Value {
        try lock.withLock { try body(&state) }
    }

    var text: String { withState { $0.text } }
    var hasUnsavedChanges: Bool { withState { $0.hasUnsavedChanges } }
    var isOpen: Bool { withState { $0.isPresenting } }

    // MARK: - Opening and closing a note

    /// Starts a note without a file. The note is a presenter from the start.
    func openUntitled() {
        startPresenting()
    }

    /// Opens a note. The note registers in the same access in which it reads the file, so it misses no change after the read.
    func open(_ url: URL) throws {
        let coordinator = NSFileCoordinator(filePresenter: self)
        var coordinationError: NSError?
        var readError: (any Error)?
        coordinator.coordinate(readingItemAt: url, options: [], error: &coordinationError) { newURL in
            do {
                try load(newURL)
                startPresenting()
            } catch {
                readError = error
            }
        }
        if let error = coordinationError ?? readError { throw error }
    }

    func close() {
        let wasPresenting = withState { state in
            state.autosave?.cancel()
            state.autosave = nil
            defer { state.isPresenting = false }
            return state.isPresenting
        }
        if wasPresenting { NSFileCoordinator.removeFilePresenter(self) }
    }

    func startPresenting() {
        withState { $0.isPresenting = true }
        NSFileCoordinator.addFilePresenter(self)
    }

    /// Reads the file. The caller must be inside a coordinated access.
    private func load(_ url: URL) throws {
        let text = try String(contentsOf: url, encoding: .utf8)
        let stamp = try FileStamp(of: url)
        withState { state in
            state.fileURL = url
            state.text = text
            state.stamp = stamp
            state.savedEditCount = state.editCount
            state.hasConflict = false
        }
    }

    // MARK: - Editing and saving a note

    func edit(_ text: String) {
        withState { state in
            state.text = text
            state.editCount += 1
        }
        scheduleAutosave()
    }

    func save() throws {
        guard let url = withState({ $0.fileURL }) else { throw CocoaError(.fileNoSuchFile) }
        try write(to: url, options: []) { _ in }
    }

    /// Saves the note with a new coordinator. Edits that the user makes during the save remain unsaved.
    func write(
        to url: URL, options: NSFileCoordinator.WritingOptions, adopting adopt: (URL) -> Void
    ) throws {
        let coordinator = NSFileCoordinator(filePresenter: self)
        var coordinationError: NSError?
        var writeError: (any Error)?
        coordinator.coordinate(writingItemAt: url, options: options, error: &coordinationError) { newURL in
            do {
                try writing.withLock {
                    let (text, editCount) = withState { ($0.text, $0.editCount) }
                    try Data(text.utf8).write(to: newURL, options: .atomic)
                    let stamp = try FileStamp(of: newURL)
                    withState { state in
                        state.savedEditCount = editCount
                        state.stamp = stamp
                        state.hasConflict = false
                    }
                }
                adopt(newURL)
            } catch {
                writeError = error
            }
        }
        if let error = coordinationError ?? writeError { throw error }
    }

    func scheduleAutosave() {
        let work = DispatchWorkItem { [weak self] in self?.autosave() }
        withState { state in
            state.autosave?.cancel()
            state.autosave = work
        }
        autosaveQueue.asyncAfter(deadline: .now() + autosaveDelay, execute: work)
    }

    private func autosave() {
        guard withState({ $0.canAutosave }) else { return }
        do {
            try save()
            report("saved itself")
        } catch {
            report("could not save itself: \(error.localizedDescription)")
            scheduleAutosave()
        }
    }

    // MARK: - Changes by other programs

    /// Reads the file again if its date or size has changed since the note last read or wrote it.
    ///
    /// A notice of a change can have three reasons: a write, a changed attribute, or the note's own save.
    func readAgainIfChanged() {
        guard let url = withState({ $0.isPresenting ? $0.fileURL : nil }) else { return }
        var coordinationError: NSError?
        var readError: (any Error)?
        NSFileCoordinator(filePresenter: self).coordinate(
            readingItemAt: url, options: .withoutChanges, error: &coordinationError
        ) { newURL in
            do {
                let stamp = try FileStamp(of: newURL)
                guard stamp != withState({ $0.stamp }) else { return }
                if hasUnsavedChanges {
                    withState { $0.hasConflict = true }
                    report("was changed by another program and has unsaved edits")
                } else {
                    try load(newURL)
                    report("read again: \(text)")
                }
            } catch {
                readError = error
            }
        }
        if let error = coordinationError ?? readError {
            report("could not read again: \(error.localizedDescription)")
        }
    }

    func revert() throws {
        guard let url = withState({ $0.fileURL }) else { return }
        var coordinationError: NSError?
        var readError: (any Error)?
        NSFileCoordinator(filePresenter: self).coordinate(
            readingItemAt: url, error: &coordinationError
        ) { newURL in
            do { try load(newURL) } catch { readError = error }
        }
        if let error = coordinationError ?? readError { throw error }
    }
}
