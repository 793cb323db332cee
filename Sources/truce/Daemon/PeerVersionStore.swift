// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import ControlServer
import FilesystemServer
import Glibc
import LinuxSystem
import VersionStore

/// The versions in the store that a client of the control socket may read.
final class PeerVersionStore: PreservedVersions {
    private let store: VersionStore
    /// The root of the source, through which the present documents are found.
    private let root: OwnedDescriptor

    init(_ store: VersionStore, in root: consuming OwnedDescriptor) {
        self.store = store
        self.root = root
    }

    func entries(under path: [UInt8], for peer: Peer) throws(VersionAccessFailure) -> [VersionForm] {
        let all = try mappingStoreErrors { () throws(StoreError) in
            try store.list(under: path) { Self.isBackup($0, of: path) }
        }
        var forms: [VersionForm] = []
        for entry in all.reversed() where isVisible(of: entry, peer) {
            var form = VersionForm(entry)
            let writers = store.writers(of: entry.id)
            if !writers.isEmpty { form.writers = writers }
            forms.append(form)
        }
        return forms
    }

    /// Whether `path` is a backup name of `document`.
    ///
    /// When a program saves by a backup, the former document gets the backup name. The versions of that file are then listed
    /// for the document too.
    private static func isBackup(_ path: [UInt8], of document: [UInt8]) -> Bool {
        let slash = UInt8(ascii: "/")
        let (name, documentName) = (path.split(separator: slash).last, document.split(separator: slash).last)
        guard let name, let documentName, path.dropLast(name.count) == document.dropLast(documentName.count)
        else { return false }
        return HelperFileName.isBackupName(Array(name), of: Array(documentName))
    }

    /// Whether the client may see a version. If the rights of one version cannot be read, only that version is hidden.
    private func isVisible(of entry: VersionRecord, _ peer: Peer) -> Bool {
        do throws(VersionAccessFailure) { return try mayRead(entry, peer) } catch { return false }
    }

    func read(
        _ id: String, of path: [UInt8]?, at offset: Int64, count: Int, for peer: Peer
    ) throws(VersionAccessFailure) -> [UInt8] {
        guard let id = VersionID(id) else { throw .notFound }
        var contents = try mappingStoreErrors { () throws(StoreError) in try store.find(id) }
        guard try mayRead(contents.entry, peer) else { throw .denied }
        if let path, !Self.isVersion(contents.entry.path, of: path) {
            throw .otherPath(contents.entry.path, than: path)
        }
        let file = try mappingStoreErrors { () throws(StoreError) in try store.open(&contents) }
        guard try isOpen(file, of: contents.entry, to: peer) else { throw .denied }
        // No file is that long, and the kernel would return an error for the offset.
        if offset > Int64.max - Int64(count) { return [] }
        let count = contents.count(count, from: Int(offset))
        do throws(Errno) { return try file.read(at: Int(offset), count: count) } catch {
            throw .system(error)
        }
    }

    /// Whether ``entries(under:for:)`` lists a version of `path` for the path `wanted`.
    private static func isVersion(_ path: [UInt8], of wanted: [UInt8]) -> Bool {
        wanted.isEmpty || path == wanted || path.starts(with: wanted + [UInt8(ascii: "/")])
            || isBackup(path, of: wanted)
    }

    func preserve(_ path: [UInt8], for peer: Peer) throws(VersionAccessFailure) -> String? {
        // Other programs have no access to the daemon's own directory.
        guard let first = path.split(separator: UInt8(ascii: "/")).first, !first.elementsEqual(".truce".utf8)
        else { throw .notAFile }
        guard try mayReach(path, peer) else { throw .denied }
        do {
            var closed: [FileRights] = []
            let file = try open(path) { (directory: borrowing OwnedDescriptor) throws(Errno) in
                let rights = try FileRights(of: directory)
                if !rights.isOpenToAll, OwnProcess.user == 0 { closed.append(rights) }
            }
            let status = try file.status()
            guard status.isRegularFile else { throw VersionAccessFailure.notAFile }
            guard status.size > 0 else { return nil }
            return try preserve(file, path, closed, for: peer).description
        } catch let error as VersionAccessFailure {
            throw error
        } catch let error as Errno {
            throw error == .noEntry || error == .notADirectory ? .notAFile : .system(error)
        } catch {
            throw .notPreserved("\(error)")
        }
    }

    private func preserve(
        _ file: borrowing OwnedDescriptor, _ path: [UInt8], _ closed: [FileRights], for peer: Peer
    ) throws(VersionAccessFailure) -> VersionID {
        do throws(StoreError) {
            return try store.preserveByCopying(
                file, path: path, cause: .restoring, closed: closed, by: peer.user)
        } catch {
            throw .notPreserved(error.sentence)
        }
    }

    private func mayRead(_ entry: VersionRecord, _ peer: Peer) throws(VersionAccessFailure) -> Bool {
        let reader = Credentials(peer)
        // This check comes first because it needs no system call.
        guard entry.rights.mayRead(reader) else { return false }
        guard entry.mayBeRead(by: reader, now: try currentRights(of: entry.path)) else { return false }
        return try mayReach(entry.path, peer)
    }

    /// Whether the client may read the file that holds the contents of the version.
    ///
    /// Another program may still use a file that was preserved by a link, and may have removed the rights of other users.
    private func isOpen(
        _ file: borrowing OwnedDescriptor, of entry: VersionRecord, to peer: Peer
    ) throws(VersionAccessFailure) -> Bool {
        guard entry.method == .link else { return true }
        do throws(Errno) {
            return try FileRights(of: file).mayRead(Credentials(peer))
        } catch {
            throw .system(error)
        }
    }

    /// Whether the client may search all directories of a path that exist now.
    ///
    /// A client that may not search them could not have read the file through the mount. Only a daemon of root has clients
    /// other than root and its own user.
    private func mayReach(_ path: [UInt8], _ peer: Peer) throws(VersionAccessFailure) -> Bool {
        guard geteuid() == 0, peer.user != 0 else { return true }
        do throws(Errno) {
            try FileUser(peer).impersonate { () throws(Errno) in _ = try open(path) }
            return true
        } catch .noAccess {
            return false
        } catch {
            if error == .noEntry || error == .notADirectory { return true }
            throw .system(error)
        }
    }

    private func open(
        _ path: [UInt8],
        passing visit: (borrowing OwnedDescriptor) throws(Errno) -> Void = { _ throws(Errno) in }
    ) throws(Errno) -> OwnedDescriptor {
        var file = try OwnedDescriptor.duplicating(root.rawValue)
        for name in path.split(separator: UInt8(ascii: "/")) {
            try visit(file)
            file = try NameBytes(Array(name)).withName { (name) throws(Errno) in try file.path(of: name) }
        }
        return file
    }

    /// Returns the present rights of a document; nil if the document no longer exists.
    private func currentRights(of path: [UInt8]) throws(VersionAccessFailure) -> FileRights? {
        do throws(Errno) {
            return try FileRights(of: try open(path))
        } catch {
            if error == .noEntry || error == .notADirectory { return nil }
            throw .system(error)
        }
    }

    private func mappingStoreErrors<Value: ~Copyable>(
        _ body: () throws(StoreError) -> Value
    ) throws(VersionAccessFailure) -> Value {
        do throws(StoreError) {
            return try body()
        } catch .noSuchEntry {
            throw .notFound
        } catch .io(let errno) {
            throw .system(errno)
        } catch {
            throw .denied
        }
    }
}

extension Credentials {
    init(_ peer: Peer) { self.init(user: peer.user, groups: peer.groups) }
}

extension FileUser {
    fileprivate init(_ peer: Peer) {
        self.init(
            user: peer.user, group: peer.credentials.group, supplementaryGroups: peer.supplementaryGroups)
    }
}

extension VersionForm {
    fileprivate init(_ entry: VersionRecord) {
        self.init(
            id: entry.id.description, path: entry.path, cause: entry.cause.rawValue,
            time: Double(entry.time) / 1e9, size: Int64(entry.size), user: entry.rights.user,
            group: entry.rights.group, mode: entry.rights.mode)
    }
}

extension StoreError {
    /// The reason why contents cannot be preserved, as a part of a sentence for users.
    var sentence: String {
        switch self {
        case .noRight: "the daemon has no right to it"
        case .noSpace: "there is no room on the disk, or the quota is used up"
        case .overLimit(let limit): "the owner's versions take the \(limit) bytes that they may take"
        case .tooLarge(let limit): "it is larger than \(limit) bytes"
        case .readOnly: "the source cannot be written"
        case .notAFile: "it is no file"
        case .noSuchEntry, .inUse: "the store is in disorder"
        case .foreign(let why): why
        case .io(let errno): "\(errno)"
        }
    }
}
