// SPDX-License-Identifier: Apache-2.0

/// The versions of each owner, and how much room they take.
///
/// It is made once, from the log and the files, when a store is opened. From then on it is carried forward.
struct Ledger: Sendable {
    /// What even an empty file takes: its inode and its name, and an ordinary line in the log.
    static let leastRoom = 4096

    /// A file of the store. Several versions may share it.
    struct Body: Hashable, Sendable {
        let device: UInt64
        let inode: UInt64
    }

    /// The user that made it necessary to keep a version.
    enum Causer: Hashable, Sendable {
        /// The owner, root, or the daemon itself.
        case owner
        case stranger
    }

    /// How many steps count on a version.
    enum Use: Sendable {
        /// None may: its contents or its line may not be on the disk.
        case none
        case one
        case several
    }

    struct Item: Sendable {
        /// The user that the room is charged to.
        let owner: UInt32
        let causer: Causer
        /// Empty if it was lost.
        let path: [UInt8]
        let isConflict: Bool
        let method: KeepMethod
        /// What its line takes beyond an ordinary one.
        let line: Int
        /// When it was kept, by the clock that does not jump.
        let born: Int64
        /// Whether that is known: the clock may not have been set.
        let isDated: Bool
        /// When a step counted on it last.
        var since: Int64
        var use = Use.one
        var body: Body
        var room: Int
        var size: Int

        /// Whether it is a copy, which nothing but the store can change.
        var isCopy: Bool { [.copy, .reflink, .shared].contains(method) }
        var nameRoom: Int { Ledger.leastRoom + line }
    }

    private struct Kin: Hashable, Sendable {
        let owner: UInt32
        let size: Int
    }

    private struct Shared: Sendable {
        let owner: UInt32
        /// The user that caused its first version.
        let causer: Causer
        var names = 0
        var room = 0
        /// Whether its blocks are another file's as well, as far as known.
        var isCloned = false
        /// When it was seen last that it has names outside the store.
        var elsewhere: Int64?

        /// The bytes charged beyond its names.
        var excess: Int { max(room - Ledger.leastRoom, 0) }
    }

    /// Versions in the order of their IDs, those in conflict apart from the others.
    private struct Line: Sendable {
        var plain: [KeptID] = []
        var conflicts: [KeptID] = []
        /// With what is held free for copies that are being made.
        var room = 0
        /// The part of it that other users than the owner have caused.
        var strangers = 0

        var isEmpty: Bool { plain.isEmpty && conflicts.isEmpty && room == 0 }
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
    func has(_ body: Body) -> Bool { bodies[body] != nil }

    /// What an owner's versions take, with those that are being made.
    func room(of owner: UInt32) -> Int { owners[owner]?.room ?? 0 }
    /// The part of it that strangers have caused.
    func strangersRoom(of owner: UInt32) -> Int { owners[owner]?.strangers ?? 0 }

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
        owners[item.owner]?.remove(id, item.isConflict)
        subtract(item)
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
        // Other versions may have the same file.
        guard var shared = bodies[body] else { return }
        let former = shared.excess
        shared.room = room
        bodies[body] = shared
        charge(shared.excess - former, to: shared.owner, shared.causer)
    }

    /// Whether a version was kept after a moment, so that a step may count on it. It stays then as if it were kept `now`.
    mutating func spare(_ id: KeptID, keptAfter moment: Int64, for use: Use, at now: Int64) -> Bool {
        guard let item = items[id], item.born > moment, item.use != .none else { return false }
        items[id]?.since = now
        if use == .several { items[id]?.use = use }
        return true
    }

    mutating func reserve(_ reservation: Reservation) {
        charge(reservation.bytes, to: reservation.owner, reservation.causer)
    }

    mutating func release(_ reservation: Reservation) {
        charge(-reservation.bytes, to: reservation.owner, reservation.causer)
    }

    /// Copies of an owner's files that are of a size, the last one first, and not more than so many.
    func copies(of owner: UInt32, size: Int, most: Int) -> [KeptID] {
        (kin[Kin(owner: owner, size: size)] ?? []).suffix(most).reversed()
    }

    private mutating func charge(_ bytes: Int, to owner: UInt32, _ causer: Causer) {
        owners[owner, default: Line()].room += bytes
        if causer == .stranger { owners[owner]?.strangers += bytes }
        if owners[owner]?.isEmpty ?? false { owners[owner] = nil }
    }

    private mutating func add(_ item: Item) {
        charge(item.nameRoom, to: item.owner, item.causer)
        var shared = bodies[item.body] ?? Shared(owner: item.owner, causer: item.causer)
        shared.names += 1
        if item.method == .reflink { shared.isCloned = true }
        if shared.names == 1 {
            shared.room = item.room
            charge(shared.excess, to: shared.owner, shared.causer)
        }
        bodies[item.body] = shared
    }

    private mutating func subtract(_ item: Item) {
        charge(-item.nameRoom, to: item.owner, item.causer)
        guard var shared = bodies[item.body] else { return }
        shared.names -= 1
        if shared.names == 0 { charge(-shared.excess, to: shared.owner, shared.causer) }
        bodies[item.body] = shared.names == 0 ? nil : shared
    }
}

/// Room that is held free for a version until it is entered.
struct Reservation: Sendable {
    let owner: UInt32
    let causer: Ledger.Causer
    var bytes: Int
}

extension Ledger.Item {
    fileprivate func mayGo(_ wish: Ledger.Wish, before moment: Int64) -> Bool {
        owner == wish.owner && since < moment && (causer == .stranger || !wish.onlyStrangers)
    }
}

/// What goes first.
extension Ledger {
    typealias Choice = (KeptID) -> Bool

    /// A search for versions that may go, and what they are to free.
    struct Wish {
        /// What counts as room.
        enum Measure {
            /// What the owner is charged.
            case charges
            /// Blocks of the disk. Of a file that is not the store's alone the caller knows how many names it has.
            case blocks
        }

        let owner: UInt32
        let room: Int
        let measure: Measure
        /// Versions that no step has counted on since then may go; those in conflict only after all others, and since another moment.
        let before: Int64
        let conflictsBefore: Int64
        /// Only those of one document.
        var path: [UInt8]?
        /// Only those that strangers have caused.
        var onlyStrangers = false
        /// Not the versions that have this file.
        var spared: Body?
    }

    enum Found {
        case enough([KeptID])
        /// All that may go frees no more than that.
        case tooLittle(Int)
    }

    /// The oldest versions, as many as fulfil a wish, those in conflict last. Each is looked at once.
    ///
    /// What frees nothing does not go: a name whose file another version holds as well goes only if names alone have to do. `names`
    /// says how many names files have that are not the store's alone, as far as that was seen.
    func oldest(_ wish: Wish, sparing isSpared: Choice, names: [Body: Int] = [:]) -> Found {
        guard wish.room > 0 else { return .enough([]) }
        guard let line = line(of: wish) else { return .tooLittle(0) }
        var search = Search(wish)
        for (ids, moment) in [(line.plain, wish.before), (line.conflicts, wish.conflictsBefore)] {
            for id in ids {
                guard let item = items[id], let shared = bodies[item.body],
                    item.mayGo(wish, before: moment), !isSpared(id)
                else { continue }
                let isStoresAlone = item.isCopy || names[item.body] == shared.names
                search.add(id, item, shared, isStoresAlone)
                if search.hasEnoughFiles { return .enough(search.files.sorted()) }
            }
            if search.hasEnoughNames { return .enough(search.names) }
        }
        return .tooLittle(search.most)
    }

    private func line(of wish: Wish) -> Line? {
        if let path = wish.path { documents[path] } else { owners[wish.owner] }
    }

    /// The oldest files that may go, and of which the caller has to see first how many names they have. Those that were seen to have others
    /// since a moment are left out.
    func unseen(
        _ wish: Wish, sparing isSpared: Choice, since moment: Int64, most: Int
    ) -> [Body: KeptID] {
        guard wish.room > 0, let line = line(of: wish) else { return [:] }
        var found: [Body: KeptID] = [:]
        for (ids, limit) in [(line.plain, wish.before), (line.conflicts, wish.conflictsBefore)] {
            for id in ids {
                if found.count >= most { return found }
                guard let item = items[id], !item.isCopy, let shared = bodies[item.body], !shared.isCloned,
                    shared.elsewhere ?? .min < moment, item.mayGo(wish, before: limit), !isSpared(id)
                else { continue }
                if found[item.body] == nil { found[item.body] = id }
            }
        }
        return found
    }

    /// How many names files were seen to have.
    mutating func note(_ names: [Body: Int], at now: Int64) {
        for (body, count) in names {
            guard let shared = bodies[body], count > shared.names else { continue }
            bodies[body]?.elsewhere = now
        }
    }

    /// A search for versions that fulfil a wish.
    private struct Search {
        private struct Names {
            var ids: [KeptID] = []
            var room = 0
        }

        private let wish: Wish
        private var found: [Body: Names] = [:]
        private(set) var files: [KeptID] = []
        private var freedByFiles = 0
        private(set) var names: [KeptID] = []
        private var freedByNames = 0
        /// The bytes of versions that stay this time.
        private var withheld = 0

        init(_ wish: Wish) { self.wish = wish }

        var hasEnoughFiles: Bool { freedByFiles >= wish.room }
        var hasEnoughNames: Bool { wish.measure == .charges && freedByNames >= wish.room }
        var most: Int { max(freedByFiles, freedByNames) + withheld }

        mutating func add(_ id: KeptID, _ item: Item, _ shared: Shared, _ isStoresAlone: Bool) {
            guard item.body != wish.spared else {
                withheld += item.nameRoom + shared.room
                return
            }
            var chosen = found[item.body] ?? Names()
            chosen.ids.append(id)
            chosen.room += item.nameRoom
            found[item.body] = chosen
            let isWhole = chosen.ids.count == shared.names
            if wish.measure == .charges, !hasEnoughNames {
                names.append(id)
                freedByNames += item.nameRoom + (isWhole ? shared.excess : 0)
            }
            guard isWhole else { return }
            switch wish.measure {
            case .charges: freedByFiles += shared.excess + chosen.room
            case .blocks:
                guard !shared.isCloned, isStoresAlone else { return }
                freedByFiles += shared.room
            }
            files += chosen.ids
        }
    }

    /// Those kept before a moment.
    func all(before moment: Int64, sparing isSpared: Choice) -> [KeptID] {
        items.filter { $1.isDated && $1.since < moment && !isSpared($0) }.keys.sorted()
    }

    /// The oldest versions of a document that are more than so many. Those in conflict go last.
    func oldest(
        of path: [UInt8], beyond most: Int, before moment: Int64, sparing isSpared: Choice
    ) -> [KeptID] {
        guard let line = documents[path], line.count > most else { return [] }
        let candidates = [line.plain, line.conflicts].flatMap { ids in
            ids.filter { id in items[id].map { $0.since < moment } ?? false && !isSpared(id) }
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

/// Wishes that were in vain a moment ago. To look through all versions of an owner for each refused open would keep others waiting.
struct VainWishes: Sendable {
    private struct Kind: Hashable, Sendable {
        let owner: UInt32
        let measure: Ledger.Wish.Measure
        let path: [UInt8]?
        let onlyStrangers: Bool

        init(_ wish: Ledger.Wish) {
            (owner, measure) = (wish.owner, wish.measure)
            (path, onlyStrangers) = (wish.path, wish.onlyStrangers)
        }
    }

    private struct Answer: Sendable {
        /// What could go then.
        let most: Int
        let moment: Int64
    }

    /// For a second.
    private static let validity = Int64(1_000_000_000)
    private static let most = 256
    private var answers: [Kind: Answer] = [:]

    func contains(_ wish: Ledger.Wish, at now: Int64) -> Bool {
        guard let answer = answers[Kind(wish)], (0..<Self.validity).contains(now &- answer.moment) else {
            return false
        }
        return wish.room > answer.most
    }

    mutating func insert(_ wish: Ledger.Wish, most: Int, at now: Int64) {
        if answers.count >= Self.most { answers = [:] }
        answers[Kind(wish)] = Answer(most: most, moment: now)
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
