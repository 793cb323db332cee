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
    /// The root of the source. The present documents are opened relative to it.
    private let root: OwnedDescriptor

    init(_ store: VersionStore, in root: consuming OwnedDescriptor) {
        self.store = store
        self.root = root
    }

    func entries(under path: [UInt8], for peer: Peer) throws(VersionAccessFailure) -> [VersionForm] {
        let all = store.list(under: path) { Self.isBackup($0, of: path) }
        var forms: [VersionForm] = []
        for entry in all.reversed() where isVisible(of: entry, peer) {
            var form = VersionForm(entry)
            let writers = store.writers(of: entry.id)
            if !writers.isEmpty { form.writers = writers }
            forms.append(form)
        }
        return forms
    }

    /// Whether programs give the name `path` to a backup of `document`.
    ///
    /// Some programs save by renaming the old document to a backup name. The list of the document's versions also
    /// contains the versions of that backup.
    private static func isBackup(_ path: [UInt8], of document: [UInt8]) -> Bool {
        let slash = UInt8(ascii: "/")
        let (name, documentName) = (path.split(separator: slash).last, document.split(separator: slash).last)
        guard let name, let documentName, path.dropLast(name.count) == document.dropLast(documentName.count)
        else { return false }
        return HelperFileName.isBackupName(Array(name), of: Array(documentName))
    }

    /// Whether the client may see a version. If the rights of a version cannot be read, the client sees the other
    /// versions only.
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
        // No version is that long, so there is nothing to read. With this offset, the kernel would return an error.
        if offset > Int64.max - Int64(count) { return [] }
        let count = contents.count(count, from: Int(offset))
        do throws(Errno) { return try file.read(at: Int(offset), count: count) } catch {
            throw .system(error)
        }
    }

    /// Whether the list that ``entries(under:for:)`` returns for `wanted` contains a version of `path`.
    private static func isVersion(_ path: [UInt8], of wanted: [UInt8]) -> Bool {
        wanted.isEmpty || path == wanted || path.starts(with: wanted + [UInt8(ascii: "/")])
            || isBackup(path, of: wanted)
    }

    func preserve(_ path: [UInt8], for peer: Peer) throws(VersionAccessFailure) -> String? {
        // `.truce` is the daemon's own directory, to which no client has access.
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
        // This check is made before the others, because it needs no system call.
        guard entry.rights.mayRead(reader) else { return false }
        guard entry.mayBeRead(by: reader, now: try currentRights(of: entry.path)) else { return false }
        return try mayReach(entry.path, peer)
    }

    /// Whether the client may read the file with the contents of a version.
    ///
    /// A version that is a hard link shares its file with other programs. Since then, such a program may have taken the right
    /// to read the file from other users.
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

    /// Whether the client may enter all directories on a path, as far as they exist now.
    ///
    /// Otherwise the client could not have read the file through the mount either. Only a daemon of root has clients
    /// besides root and the daemon's own user.
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

    /// Returns the rights that a document has now. Returns nil if the document no longer exists.
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
