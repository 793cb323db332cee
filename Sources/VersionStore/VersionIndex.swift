// SPDX-License-Identifier: Apache-2.0

/// A move of a document or directory through the mount, as far as the versions below its paths are concerned.
struct DocumentMove: Hashable, Sendable {
    enum Kind: String, Sendable {
        case file
        /// All paths below the two paths move too.
        case folder
        /// The two documents or directories exchange their paths.
        case exchange
    }

    let from: [UInt8]
    let to: [UInt8]
    let kind: Kind
    /// The last version that the move concerns. Later versions have the new path from the beginning.
    let last: VersionID
}

/// A move with versions whose line is not in the log yet.
struct UnwrittenMove: Sendable {
    let move: DocumentMove
    let time: Int64
    let versions: [VersionID]
}

/// All versions of the store, by path and by the file of the document (D220).
///
/// The index is built from the log when the store is opened. After that, each change of a version updates the index. It lists
/// 100,000 versions without reading the log.
struct VersionIndex: Sendable {
    private struct File: Hashable, Sendable {
        let device: UInt64
        let inode: UInt64
    }

    /// The most moves that are remembered for versions that are entered after a move although they were made before it.
    private static let mostMoves = 64

    private var records: [VersionID: VersionRecord] = [:]
    /// The IDs of all versions, sorted.
    private var order: [VersionID] = []
    private var paths: [[UInt8]: [VersionID]] = [:]
    private var files: [File: [VersionID]] = [:]
    /// For each directory with versions below it, the number of paths with versions.
    private var folders: [[UInt8]: Int] = [:]
    private var moves: [DocumentMove] = []
    /// The moves whose lines are not in the log yet.
    private var unwritten: [UnwrittenMove] = []
    /// The last ID that a version got. A move concerns the versions up to this ID.
    private(set) var lastID: VersionID?

    subscript(id: VersionID) -> VersionRecord? { records[id] }
    var isEmpty: Bool { records.isEmpty }
    var ids: Dictionary<VersionID, VersionRecord>.Keys { records.keys }

    mutating func nextID(at time: Int64) -> VersionID {
        let id = VersionID.next(after: lastID, at: time)
        lastID = id
        return id
    }

    /// Notes that a version has this ID, so that later versions get greater ones.
    mutating func noteID(_ id: VersionID) { lastID = max(lastID ?? id, id) }

    /// Enters a version, and returns it with its present path.
    @discardableResult
    mutating func insert(_ entry: VersionRecord) -> VersionRecord {
        remove(entry.id)
        var entry = entry
        for move in moves where move.last >= entry.id {
            if let path = Self.path(entry.path, after: move) { entry.path = path }
        }
        records[entry.id] = entry
        order.insert(sorted: entry.id)
        addName(entry.id, entry.path)
        files[File(device: entry.device, inode: entry.inode), default: []].append(entry.id)
        return entry
    }

    mutating func remove(_ id: VersionID) {
        guard let entry = records.removeValue(forKey: id) else { return }
        order.remove(sorted: id)
        removeName(id, entry.path)
        let file = File(device: entry.device, inode: entry.inode)
        files[file]?.removeAll { $0 == id }
        if files[file]?.isEmpty ?? false { files[file] = nil }
    }

    mutating func settle(_ id: VersionID, as standing: Standing) { records[id]?.standing = standing }

    /// Gives one version another path.
    mutating func rename(_ id: VersionID, to path: [UInt8]) {
        guard let former = records[id]?.path, former != path else { return }
        removeName(id, former)
        records[id]?.path = path
        addName(id, path)
    }

    /// Whether a move from or to this path concerns any version.
    func concerns(_ path: [UInt8]) -> Bool { paths[path] != nil || folders[path] != nil }

    /// Carries out a move. Returns the versions that have another path now.
    mutating func apply(_ move: DocumentMove) -> [VersionID] {
        moves.append(move)
        if moves.count > Self.mostMoves { moves.removeFirst() }
        var concerned = versions(at: move.from, move.kind)
        if move.kind == .exchange { concerned += versions(at: move.to, move.kind) }
        var moved: [VersionID] = []
        for id in concerned where id <= move.last {
            guard let former = records[id]?.path, let path = Self.path(former, after: move) else { continue }
            rename(id, to: path)
            moved.append(id)
        }
        return moved
    }

    /// Carries out a move, and keeps it until its line is written. Returns whether the move concerns any version.
    mutating func apply(_ move: DocumentMove, writingAt time: Int64) -> Bool {
        let moved = apply(move)
        if !moved.isEmpty { unwritten.append(UnwrittenMove(move: move, time: time, versions: moved)) }
        return !moved.isEmpty
    }

    mutating func takeUnwritten() -> [UnwrittenMove] {
        defer { unwritten = [] }
        return unwritten
    }

    private func versions(at path: [UInt8], _ kind: DocumentMove.Kind) -> [VersionID] {
        let own = paths[path] ?? []
        guard kind != .file, folders[path] != nil else { return own }
        return own + below(path)
    }

    private func below(_ path: [UInt8]) -> [VersionID] {
        let folder = path + [UInt8(ascii: "/")]
        return paths.flatMap { $0.key.starts(with: folder) ? $0.value : [] }
    }

    /// The IDs of the versions of a path, of all paths below it, and of the paths in the same directory that `isAlias` accepts,
    /// oldest first. An empty path has all versions below it.
    func ids(under path: [UInt8], orBeside isAlias: ([UInt8]) -> Bool) -> [VersionID] {
        if path.isEmpty { return order }
        let folder = path.dropLast(Self.name(of: path).count)
        var ids = versions(at: path, .folder)
        for (other, others) in paths where other != path && other.starts(with: folder) {
            guard !other[folder.count...].contains(UInt8(ascii: "/")), isAlias(other) else { continue }
            ids += others
        }
        return ids.sorted()
    }

    private static func name(of path: [UInt8]) -> ArraySlice<UInt8> {
        path[((path.lastIndex(of: UInt8(ascii: "/")) ?? -1) + 1)...]
    }

    /// The IDs of the versions that were made of a file with this number, oldest first. After the removal of the file, another
    /// file can have got its number.
    func ids(ofDevice device: UInt64, inode: UInt64) -> [VersionID] {
        (files[File(device: device, inode: inode)] ?? []).sorted()
    }

    /// Returns the path that a document has after a move, or nil if the move does not concern the path.
    static func path(_ path: [UInt8], after move: DocumentMove) -> [UInt8]? {
        func replaced(_ former: [UInt8], by later: [UInt8]) -> [UInt8]? {
            if path == former { return later }
            guard move.kind != .file, path.count > former.count, path[former.count] == UInt8(ascii: "/"),
                path.starts(with: former)
            else { return nil }
            return later + path[former.count...]
        }
        if let path = replaced(move.from, by: move.to) { return path }
        return move.kind == .exchange ? replaced(move.to, by: move.from) : nil
    }

    private mutating func addName(_ id: VersionID, _ path: [UInt8]) {
        guard !path.isEmpty else { return }
        if paths[path] == nil { for folder in Self.folders(above: path) { folders[folder, default: 0] += 1 } }
        paths[path, default: []].append(id)
    }

    private mutating func removeName(_ id: VersionID, _ path: [UInt8]) {
        guard paths[path] != nil else { return }
        paths[path]?.removeAll { $0 == id }
        guard paths[path]?.isEmpty ?? false else { return }
        paths[path] = nil
        for folder in Self.folders(above: path) {
            let count = (folders[folder] ?? 1) - 1
            folders[folder] = count > 0 ? count : nil
        }
    }

    private static func folders(above path: [UInt8]) -> [[UInt8]] {
        path.indices.filter { path[$0] == UInt8(ascii: "/") }.map { Array(path[..<$0]) }
    }
}

extension VersionIndex {
    /// Applies a line of the log. A line of an unknown event changes nothing.
    mutating func replay(_ line: LogLine) {
        guard let id = VersionID(line.id) else { return }
        switch line.event {
        case .kept: if let entry = line.entry { insert(entry) }
        case .dropped: if line.isDrop { remove(id) }
        case .settled: if let standing = line.newStanding { settle(id, as: standing) }
        case .moved:
            if let move = line.documentMove {
                _ = apply(move)
            } else if let path = line.pathBytes {
                rename(id, to: path.value)
            }
        default: break
        }
    }
}
