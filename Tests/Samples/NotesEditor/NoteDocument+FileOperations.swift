// SPDX-License-Identifier: Apache-2.0
import FileCoordination
import Foundation

/// The commands of the File menu.
extension NoteDocument {
    /// Saves the note at another URL.
    ///
    /// If there is a file at this URL, it is replaced, and another note that shows this file must close it before. The option
    /// `.forReplacing` makes the daemon ask for this.
    func saveAs(_ url: URL) throws {
        try write(to: url, options: .forReplacing) { newURL in
            let isUntitled = withState { $0.fileURL == nil }
            // After this access, the library asks presenters without a file for their URL, but not presenters that have a file.
            // So the note is removed as a presenter now, and registered for the new file later.
            if !isUntitled { NSFileCoordinator.removeFilePresenter(self) }
            withState { $0.fileURL = newURL }
            if !isUntitled { NSFileCoordinator.addFilePresenter(self) }
        }
    }

    func rename(to name: String) throws {
        guard let source = withState({ $0.fileURL }) else { throw CocoaError(.fileNoSuchFile) }
        let destination = source.deletingLastPathComponent().appendingPathComponent(name)
        let coordinator = NSFileCoordinator(filePresenter: self)
        var coordinationError: NSError?
        var moveError: (any Error)?
        coordinator.coordinate(
            writingItemAt: source, options: .forMoving, writingItemAt: destination, options: .forReplacing,
            error: &coordinationError
        ) { newSource, newDestination in
            do {
                coordinator.item(at: newSource, willMoveTo: newDestination)
                try FileManager.default.moveItem(at: newSource, to: newDestination)
                // The note gets no message about its own move, so it sets its URL here.
                withState { $0.fileURL = newDestination }
                coordinator.item(at: newSource, didMoveTo: newDestination)
            } catch {
                moveError = error
            }
        }
        if let error = coordinationError ?? moveError { throw error }
    }

    /// Makes the note read-only, or writable again. The access does not change the contents of the note.
    func setReadOnly(_ isReadOnly: Bool) throws {
        try change(.contentIndependentMetadataOnly) { newURL in
            let permissions = isReadOnly ? 0o400 : 0o600
            try FileManager.default.setAttributes(
                [.posixPermissions: permissions], ofItemAtPath: newURL.path)
        }
    }

    func delete() throws {
        try change(.forDeleting) { try FileManager.default.removeItem(at: $0) }
        close()
    }

    private func change(
        _ options: NSFileCoordinator.WritingOptions, _ body: (URL) throws -> Void
    ) throws {
        guard let url = withState({ $0.fileURL }) else { throw CocoaError(.fileNoSuchFile) }
        var coordinationError: NSError?
        var changeError: (any Error)?
        NSFileCoordinator(filePresenter: self).coordinate(
            writingItemAt: url, options: options, error: &coordinationError
        ) { newURL in
            do { try body(newURL) } catch { changeError = error }
        }
        if let error = coordinationError ?? changeError { throw error }
    }
}

/// A read that waits for other programs as long as necessary. The user can cancel it.
final class PatientRead: @unchecked Sendable {
    // @unchecked: one thread coordinates, and any thread may cancel the coordinator.
    private let coordinator: NSFileCoordinator
    private let url: URL

    init(_ url: URL, for presenter: (any NSFilePresenter)? = nil) {
        self.url = url
        coordinator = NSFileCoordinator(filePresenter: presenter)
    }

    func start(completion: @escaping @Sendable (Result<String, any Error>) -> Void) {
        DispatchQueue.global(qos: .userInitiated).async { [self] in
            var coordinationError: NSError?
            var result: Result<String, any Error>?
            coordinator.coordinate(readingItemAt: url, options: [], error: &coordinationError) { newURL in
                result = Result { try String(contentsOf: newURL, encoding: .utf8) }
            }
            if let coordinationError {
                completion(.failure(coordinationError))
            } else if let result {
                completion(result)
            }
        }
    }

    func cancel() {
        coordinator.cancel()
    }
}
