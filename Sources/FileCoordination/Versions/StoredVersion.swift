// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Foundation
import LinuxSystem
import Synchronization

/// A version in the store of a mount, and what the daemon has said of it.
final class StoredVersion: Sendable {
    private enum Description {
        /// The daemon was not asked yet.
        case unknown
        case known(VersionForm)
        /// The store does not have the version any more.
        case gone
    }

    let connection: MountConnection
    let id: String
    /// The path of the document, from the root of the mount.
    let path: [UInt8]
    private let description: Mutex<Description>

    /// Makes a version of which only the ID is known, as from a notice.
    init(_ id: String, of path: [UInt8], on connection: MountConnection) {
        (self.id, self.path, self.connection) = (id, path, connection)
        description = Mutex(.unknown)
    }

    private init(_ form: VersionForm, of path: [UInt8], on connection: MountConnection) {
        (id, self.path, self.connection) = (form.id, path, connection)
        description = Mutex(.known(form))
    }

    /// The versions of a document, the newest first, and at most as many as a reply has. The versions of the files in a directory
    /// are no versions of the directory.
    static func list(of location: FileLocation) throws(FileCoordinationError) -> [StoredVersion] {
        let (path, connection) = (location.pathInMount, location.connection)
        let result: VersionListResult = try connection.call(.listVersions(VersionListParameters(path: path)))
        return result.entries.filter { !$0.isOfItem(below: path) }.map {
            StoredVersion($0, of: path, on: connection)
        }
    }

    /// The description of the version; nil if the store does not have it any more. The first use can ask the daemon.
    var form: VersionForm? {
        switch description.withLock({ $0 }) {
        case .known(let form): return form
        case .gone: return nil
        case .unknown: break
        }
        do throws(FileCoordinationError) {
            let result: VersionListResult = try connection.call(
                .listVersions(VersionListParameters(path: path)))
            let form = result.entries.first { $0.id == id }
            description.withLock { $0 = form.map { .known($0) } ?? .gone }
            return form
        } catch {
            // The daemon can answer later, so the description stays unknown.
            NSLog("%@", "version \(id) is not described: \(error.message)")
            return nil
        }
    }

    /// The name of the document when the version was made.
    var name: String {
        let path = form.flatMap { PathForm($0.path, $0.pathBytes).bytes } ?? self.path
        return String(decoding: path.split(separator: UInt8(ascii: "/")).last ?? [], as: UTF8.self)
    }

    /// Returns the URL of a local copy of the contents. The first call makes the copy.
    func copy() throws -> URL { try VersionCopies.shared.copy(of: self) }

    /// Reads the contents piece by piece.
    func read(to write: ([UInt8]) throws -> Void) throws {
        var offset: Int64 = 0
        while true {
            let piece: VersionReadResult = try connection.call(
                .readVersion(
                    VersionReadParameters(id: id, offset: offset, length: ProtocolLimits.readBytes, of: path))
            )
            guard let bytes = piece.bytes else {
                throw FileCoordinationError(.failed, "the daemon's answer could not be understood")
            }
            try write(bytes)
            offset += Int64(bytes.count)
            if piece.isAtEnd || bytes.isEmpty { return }
        }
    }

    /// Marks the version as resolved, if it is a conflict.
    func resolve() throws(FileCoordinationError) {
        let request = VersionSelectionParameters(path: path, ids: [id])
        let _: VersionChangeResult = try connection.call(.resolveVersions(request))
        // The next use asks the daemon, which knows the new standing.
        description.withLock { $0 = .unknown }
    }

    func remove() throws(FileCoordinationError) {
        let request = VersionSelectionParameters(path: path, ids: [id])
        let _: VersionChangeResult = try connection.call(.removeVersions(request))
        description.withLock { $0 = .gone }
    }
}

/// Local copies of versions, in a directory of this process. The directory is removed when the process exits.
final class VersionCopies: Sendable {
    static let shared = VersionCopies()

    private struct Copy: Sendable {
        let key: String
        let url: URL
    }

    private struct State {
        var directory: URL?
        /// The copies, the copy that was used last at the end.
        var copies: [Copy] = []
    }

    static let most = 256
    private let state = Mutex(State())

    /// The URL for a version without a copy. No file has it.
    static func missing(_ id: String) -> URL {
        FileManager.default.temporaryDirectory.appendingPathComponent(
            "missing-version-\(id)/\(UUID().uuidString)")
    }

    func copy(of version: StoredVersion) throws -> URL {
        let key = "\(version.connection.printable)/\(version.id)"
        if let known = known(key) { return known }
        let folder = try directory().appendingPathComponent(
            "\(version.id)-\(UUID().uuidString)", isDirectory: true)
        try FileManager.default.createDirectory(
            at: folder, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        let url = folder.appendingPathComponent(version.name)
        do {
            try write(version, to: url)
        } catch {
            Self.remove(folder)
            throw error
        }
        return keep(Copy(key: key, url: url))
    }

    private func known(_ key: String) -> URL? {
        state.withLock { state in
            guard let index = state.copies.firstIndex(where: { $0.key == key }) else { return nil }
            let copy = state.copies.remove(at: index)
            state.copies.append(copy)
            return copy.url
        }
    }

    private func write(_ version: StoredVersion, to url: URL) throws {
        guard
            FileManager.default.createFile(
                atPath: url.path, contents: nil, attributes: [.posixPermissions: 0o600])
        else { throw FileCoordinationError(.failed, "'\(url.path)' cannot be created") }
        let file = try FileHandle(forWritingTo: url)
        try version.read { try file.write(contentsOf: Data($0)) }
        try file.close()
        try FileManager.default.setAttributes([.posixPermissions: 0o400], ofItemAtPath: url.path)
    }

    /// Stores a copy. If another thread has made the same copy meanwhile, that copy is used.
    private func keep(_ copy: Copy) -> URL {
        let (url, surplus): (URL, [URL]) = state.withLock { state in
            if let known = state.copies.first(where: { $0.key == copy.key }) {
                return (known.url, [copy.url])
            }
            state.copies.append(copy)
            guard state.copies.count > Self.most else { return (copy.url, []) }
            return (copy.url, [state.copies.removeFirst().url])
        }
        for url in surplus { Self.remove(url.deletingLastPathComponent()) }
        return url
    }

    private func directory() throws -> URL {
        if let known = state.withLock({ $0.directory }) { return known }
        let directory = FileManager.default.temporaryDirectory
            .appendingPathComponent("FileVersion-\(UUID().uuidString)", isDirectory: true)
        try FileManager.default.createDirectory(
            at: directory, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        let isFirst = state.withLock { state in
            guard state.directory == nil else { return false }
            state.directory = directory
            return true
        }
        guard isFirst else {
            Self.remove(directory)
            return try self.directory()
        }
        atexit { VersionCopies.shared.removeAll() }
        return directory
    }

    private func removeAll() {
        if let directory = state.withLock({ $0.directory }) { Self.remove(directory) }
    }

    private static func remove(_ directory: URL) {
        do {
            try FileManager.default.removeItem(at: directory)
        } catch {
            NSLog("%@", "the copy of a version stays in \(directory.path): \(error)")
        }
    }
}

extension VersionForm {
    /// Whether this is a version of an item in the directory at a path.
    fileprivate func isOfItem(below directory: [UInt8]) -> Bool {
        guard let path = PathForm(path, pathBytes).bytes, path.count > directory.count else { return false }
        return directory.isEmpty || path.starts(with: directory + [UInt8(ascii: "/")])
    }

    var isUnresolvedConflict: Bool { standing == "conflict" || standing == "suspected" }
    /// Whether the version was a conflict when it was made.
    var isConflictVersion: Bool { isUnresolvedConflict || standing == "resolved" }
}
