// SPDX-License-Identifier: Apache-2.0
import FileCoordination
import Foundation

/// What the File menu offers.
extension NoteDocument {
    /// A note that shows what is there now has to go before it is replaced: hence `.forReplacing`.
    func saveAs(_ url: URL) throws {
        try write(to: url, options: .forReplacing) { newURL in
            let isUntitled = withState { $0.fileURL == nil }
            // A presenter without a file is asked for its URL again when this access is over. One that has a
            // file keeps it, so it presents the new one as a new presenter.
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
                // The note itself is not told of its own doing.
                withState { $0.fileURL = newDestination }
                coordinator.item(at: newSource, didMoveTo: newDestination)
            } catch {
                moveError = error
            }
        }
        if let error = coordinationError ?? moveError { throw error }
    }

    /// Whether the note is read-only is nothing that its contents depend on.
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

/// A read that may have to wait for others, until the user loses patience.
final class PatientRead: @unchecked Sendable {
    // @unchecked: one thread coordinates, and the coordinator may be cancelled from any other.
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
