// SPDX-License-Identifier: Apache-2.0
import FileCoordination
import Foundation

/// Downloads and uploads of whole files.
extension SyncAgent {
    /// Replaces several files by downloaded files in a single access.
    ///
    /// If two processes made one access for each file, in a different order, each process could wait for the other.
    func replace(
        _ files: [(url: URL, download: URL)],
        completion: @escaping @Sendable (Result<[String], any Error>) -> Void
    ) {
        let sources = files.map { NSFileAccessIntent.readingIntent(with: $0.download, options: []) }
        let targets = files.map { NSFileAccessIntent.writingIntent(with: $0.url, options: .forReplacing) }
        makeCoordinator().coordinate(with: sources + targets, queue: queue) { error in
            if let error { return completion(.failure(error)) }
            // Another program may have moved a file before the access began. The intents contain the file's new URL.
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

    /// Puts a snapshot of a file into the outbox. The access ends when the snapshot is made, so other programs do not wait
    /// until it is sent.
    func upload(_ url: URL, to outbox: URL) throws -> URL {
        try withCoordinator { coordinator in
            try coordinator.reading(url, .forUploading) { snapshot in
                // The library deletes the snapshot when this accessor returns. So the accessor moves the snapshot to the
                // outbox.
                let destination = outbox.appendingPathComponent(url.lastPathComponent)
                try FileManager.default.moveItem(at: snapshot, to: destination)
                return destination
            }
        }
    }

    /// Writes a folder to the outbox as a single archive file.
    func uploadArchive(
        of folder: URL, to outbox: URL, completion: @escaping @Sendable (Result<URL, any Error>) -> Void
    ) {
        let intent = NSFileAccessIntent.readingIntent(with: folder, options: .forUploading)
        makeCoordinator().coordinate(with: [intent], queue: queue) { error in
            if let error { return completion(.failure(error)) }
            completion(
                Result {
                    // The accessor opens the archive now. After the accessor has returned, the name of the archive is removed,
                    // but the open file stays readable.
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
