// SPDX-License-Identifier: Apache-2.0

/// The versions of each owner, and how much room they take.
///
/// It is made once, from the log and the files, when a store is opened. From then on it is carried forward.
struct QuotaLedger: Sendable {
    /// What even an empty file takes: its inode and its name, and an ordinary line in the log.
    static let leastRoom = 4096

    /// A file of the store. Several versions may share it.
    struct StoredFile: Hashable, Sendable {
        let device: UInt64
        let inode: UInt64
    }

    /// The user that made it necessary to keep a version.
    enum Initiator: Hashable, Sendable {
        /// The owner, root, or the daemon itself.
        case owner
        case stranger
    }

    /// How many steps count on a version.
    enum Reliance: Sendable {
        /// None may: its contents or its line may not be on the disk.
        case none
        case one
        case several
    }

    struct ChargedVersion: Sendable {
        /// The user that the room is charged to.
        let owner: UInt32
        let initiator: Initiator
        /// Empty if it was lost.
        let path: [UInt8]
        let isConflict: Bool
        let method: PreservationMethod
        /// What its line takes beyond an ordinary one.
        let line: Int
        /// When it was kept, by the clock that does not jump.
        let born: Int64
        /// Whether that is known: the clock may not have been set.
        let isDated: Bool
        /// When a step counted on it last.
        var since: Int64
        var reliance = Reliance.one
        var body: StoredFile
        var room: Int
        var size: Int

        /// Whether it is a copy, which nothing but the store can change.
        var isCopy: Bool { [.copy, .reflink, .shared].contains(method) }
        var nameRoom: Int { QuotaLedger.leastRoom + line }
    }

    private struct CopyKey: Hashable, Sendable {
        let owner: UInt32
        let size: Int
    }

    private struct FileUsage: Sendable {
        let owner: UInt32
        /// The user that caused its first version.
        let initiator: Initiator
        var names = 0
        var room = 0
        /// Whether its blocks are another file's as well, as far as known.
        var isCloned = false
        /// When it was seen last that it has names outside the store.
        var elsewhere: Int64?

        /// The bytes charged beyond its names.
        var excess: Int { max(room - QuotaLedger.leastRoom, 0) }
    }

    /// Versions in the order of their IDs, those in conflict apart from the others.
    private struct VersionQueue: Sendable {
        var plain: [VersionID] = []
        var conflicts: [VersionID] = []
        /// With what is held free for copies that are being made.
        var room = 0
        /// The part of it that other users than the owner have caused.
        var strangers = 0

        var isEmpty: Bool { plain.isEmpty && conflicts.isEmpty && room == 0 }
        var count: Int { plain.count + conflicts.count }

        mutating func insert(_ id: VersionID, _ isConflict: Bool) {
            if isConflict { conflicts.insert(sorted: id) } else { plain.insert(sorted: id) }
        }

        mutating func remove(_ id: VersionID, _ isConflict: Bool) {
            if isConflict { conflicts.remove(sorted: id) } else { plain.remove(sorted: id) }
        }
    }

    private var versions: [VersionID: ChargedVersion] = [:]
    private var storedFiles: [StoredFile: FileUsage] = [:]
    private var owners: [UInt32: VersionQueue] = [:]
    private var documents: [[UInt8]: VersionQueue] = [:]
    /// Copies by owner and size, the last one at the end: what may be equal.
    private var copiesByKey: [CopyKey: [VersionID]] = [:]

    subscript(id: VersionID) -> ChargedVersion? { versions[id] }
    var count: Int { versions.count }
    func count(of path: [UInt8]) -> Int { documents[path]?.count ?? 0 }
    func has(_ body: StoredFile) -> Bool { storedFiles[body] != nil }

    /// What an owner's versions take, with those that are being made.
    func room(of owner: UInt32) -> Int { owners[owner]?.room ?? 0 }
    /// The part of it that strangers have caused.
    func strangersRoom(of owner: UInt32) -> Int { owners[owner]?.strangers ?? 0 }

    mutating func insert(_ id: VersionID, _ version: ChargedVersion) {
        remove(id)
        versions[id] = version
        owners[version.owner, default: VersionQueue()].insert(id, version.isConflict)
        add(version)
        if !version.path.isEmpty {
            documents[version.path, default: VersionQueue()].insert(id, version.isConflict)
        }
        if version.isCopy {
            copiesByKey[CopyKey(owner: version.owner, size: version.size), default: []].insert(sorted: id)
        }
    }

    mutating func remove(_ id: VersionID) {
        guard let version = versions.removeValue(forKey: id) else { return }
        owners[version.owner]?.remove(id, version.isConflict)
        subtract(version)
        documents[version.path]?.remove(id, version.isConflict)
        if documents[version.path]?.isEmpty ?? false { documents[version.path] = nil }
        let key = CopyKey(owner: version.owner, size: version.size)
        copiesByKey[key]?.remove(sorted: id)
        if copiesByKey[key]?.isEmpty ?? false { copiesByKey[key] = nil }
    }

    /// A version has come to be in another file, or its file has another length.
    mutating func change(_ id: VersionID, to body: StoredFile, room: Int, size: Int) {
        guard var version = versions[id] else { return }
        subtract(version)
        (version.body, version.room) = (body, room)
        // Copies are found by their size, and do not change.
        if !version.isCopy { version.size = size }
        versions[id] = version
        add(version)
        // Other versions may have the same file.
        guard var shared = storedFiles[body] else { return }
        let former = shared.excess
        shared.room = room
        storedFiles[body] = shared
        charge(shared.excess - former, to: shared.owner, shared.initiator)
    }

    /// Whether a version was kept after a moment, so that a step may count on it. It stays then as if it were kept `now`.
    mutating func renewIfRecent(
        _ id: VersionID, preservedAfter moment: Int64, for reliance: Reliance, at now: Int64
    ) -> Bool {
        guard let version = versions[id], version.born > moment, version.reliance != .none else {
            return false
        }
        versions[id]?.since = now
        if reliance == .several { versions[id]?.reliance = reliance }
        return true
    }

    mutating func reserve(_ reservation: Reservation) {
        charge(reservation.bytes, to: reservation.owner, reservation.initiator)
    }

    mutating func release(_ reservation: Reservation) {
        charge(-reservation.bytes, to: reservation.owner, reservation.initiator)
    }

    /// Copies of an owner's files that are of a size, the last one first, and not more than so many.
    func copies(of owner: UInt32, size: Int, most: Int) -> [VersionID] {
        (copiesByKey[CopyKey(owner: owner, size: size)] ?? []).suffix(most).reversed()
    }

    private mutating func charge(_ bytes: Int, to owner: UInt32, _ initiator: Initiator) {
        owners[owner, default: VersionQueue()].room += bytes
        if initiator == .stranger { owners[owner]?.strangers += bytes }
        if owners[owner]?.isEmpty ?? false { owners[owner] = nil }
    }

    private mutating func add(_ version: ChargedVersion) {
        charge(version.nameRoom, to: version.owner, version.initiator)
        var shared =
            storedFiles[version.body] ?? FileUsage(owner: version.owner, initiator: version.initiator)
        shared.names += 1
        if version.method == .reflink { shared.isCloned = true }
        if shared.names == 1 {
            shared.room = version.room
            charge(shared.excess, to: shared.owner, shared.initiator)
        }
        storedFiles[version.body] = shared
    }

    private mutating func subtract(_ version: ChargedVersion) {
        charge(-version.nameRoom, to: version.owner, version.initiator)
        guard var shared = storedFiles[version.body] else { return }
        shared.names -= 1
        if shared.names == 0 { charge(-shared.excess, to: shared.owner, shared.initiator) }
        storedFiles[version.body] = shared.names == 0 ? nil : shared
    }
}

/// Room that is held free for a version until it is entered.
struct Reservation: Sendable {
    let owner: UInt32
    let initiator: QuotaLedger.Initiator
    var bytes: Int
}

extension QuotaLedger.ChargedVersion {
    fileprivate func mayGo(_ eviction: QuotaLedger.EvictionRequest, before moment: Int64) -> Bool {
        owner == eviction.owner && since < moment && (initiator == .stranger || !eviction.onlyStrangers)
    }
}

/// What goes first.
extension QuotaLedger {
    typealias Choice = (VersionID) -> Bool

    /// A search for versions that may go, and what they are to free.
    struct EvictionRequest {
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
        var excludedFile: StoredFile?
    }

    enum EvictionPlan {
        case enough([VersionID])
        /// All that may go frees no more than that.
        case tooLittle(Int)
    }

    /// The oldest versions, as many as fulfil a wish, those in conflict last. Each is looked at once.
    ///
    /// What frees nothing does not go: a name whose file another version holds as well goes only if names alone have to do. `names`
    /// says how many names files have that are not the store's alone, as far as that was seen.
    func oldest(_ eviction: EvictionRequest, excluding isExcluded: Choice, names: [StoredFile: Int] = [:])
        -> EvictionPlan
    {
        guard eviction.room > 0 else { return .enough([]) }
        guard let line = line(of: eviction) else { return .tooLittle(0) }
        var search = EvictionSearch(eviction)
        for (ids, moment) in [(line.plain, eviction.before), (line.conflicts, eviction.conflictsBefore)] {
            for id in ids {
                guard let version = versions[id], let shared = storedFiles[version.body],
                    version.mayGo(eviction, before: moment), !isExcluded(id)
                else { continue }
                let isStoresAlone = version.isCopy || names[version.body] == shared.names
                search.add(id, version, shared, isStoresAlone)
                if search.hasEnoughFiles { return .enough(search.files.sorted()) }
            }
            if search.hasEnoughNames { return .enough(search.names) }
        }
        return .tooLittle(search.most)
    }

    private func line(of eviction: EvictionRequest) -> VersionQueue? {
        if let path = eviction.path { documents[path] } else { owners[eviction.owner] }
    }

    /// The oldest files that may go, and of which the caller has to see first how many names they have. Those that were seen to have others
    /// since a moment are left out.
    func unseen(
        _ eviction: EvictionRequest, excluding isExcluded: Choice, since moment: Int64, most: Int
    ) -> [StoredFile: VersionID] {
        guard eviction.room > 0, let line = line(of: eviction) else { return [:] }
        var found: [StoredFile: VersionID] = [:]
        for (ids, limit) in [(line.plain, eviction.before), (line.conflicts, eviction.conflictsBefore)] {
            for id in ids {
                if found.count >= most { return found }
                guard let version = versions[id], !version.isCopy, let shared = storedFiles[version.body],
                    !shared.isCloned,
                    shared.elsewhere ?? .min < moment, version.mayGo(eviction, before: limit), !isExcluded(id)
                else { continue }
                if found[version.body] == nil { found[version.body] = id }
            }
        }
        return found
    }

    /// How many names files were seen to have.
    mutating func note(_ names: [StoredFile: Int], at now: Int64) {
        for (body, count) in names {
            guard let shared = storedFiles[body], count > shared.names else { continue }
            storedFiles[body]?.elsewhere = now
        }
    }

    /// A search for versions that fulfil a wish.
    private struct EvictionSearch {
        private struct Names {
            var ids: [VersionID] = []
            var room = 0
        }

        private let eviction: EvictionRequest
        private var found: [StoredFile: Names] = [:]
        private(set) var files: [VersionID] = []
        private var freedByFiles = 0
        private(set) var names: [VersionID] = []
        private var freedByNames = 0
        /// The bytes of versions that stay this time.
        private var withheld = 0

        init(_ eviction: EvictionRequest) { self.eviction = eviction }

        var hasEnoughFiles: Bool { freedByFiles >= eviction.room }
        var hasEnoughNames: Bool { eviction.measure == .charges && freedByNames >= eviction.room }
        var most: Int { max(freedByFiles, freedByNames) + withheld }

        mutating func add(
            _ id: VersionID, _ version: ChargedVersion, _ shared: FileUsage, _ isStoresAlone: Bool
        ) {
            guard version.body != eviction.excludedFile else {
                withheld += version.nameRoom + shared.room
                return
            }
            var chosen = found[version.body] ?? Names()
            chosen.ids.append(id)
            chosen.room += version.nameRoom
            found[version.body] = chosen
            let isWhole = chosen.ids.count == shared.names
            if eviction.measure == .charges, !hasEnoughNames {
                names.append(id)
                freedByNames += version.nameRoom + (isWhole ? shared.excess : 0)
            }
            guard isWhole else { return }
            switch eviction.measure {
            case .charges: freedByFiles += shared.excess + chosen.room
            case .blocks:
                guard !shared.isCloned, isStoresAlone else { return }
                freedByFiles += shared.room
            }
            files += chosen.ids
        }
    }

    /// Those kept before a moment.
    func all(before moment: Int64, excluding isExcluded: Choice) -> [VersionID] {
        versions.filter { $1.isDated && $1.since < moment && !isExcluded($0) }.keys.sorted()
    }

    /// The oldest versions of a document that are more than so many. Those in conflict go last.
    func oldest(
        of path: [UInt8], beyond most: Int, before moment: Int64, excluding isExcluded: Choice
    ) -> [VersionID] {
        guard let line = documents[path], line.count > most else { return [] }
        let candidates = [line.plain, line.conflicts].flatMap { ids in
            ids.filter { id in versions[id].map { $0.since < moment } ?? false && !isExcluded(id) }
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
struct FailedEvictions: Sendable {
    private struct Kind: Hashable, Sendable {
        let owner: UInt32
        let measure: QuotaLedger.EvictionRequest.Measure
        let path: [UInt8]?
        let onlyStrangers: Bool

        init(_ eviction: QuotaLedger.EvictionRequest) {
            (owner, measure) = (eviction.owner, eviction.measure)
            (path, onlyStrangers) = (eviction.path, eviction.onlyStrangers)
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

    func contains(_ eviction: QuotaLedger.EvictionRequest, at now: Int64) -> Bool {
        guard let answer = answers[Kind(eviction)], (0..<Self.validity).contains(now &- answer.moment) else {
            return false
        }
        return eviction.room > answer.most
    }

    mutating func insert(_ eviction: QuotaLedger.EvictionRequest, most: Int, at now: Int64) {
        if answers.count >= Self.most { answers = [:] }
        answers[Kind(eviction)] = Answer(most: most, moment: now)
    }
}

extension [VersionID] {
    /// Nearly always at the end: times go on.
    fileprivate mutating func insert(sorted id: VersionID) {
        guard let last, last > id else { return append(id) }
        insert(id, at: index(of: id))
    }

    fileprivate mutating func remove(sorted id: VersionID) {
        let index = index(of: id)
        if index < count, self[index] == id { remove(at: index) }
    }

    /// Of the first one that is not before it.
    private func index(of id: VersionID) -> Int {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if self[middle] < id { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
