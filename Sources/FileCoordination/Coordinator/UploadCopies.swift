// SPDX-License-Identifier: Apache-2.0
import CArchive
import Coordination
import Foundation
import Synchronization

/// Copies of items that are read with `.forUploading`, in a separate temporary directory. The copy of a directory is one zip
/// archive.
final class UploadCopies: Sendable {
    /// The URLs that the accessor receives: the URL of the copy for an item with `.forUploading`, otherwise the URL of the
    /// item.
    let urls: [URL]
    /// Whether every item of the access is copied, so that the accessor uses only copies.
    let coversAll: Bool
    private let directory: URL
    private let isThere = Mutex(true)

    /// Copies the items. Returns nil if no item is read with `.forUploading`. If copying fails, the granted accesses are ended.
    init?(of accesses: [Access], endingOnFailure granted: AccessGroup.GrantedAccesses) throws {
        guard accesses.contains(where: \.isForUploading) else { return nil }
        let directory = FileManager.default.temporaryDirectory
            .appendingPathComponent("FileCoordination-\(UUID().uuidString)", isDirectory: true)
        self.directory = directory
        do {
            try FileManager.default.createDirectory(
                at: directory, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
            urls = try Swift.zip(accesses, granted.urls).enumerated().map { index, item in
                guard item.0.isForUploading else { return item.1 }
                return try UploadCopies.copy(
                    item.1, to: directory.appendingPathComponent("\(index)", isDirectory: true))
            }
        } catch {
            granted.end()
            UploadCopies.remove(directory)
            throw error
        }
        coversAll = accesses.allSatisfy(\.isForUploading)
    }

    /// Removes the copies after the accessor has returned. Copies that the program still needs were opened or moved by the
    /// accessor.
    func remove() {
        let isFirst = isThere.withLock { isThere in
            defer { isThere = false }
            return isThere
        }
        if isFirst { Self.remove(directory) }
    }

    /// Removes the copies if the accessor was never called because its operation was cancelled.
    deinit { remove() }

    private static func remove(_ directory: URL) {
        do {
            try FileManager.default.removeItem(at: directory)
        } catch {
            NSLog("%@", "a copy for uploading stays in \(directory.path): \(error)")
        }
    }

    private static func copy(_ source: URL, to directory: URL) throws -> URL {
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false)
        var isDirectory: ObjCBool = false
        let exists = FileManager.default.fileExists(atPath: source.path, isDirectory: &isDirectory)
        let name = source.lastPathComponent
        guard exists, isDirectory.boolValue else {
            let copy = directory.appendingPathComponent(name)
            try FileManager.default.copyItem(at: source, to: copy)
            return copy
        }
        let archive = directory.appendingPathComponent(name + ".zip")
        try Self.archive(source, to: archive)
        return archive
    }

    private static func archive(_ source: URL, to archive: URL) throws {
        var why = [CChar](repeating: 0, count: 256)
        let result = source.withUnsafeFileSystemRepresentation { source in
            archive.withUnsafeFileSystemRepresentation { archive in
                carchive_zip(source, archive, &why, why.count)
            }
        }
        guard result == 0 else {
            let sentence = String(
                decoding: why.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            throw FileCoordinationError(.failed, "'\(source.path)' could not be archived: \(sentence)")
        }
    }
}
