// SPDX-License-Identifier: Apache-2.0
import FileCoordination
import Foundation

/// Copies and moves what the user has selected, as a file manager does.
final class BatchCopier {
    /// What became of one file.
    struct CopyResult {
        let name: String
        let error: (any Error)?
    }

    private let files = FileManager.default

    /// All presenters of what is copied, at any depth, are asked to save at once and in advance; the access
    /// to each file, one after the other, asks them nothing more.
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
            // The batch is over: any thread may say so.
            DispatchQueue.global(qos: .utility).async { completionHandler() }
        }
        if let coordinationError { throw coordinationError }
        return copied
    }

    /// A folder is copied file by file, so that nobody has to wait for all of it.
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

    /// What is there is replaced, and whoever shows it is asked first.
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

    /// Both writes in one call: two nested ones could wait for somebody who moves the other way.
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
