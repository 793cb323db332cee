// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import ControlServer
import Coordination
import CoordinationEngine
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

    func entries(_ query: VersionQuery, for peer: Peer) throws(VersionAccessFailure) -> VersionPage {
        let before = query.before.flatMap(VersionID.init)
        var rights = RightsCache(reader: peer)
        var forms: [VersionForm] = []
        for id in ids(of: query.path, for: peer).reversed() where before.map({ id < $0 }) ?? true {
            guard let entry = store.record(of: id), query.accepts(entry),
                rights.isVisible(entry, { isVisible(of: entry, $0) })
            else { continue }
            if forms.count == query.most { return VersionPage(forms, hasMore: true) }
            var form = VersionForm(entry)
            let writers = store.writers(of: entry.id)
            if !writers.isEmpty { form.writers = writers }
            forms.append(form)
        }
        return VersionPage(forms, hasMore: false)
    }

    /// Returns the IDs of the versions at or below a path, oldest first. If a file has the path, the list also contains the
    /// versions that were made of this file under other names, such as another hard link or a name from before a move around
    /// the mount (D219).
    private func ids(of path: [UInt8], for peer: Peer) -> [VersionID] {
        let named = store.ids(under: path) { Self.isBackup($0, of: path) }
        let same = mayReadNow(path, peer) ? versionsOfFile(at: path).map(\.id) : []
        guard !same.isEmpty else { return named }
        return Set(named).union(same).sorted()
    }

    /// Whether the client may read the file that has a path now.
    private func mayReadNow(_ path: [UInt8], _ peer: Peer) -> Bool {
        do throws(VersionAccessFailure) {
            guard let rights = try currentRights(of: path), rights.mayRead(Credentials(peer)) else {
                return false
            }
            return try mayReach(path, peer)
        } catch {
            return false
        }
    }

    private func versionsOfFile(at path: [UInt8]) -> [VersionRecord] {
        guard !path.isEmpty else { return [] }
        do throws(Errno) {
            let status = try open(path).status()
            guard status.isRegularFile, status.born.seconds > 0 else { return [] }
            let born = status.born.seconds &* 1_000_000_000 &+ Int64(status.born.nanoseconds)
            // The number of a removed file can belong to a later file. A file that is older than the version is the file of
            // which the version was made.
            return store.list(ofDevice: status.device, inode: status.inode).filter { $0.time >= born }
        } catch {
            // No file has the path, so only the versions with this path are listed.
            return []
        }
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

    func observe(_ body: @escaping @Sendable (PreservedChange) -> Void) {
        store.observe { body(PreservedChange($0)) }
    }

    func read(
        _ id: String, of path: [UInt8]?, at offset: Int64, count: Int, for peer: Peer
    ) throws(VersionAccessFailure) -> [UInt8] {
        guard let id = VersionID(id) else { throw .notFound }
        var contents = try mappingStoreErrors { () throws(StoreError) in try store.find(id) }
        guard try mayRead(contents.entry, peer) else { throw .denied }
        if let path { try requireVersion(contents.entry, of: path, for: peer) }
        let file = try mappingStoreErrors { () throws(StoreError) in try store.open(&contents) }
        guard try isOpen(file, of: contents.entry, to: peer) else { throw .denied }
        // No version is that long, so there is nothing to read. With this offset, the kernel would return an error.
        if offset > Int64.max - Int64(count) { return [] }
        let count = contents.count(count, from: Int(offset))
        do throws(Errno) { return try file.read(at: Int(offset), count: count) } catch {
            throw .system(error)
        }
    }

    /// Throws if a version is not of the given path, nor of a file below it.
    private func requireVersion(
        _ entry: VersionRecord, of path: [UInt8], for peer: Peer
    ) throws(VersionAccessFailure) {
        guard !Self.isVersion(entry.path, of: path) else { return }
        let isSame = mayReadNow(path, peer) && versionsOfFile(at: path).contains { $0.id == entry.id }
        guard isSame else { throw .otherPath(entry.path, than: path) }
    }

    /// Whether the list that ``entries(_:for:)`` returns for `wanted` contains a version of `path`.
    private static func isVersion(_ path: [UInt8], of wanted: [UInt8]) -> Bool {
        wanted.isEmpty || path == wanted || path.starts(with: wanted + [UInt8(ascii: "/")])
            || isBackup(path, of: wanted)
    }

    func resolve(_ ids: [String]?, of path: [UInt8], for peer: Peer) throws(VersionAccessFailure) -> Int {
        let wanted: [VersionRecord]
        if let ids {
            wanted = try changeable(ids, of: path, for: peer)
        } else {
            wanted = try changeable(of: path, for: peer).filter(\.standing.isConflict)
        }
        var count = 0
        for entry in wanted {
            let isResolved = try mappingStoreErrors { () throws(StoreError) in try store.resolve(entry.id) }
            if isResolved { count += 1 }
        }
        return count
    }

    func remove(_ ids: [String], of path: [UInt8], for peer: Peer) throws(VersionAccessFailure) -> Int {
        let wanted = try changeable(ids, of: path, for: peer)
        for entry in wanted {
            let writers = store.writers(of: entry.id)
            guard writers.isEmpty else { throw .written(by: writers) }
        }
        return try remove(wanted, for: peer)
    }

    func prune(_ path: [UInt8], until: Double?, for peer: Peer) throws(VersionAccessFailure) -> Int {
        let wanted = try changeable(of: path, for: peer).filter { entry in
            !entry.standing.isConflict && store.writers(of: entry.id).isEmpty
                && until.map { Double(entry.time) / 1e9 <= $0 } ?? true
        }
        return try remove(wanted, for: peer)
    }

    private func remove(_ entries: [VersionRecord], for peer: Peer) throws(VersionAccessFailure) -> Int {
        try mappingStoreErrors { () throws(StoreError) in
            try store.remove(entries.map(\.id), reason: "user \(peer.user) removed it")
        }
    }

    /// Returns the versions with these IDs. Throws if the client may not change one of them.
    private func changeable(
        _ ids: [String], of path: [UInt8], for peer: Peer
    ) throws(VersionAccessFailure) -> [VersionRecord] {
        var found: [VersionRecord] = []
        for id in Set(ids) {
            guard let entry = VersionID(id).flatMap({ store.record(of: $0) }) else { throw .notFound }
            guard try mayRead(entry, peer) else { throw .denied }
            try requireVersion(entry, of: path, for: peer)
            guard try mayChange(entry, of: path, peer) else { throw .unchangeable }
            found.append(entry)
        }
        return found
    }

    /// Returns the versions at or below a path that the client may change.
    private func changeable(of path: [UInt8], for peer: Peer) throws(VersionAccessFailure) -> [VersionRecord]
    {
        var found: [VersionRecord] = []
        for entry in ids(of: path, for: peer).compactMap({ store.record(of: $0) }) {
            if try mayChange(entry, of: path, peer) { found.append(entry) }
        }
        return found
    }

    /// Whether the client had the right to write the document when the version was preserved, and has it now (D221).
    ///
    /// If the version is found by the file at `path`, and not by its own path, the rights of this file count.
    private func mayChange(
        _ entry: VersionRecord, of path: [UInt8], _ peer: Peer
    ) throws(VersionAccessFailure) -> Bool {
        let writer = Credentials(peer)
        guard entry.rights.mayWrite(writer), entry.closed.allSatisfy({ $0.maySearch(writer) }) else {
            return false
        }
        var paths = [entry.path]
        if !Self.isVersion(entry.path, of: path) { paths.append(path) }
        for path in paths {
            guard try currentRights(of: path)?.mayWrite(writer) ?? true, try mayReach(path, peer) else {
                return false
            }
        }
        return true
    }

    func preserve(
        _ path: [UInt8], contents: [UInt8]?, for peer: Peer
    ) throws(VersionAccessFailure) -> String? {
        // `.truce` is the daemon's own directory, to which no client has access.
        for path in [path, contents ?? path] {
            guard let first = path.split(separator: UInt8(ascii: "/")).first,
                !first.elementsEqual(".truce".utf8)
            else { throw .notAFile }
            guard try mayReach(path, peer) else { throw .denied }
        }
        do {
            var closed: [FileRights] = []
            let note = { (directory: borrowing OwnedDescriptor) throws(Errno) in
                let rights = try FileRights(of: directory)
                if !rights.isOpenToAll, OwnProcess.user == 0 { closed.append(rights) }
            }
            var file = try open(path, passing: note)
            if let contents {
                file = try open(contents, passing: note)
                let rights = try FileRights(of: file)
                guard rights.mayRead(Credentials(peer)) else { throw VersionAccessFailure.denied }
            }
            let status = try file.status()
            guard status.isRegularFile else { throw VersionAccessFailure.notAFile }
            guard status.size > 0 else { return nil }
            let cause: PreservationCause = contents == nil ? .restoring : .added
            return try preserve(file, path, cause, closed, for: peer).description
        } catch let error as VersionAccessFailure {
            throw error
        } catch let error as Errno {
            throw error == .noEntry || error == .notADirectory ? .notAFile : .system(error)
        } catch {
            throw .notPreserved("\(error)")
        }
    }

    private func preserve(
        _ file: borrowing OwnedDescriptor, _ path: [UInt8], _ cause: PreservationCause,
        _ closed: [FileRights], for peer: Peer
    ) throws(VersionAccessFailure) -> VersionID {
        do throws(StoreError) {
            return try store.preserveByCopying(
                file, path: path, cause: cause, closed: closed, by: peer.user)
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
    func mayReach(_ path: [UInt8], _ peer: Peer) throws(VersionAccessFailure) -> Bool {
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
    func currentRights(of path: [UInt8]) throws(VersionAccessFailure) -> FileRights? {
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
        } catch .readOnly {
            throw .system(.readOnly)
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

/// Which versions a client may see, by path, rights and the users that could not enter the directories. Versions with equal
/// values are looked up once for a whole list.
private struct RightsCache {
    private struct Key: Hashable {
        let path: [UInt8]
        let rights: FileRights
        let closed: [FileRights]
    }

    private let reader: Peer
    private var known: [Key: Bool] = [:]

    init(reader: Peer) { self.reader = reader }

    mutating func isVisible(_ entry: VersionRecord, _ look: (Peer) -> Bool) -> Bool {
        let key = Key(path: entry.path, rights: entry.rights, closed: entry.closed)
        if let known = known[key] { return known }
        let isVisible = look(reader)
        known[key] = isVisible
        return isVisible
    }
}

extension VersionQuery {
    fileprivate func accepts(_ entry: VersionRecord) -> Bool {
        if let since, Double(entry.time) / 1e9 < since { return false }
        guard let by else { return true }
        return [entry.provenance?.saver, entry.provenance?.author].contains { actor in
            actor?.program == by || actor?.run == by
        }
    }
}

extension PreservedChange {
    fileprivate init(_ change: StoreChange) {
        let kind: VersionChange.Kind =
            switch change.kind {
            case .gained: .gained
            case .lost: .lost
            case .resolved: .resolved
            }
        let version = change.version
        // Which program has resolved or removed a version is not known here.
        let actor = kind == .gained ? version.provenance?.saver ?? version.provenance?.author : nil
        self.init(
            VersionChange(kind, VersionNumber(version.id.number)), of: version.path,
            by: actor.map {
                ProcessDescription(pid: $0.process ?? 0, user: $0.user, program: Array($0.program.utf8))
            })
    }
}

extension VersionForm {
    fileprivate init(_ entry: VersionRecord) {
        self.init(
            id: entry.id.description, path: entry.path, cause: entry.cause.rawValue,
            time: Double(entry.time) / 1e9, size: Int64(entry.size), user: entry.rights.user,
            group: entry.rights.group, mode: entry.rights.mode)
        standing = entry.standing.rawValue
        guard let provenance = entry.provenance else { return }
        author = provenance.author.map(VersionActorForm.init)
        saver = provenance.saver.map(VersionActorForm.init)
        (read, generation) = (provenance.readGeneration, provenance.generation)
        readTime = provenance.readTime.map { Double($0) / 1e9 }
        if let name = provenance.conflictCopy { setConflictCopy(name) }
    }
}

extension VersionActorForm {
    fileprivate init(_ actor: VersionActor) {
        self.init(program: actor.program, pid: actor.process, user: actor.user, run: actor.run)
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
