// SPDX-License-Identifier: Apache-2.0

/// The versions of each owner, and how much room they take.
///
/// It is made once, from the log and the files, when a store is opened. From then on it is carried forward.
struct Ledger: Sendable {
    /// A file of the store. Several versions may share it.
    struct Body: Hashable, Sendable {
        let device: UInt64
        let inode: UInt64
    }

    struct Item: Sendable {
        /// The user that the room is charged to.
        let owner: UInt32
        /// Empty if it was lost.
        let path: [UInt8]
        let isConflict: Bool
        /// Whether it is a copy, which nothing but the store can change.
        let isCopy: Bool
        var body: Body
        var room: Int
        var size: Int
    }

    private struct Kin: Hashable, Sendable {
        let owner: UInt32
        let size: Int
    }

    private struct Shared: Sendable {
        let owner: UInt32
        var names = 0
        var room = 0
    }

    /// Versions in the order of their times, those in conflict apart from the others.
    private struct Line: Sendable {
        var plain: [KeptID] = []
        var conflicts: [KeptID] = []
        var room = 0
        /// For copies that are being made.
        var reserved = 0

        var isEmpty: Bool { plain.isEmpty && conflicts.isEmpty && reserved == 0 }
        var count: Int { plain.count + conflicts.count }

        mutating func insert(_ id: KeptID, _ isConflict: Bool) {
            if isConflict { conflicts.insert(sorted: id) } else { plain.insert(sorted: id) }
        }

        mutating func remove(_ id: KeptID, _ isConflict: Bool) {
            if isConflict { conflicts.remove(sorted: id) } else { plain.remove(sorted: id) }
        }
    }

    private var items: [KeptID: Item] = [:]
    private var bodies: [Body: Shared] = [:]
    private var owners: [UInt32: Line] = [:]
    private var documents: [[UInt8]: Line] = [:]
    /// Copies by owner and size, the last one at the end: what may be equal.
    private var kin: [Kin: [KeptID]] = [:]

    subscript(id: KeptID) -> Item? { items[id] }
    var count: Int { items.count }
    func count(of path: [UInt8]) -> Int { documents[path]?.count ?? 0 }

    /// What an owner's versions take, with those that are being made.
    func room(of owner: UInt32) -> Int { owners[owner].map { $0.room + $0.reserved } ?? 0 }

    mutating func insert(_ id: KeptID, _ item: Item) {
        remove(id)
        items[id] = item
        owners[item.owner, default: Line()].insert(id, item.isConflict)
        add(item)
        if !item.path.isEmpty { documents[item.path, default: Line()].insert(id, item.isConflict) }
        if item.isCopy { kin[Kin(owner: item.owner, size: item.size), default: []].insert(sorted: id) }
    }

    mutating func remove(_ id: KeptID) {
        guard let item = items.removeValue(forKey: id) else { return }
        subtract(item)
        owners[item.owner]?.remove(id, item.isConflict)
        if owners[item.owner]?.isEmpty ?? false { owners[item.owner] = nil }
        documents[item.path]?.remove(id, item.isConflict)
        if documents[item.path]?.isEmpty ?? false { documents[item.path] = nil }
        let key = Kin(owner: item.owner, size: item.size)
        kin[key]?.remove(sorted: id)
        if kin[key]?.isEmpty ?? false { kin[key] = nil }
    }

    /// A version has come to be in another file, or its file has another length.
    mutating func change(_ id: KeptID, to body: Body, room: Int, size: Int) {
        guard var item = items[id] else { return }
        subtract(item)
        (item.body, item.room) = (body, room)
        // Copies are found by their size, and do not change.
        if !item.isCopy { item.size = size }
        items[id] = item
        add(item)
    }

    mutating func reserve(_ room: Int, for owner: UInt32) { owners[owner, default: Line()].reserved += room }

    mutating func release(_ room: Int, of owner: UInt32) {
        owners[owner]?.reserved -= room
        if owners[owner]?.isEmpty ?? false { owners[owner] = nil }
    }

    /// Copies of an owner's files that are of a size, the last one first.
    func copies(of owner: UInt32, size: Int) -> [KeptID] {
        (kin[Kin(owner: owner, size: size)] ?? []).reversed()
    }

    private mutating func add(_ item: Item) {
        var shared = bodies[item.body] ?? Shared(owner: item.owner)
        shared.names += 1
        if shared.names == 1 {
            shared.room = item.room
            owners[shared.owner]?.room += item.room
        }
        bodies[item.body] = shared
    }

    private mutating func subtract(_ item: Item) {
        guard var shared = bodies[item.body] else { return }
        shared.names -= 1
        if shared.names == 0 { owners[shared.owner]?.room -= shared.room }
        bodies[item.body] = shared.names == 0 ? nil : shared
    }
}

/// What goes first.
extension Ledger {
    typealias Choice = (KeptID) -> Bool

    /// The owner's oldest versions that are in no conflict, as many as free the room; nil if these do not.
    func oldest(
        of owner: UInt32, freeing room: Int, before time: Int64, sparing isSpared: Choice
    ) -> [KeptID]? {
        var chosen: [KeptID] = []
        var names: [Body: Int] = [:]
        var freed = 0
        for id in owners[owner]?.plain ?? [] {
            if freed >= room || id.nanoseconds >= time { break }
            guard let item = items[id], !isSpared(id) else { continue }
            chosen.append(id)
            names[item.body, default: 0] += 1
            if let shared = bodies[item.body], names[item.body] == shared.names { freed += shared.room }
        }
        return freed >= room ? chosen : nil
    }

    /// The year 2020. An earlier time is that of a clock that was not set, and tells no age.
    private static let leastTime: Int64 = 1_577_836_800_000_000_000

    /// Those older than a time.
    func all(before time: Int64, sparing isSpared: Choice) -> [KeptID] {
        owners.values.flatMap { line in
            [line.plain, line.conflicts].flatMap { ids in
                ids.prefix { $0.nanoseconds < time }.filter {
                    $0.nanoseconds >= Self.leastTime && !isSpared($0)
                }
            }
        }
    }

    /// The oldest versions of a document that are more than so many. Those in conflict go last.
    func oldest(
        of path: [UInt8], beyond most: Int, before time: Int64, sparing isSpared: Choice
    ) -> [KeptID] {
        guard let line = documents[path], line.count > most else { return [] }
        let candidates = [line.plain, line.conflicts].flatMap { ids in
            ids.prefix { $0.nanoseconds < time }.filter { !isSpared($0) }
        }
        return Array(candidates.prefix(line.count - most))
    }

    /// Documents of which more than so many versions are kept.
    func documents(beyond most: Int) -> [[UInt8]] {
        documents.filter { $0.value.count > most }.map(\.key)
    }

    /// Owners whose versions take more room.
    func owners(beyond room: Int) -> [UInt32] {
        owners.filter { $0.value.room > room }.map(\.key)
    }
}

extension [KeptID] {
    /// Nearly always at the end: times go on.
    fileprivate mutating func insert(sorted id: KeptID) {
        guard let last, last > id else { return append(id) }
        insert(id, at: index(of: id))
    }

    fileprivate mutating func remove(sorted id: KeptID) {
        let index = index(of: id)
        if index < count, self[index] == id { remove(at: index) }
    }

    /// Of the first one that is not before it.
    private func index(of id: KeptID) -> Int {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if self[middle] < id { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
