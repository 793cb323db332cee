// SPDX-License-Identifier: Apache-2.0
import FileCoordination
import Foundation

/// Copies and moves the user's selection, as a file manager does.
final class BatchCopier {
    /// The result of copying one file.
    struct CopyResult {
        let name: String
        let error: (any Error)?
    }

    private let files = FileManager.default

    /// Copies the selected items into a folder.
    ///
    /// Before the first copy, the presenters of all files in the selection, at any depth, are asked to save. So the access to
    /// each single file need not ask its presenters a second time.
    func copy(_ sources: [URL], into folder: URL) throws -> [CopyResult] {
        let coordinator = NSFileCoordinator(filePresenter: nil)
        var coordinationError: NSError?
        var copied: [CopyResult] = []
        coordinator.prepare(
            forReadingItemsAt: sources, options: [], writingItemsAt: [folder], options: [],
            error: &coordinationError
        ) { completionHandler in
            for source in sources {
                let destination = folder.appendingPathComponent(source.lastPathComponent)
                copied += copyItem(at: source, to: destination, coordinator)
            }
            // The completion handler may be called on any thread. Until this call, presenters that have answered are not asked
            // a second time.
            DispatchQueue.global(qos: .utility).async { completionHandler() }
        }
        if let coordinationError { throw coordinationError }
        return copied
    }

    /// Copies a folder file by file. So other programs wait only for the file that is being copied, not for the whole folder.
    private func copyItem(at source: URL, to destination: URL, _ coordinator: NSFileCoordinator)
        -> [CopyResult]
    {
        var isFolder: ObjCBool = false
        guard files.fileExists(atPath: source.path, isDirectory: &isFolder), isFolder.boolValue else {
            return [copyFile(at: source, to: destination, coordinator)]
        }
        do {
            let names = try makeFolder(like: source, at: destination, coordinator)
            return names.flatMap { name in
                copyItem(
                    at: source.appendingPathComponent(name), to: destination.appendingPathComponent(name),
                    coordinator)
            }
        } catch {
            return [CopyResult(name: source.lastPathComponent, error: error)]
        }
    }

    private func makeFolder(
        like source: URL, at destination: URL, _ coordinator: NSFileCoordinator
    ) throws -> [String] {
        var coordinationError: NSError?
        var result: Result<[String], any Error>?
        coordinator.coordinate(
            readingItemAt: source, options: .withoutChanges, writingItemAt: destination, options: [],
            error: &coordinationError
        ) { newSource, newDestination in
            result = Result {
                try files.createDirectory(at: newDestination, withIntermediateDirectories: true)
                return try files.contentsOfDirectory(atPath: newSource.path).sorted()
            }
        }
        if let coordinationError { throw coordinationError }
        return try result?.get() ?? []
    }

    /// Copies a file over the file at the destination. Presenters of the file that is replaced are asked before the copy.
    private func copyFile(at source: URL, to destination: URL, _ coordinator: NSFileCoordinator) -> CopyResult
    {
        var coordinationError: NSError?
        var copyError: (any Error)?
        coordinator.coordinate(
            readingItemAt: source, options: .withoutChanges, writingItemAt: destination,
            options: .forReplacing, error: &coordinationError
        ) { newSource, newDestination in
            do {
                if files.fileExists(atPath: newDestination.path) {
                    try files.removeItem(at: newDestination)
                }
                try files.copyItem(at: newSource, to: newDestination)
            } catch {
                copyError = error
            }
        }
        return CopyResult(name: destination.lastPathComponent, error: coordinationError ?? copyError)
    }

    /// Moves an item. One call requests both writes, because two nested writes could deadlock with another program's move in
    /// the other direction.
    func move(_ source: URL, to destination: URL) throws {
        let coordinator = NSFileCoordinator(filePresenter: nil)
        var coordinationError: NSError?
        var moveError: (any Error)?
        coordinator.coordinate(
            writingItemAt: source, options: .forMoving, writingItemAt: destination, options: .forReplacing,
            error: &coordinationError
        ) { newSource, newDestination in
            do {
                if files.fileExists(atPath: newDestination.path) {
                    try files.removeItem(at: newDestination)
                }
                try files.moveItem(at: newSource, to: newDestination)
                coordinator.item(at: newSource, didMoveTo: newDestination)
            } catch {
                moveError = error
            }
        }
        if let error = coordinationError ?? moveError { throw error }
    }
}
