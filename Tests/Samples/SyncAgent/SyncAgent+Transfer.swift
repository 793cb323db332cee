// SPDX-License-Identifier: Apache-2.0
import FileCoordination
import Foundation

/// Transfers of whole files.
extension SyncAgent {
    /// Replaces files by downloaded ones, all in one access. Many calls with one file each could wait for another
    /// process that does the same.
    func replace(
        _ files: [(url: URL, download: URL)],
        completion: @escaping @Sendable (Result<[String], any Error>) -> Void
    ) {
        let sources = files.map { NSFileAccessIntent.readingIntent(with: $0.download, options: []) }
        let targets = files.map { NSFileAccessIntent.writingIntent(with: $0.url, options: .forReplacing) }
        makeCoordinator().coordinate(with: sources + targets, queue: queue) { error in
            if let error { return completion(.failure(error)) }
            // The files may have been moved: use the URLs of the intents.
            completion(
                Result {
                    try zip(sources, targets).map { source, target in
                        if FileManager.default.fileExists(atPath: target.url.path) {
                            try FileManager.default.removeItem(at: target.url)
                        }
                        try FileManager.default.copyItem(at: source.url, to: target.url)
                        return target.url.lastPathComponent
                    }
                })
        }
    }

    /// Moves a snapshot of a file into the outbox. Other programs need not wait until it is sent.
    func upload(_ url: URL, to outbox: URL) throws -> URL {
        try withCoordinator { coordinator in
            try coordinator.reading(url, .forUploading) { snapshot in
                // The snapshot is removed when this accessor returns, so move it.
                let destination = outbox.appendingPathComponent(url.lastPathComponent)
                try FileManager.default.moveItem(at: snapshot, to: destination)
                return destination
            }
        }
    }

    /// Writes a folder to the outbox as one file.
    func uploadArchive(
        of folder: URL, to outbox: URL, completion: @escaping @Sendable (Result<URL, any Error>) -> Void
    ) {
        let intent = NSFileAccessIntent.readingIntent(with: folder, options: .forUploading)
        makeCoordinator().coordinate(with: [intent], queue: queue) { error in
            if let error { return completion(.failure(error)) }
            completion(
                Result {
                    // An open file stays readable after its name is removed.
                    let snapshot = try FileHandle(forReadingFrom: intent.url)
                    defer { snapshot.closeFile() }
                    guard let data = try snapshot.readToEnd() else { throw CocoaError(.fileReadUnknown) }
                    let destination = outbox.appendingPathComponent(folder.lastPathComponent + ".zip")
                    try data.write(to: destination)
                    return destination
                })
        }
    }
}
