// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The versions of each owner, and the bytes that they are charged for.
///
/// The ledger is built once from the log and the files, when a store is opened. After that, each change of a version updates
/// the ledger.
struct QuotaLedger: Sendable {
    /// The least bytes that a version is charged for: room for its inode, its name, and an ordinary line in the log.
    static let leastRoom = 4096

    /// A file of the store. Several versions can be names of the same file.
    struct StoredFile: Hashable, Sendable {
        let device: UInt64
        let inode: UInt64
    }

    /// The kind of user that caused a version.
    enum Initiator: Hashable, Sendable {
        /// The owner of the versions, root, or the daemon itself caused the version.
        case owner
        case stranger
    }

    /// How many steps rely on a version. A step relies on a version if the version holds the contents that the step destroys.
    enum Reliance: Sendable {
        /// No step can rely on the version, because its contents or its log line are possibly not on the disk.
        case none
        case one
        case several
    }

    struct ChargedVersion: Sendable {
        /// The user that the version's room is charged to.
        let owner: UInt32
        let initiator: Initiator
        /// The path of the document; empty if the path was lost.
        var path: [UInt8]
        var isConflict: Bool
        /// Whether the version is part of a document's history: no step relies on it, because nothing was about to be lost.
        var isHistory = false
        let method: PreservationMethod
        /// The bytes by which the version's log line exceeds an ordinary line; 0 for an ordinary line.
        let line: Int
        /// The time at which the contents were preserved, by the steady clock, in nanoseconds.
        let born: Int64
        /// Whether the age of the version is known. It is unknown if the computer's clock was not set when the contents were
        /// preserved.
        let isDated: Bool
        /// The latest time at which a step relied on the version, by the steady clock, in nanoseconds.
        var since: Int64
        var reliance = Reliance.one
        var body: StoredFile
        var room: Int
        var size: Int

        /// Whether the version is a copy. Only the store can change the file of a copy, but a program can change the file of a
        /// link.
        var isCopy: Bool { [.copy, .reflink, .shared].contains(method) }
        var nameRoom: Int { QuotaLedger.leastRoom + line }
        fileprivate var rank: Rank { isConflict ? .conflict : isHistory ? .history : .plain }
    }

    /// The order in which versions are evicted.
    fileprivate enum Rank { case history, plain, conflict }

    private struct CopyKey: Hashable, Sendable {
        let owner: UInt32
        let size: Int
    }

    private struct FileUsage: Sendable {
        let owner: UInt32
        /// The kind of user that caused the first version of the file.
        let initiator: Initiator
        var names = 0
        var room = 0
        /// Whether the file is known to share its blocks with another file, because it was copied by reflink.
        var isCloned = false
        /// The latest time at which the file had names outside the store, by the steady clock; nil if it was never seen with
        /// such names.
        var elsewhere: Int64?

        /// The bytes of the file beyond `leastRoom`. The owner is charged `leastRoom` for each name of the file.
        var excess: Int { max(room - QuotaLedger.leastRoom, 0) }
    }

    /// The versions of one owner or of one document, in the order of their IDs. Versions of the history and versions from
    /// conflicts are in separate lists.
    private struct VersionQueue: Sendable {
        var history: [VersionID] = []
        var plain: [VersionID] = []
        var conflicts: [VersionID] = []
        /// The bytes that these versions are charged for. For an owner, this contains the room that is reserved for unfinished
        /// copies.
        var room = 0
        /// The part of `room` that is charged for versions caused by strangers: users other than the owner and root.
        var strangers = 0

        var isEmpty: Bool { count == 0 && room == 0 }
        var count: Int { history.count + plain.count + conflicts.count }

        mutating func insert(_ id: VersionID, _ rank: Rank) {
            switch rank {
            case .history: history.insert(sorted: id)
            case .plain: plain.insert(sorted: id)
            case .conflict: conflicts.insert(sorted: id)
            }
        }

        mutating func remove(_ id: VersionID, _ rank: Rank) {
            switch rank {
            case .history: history.remove(sorted: id)
            case .plain: plain.remove(sorted: id)
            case .conflict: conflicts.remove(sorted: id)
            }
        }
    }

    private var versions: [VersionID: ChargedVersion] = [:]
    private var storedFiles: [StoredFile: FileUsage] = [:]
    private var owners: [UInt32: VersionQueue] = [:]
    private var documents: [[UInt8]: VersionQueue] = [:]
    /// The IDs of copies by owner and size, the latest last. A new file of the same owner and size is compared with these
    /// copies.
    private var copiesByKey: [CopyKey: [VersionID]] = [:]

    subscript(id: VersionID) -> ChargedVersion? { versions[id] }
    var count: Int { versions.count }
    func count(of path: [UInt8]) -> Int { documents[path]?.count ?? 0 }
    func has(_ body: StoredFile) -> Bool { storedFiles[body] != nil }

    /// The bytes that an owner's versions are charged for, including the room that is reserved for unfinished copies.
    func room(of owner: UInt32) -> Int { owners[owner]?.room ?? 0 }
    /// The part of an owner's bytes that strangers have caused, including the room that is reserved for unfinished copies of
    /// strangers.
    func strangersRoom(of owner: UInt32) -> Int { owners[owner]?.strangers ?? 0 }

    mutating func insert(_ id: VersionID, _ version: ChargedVersion) {
        remove(id)
        versions[id] = version
        owners[version.owner, default: VersionQueue()].insert(id, version.rank)
        add(version)
        if !version.path.isEmpty {
            documents[version.path, default: VersionQueue()].insert(id, version.rank)
        }
        if version.isCopy {
            copiesByKey[CopyKey(owner: version.owner, size: version.size), default: []].insert(sorted: id)
        }
    }

    mutating func remove(_ id: VersionID) {
        guard let version = versions.removeValue(forKey: id) else { return }
        owners[version.owner]?.remove(id, version.rank)
        subtract(version)
        documents[version.path]?.remove(id, version.rank)
        if documents[version.path]?.isEmpty ?? false { documents[version.path] = nil }
        let key = CopyKey(owner: version.owner, size: version.size)
        copiesByKey[key]?.remove(sorted: id)
        if copiesByKey[key]?.isEmpty ?? false { copiesByKey[key] = nil }
    }

    /// Changes whether a version counts as a conflict.
    mutating func setConflict(_ id: VersionID, to isConflict: Bool) {
        guard var version = versions[id], version.isConflict != isConflict else { return }
        owners[version.owner]?.remove(id, version.rank)
        documents[version.path]?.remove(id, version.rank)
        version.isConflict = isConflict
        versions[id] = version
        owners[version.owner]?.insert(id, version.rank)
        documents[version.path]?.insert(id, version.rank)
    }

    /// Counts a version for another path, after its document was moved.
    mutating func rename(_ id: VersionID, to path: [UInt8]) {
        guard let version = versions[id], version.path != path, !path.isEmpty else { return }
        documents[version.path]?.remove(id, version.rank)
        if documents[version.path]?.isEmpty ?? false { documents[version.path] = nil }
        documents[path, default: VersionQueue()].insert(id, version.rank)
        versions[id]?.path = path
    }

    /// Changes the entry of a version after its file was replaced or got another size.
    mutating func change(_ id: VersionID, to body: StoredFile, room: Int, size: Int) {
        guard var version = versions[id] else { return }
        subtract(version)
        (version.body, version.room) = (body, room)
        // The size of a copy never changes, and `copiesByKey` finds a copy by this size. Only the size of a link can change.
        if !version.isCopy { version.size = size }
        versions[id] = version
        add(version)
        // Several versions can share the file, so its new room is charged once for all of them.
        guard var shared = storedFiles[body] else { return }
        let former = shared.excess
        shared.room = room
        storedFiles[body] = shared
        charge(shared.excess - former, to: shared.owner, shared.initiator)
    }

    /// If a version was preserved after `moment` and steps can rely on it, returns true. The version then stays as long as a
    /// version that is preserved at `now`.
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

    /// Returns the IDs of at most `most` copies of this size that are charged to this owner, the latest first.
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

/// Room that is reserved for a version until the version is entered into the ledger.
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

/// The choice of versions for an eviction.
extension QuotaLedger {
    typealias Choice = (VersionID) -> Bool

    /// A request for an eviction: which versions can be evicted, and how much room they must free.
    struct EvictionRequest {
        /// How the room that an eviction frees is measured.
        enum Measure {
            /// The room is measured in bytes that are charged to the owner.
            case charges
            /// The room is measured in bytes on the disk. The removal of a version frees nothing if its file also has a name
            /// outside the store. So the caller passes the number of names of each file.
            case blocks
        }

        let owner: UInt32
        let room: Int
        let measure: Measure
        /// A version can be evicted only if it was not needed since this time: no program's step has destroyed the contents
        /// that the version holds. For versions from conflicts, `conflictsBefore` applies in the same way.
        let before: Int64
        let conflictsBefore: Int64
        /// The path of a document; only versions of this document are evicted. If it is nil, all versions of the owner can be
        /// evicted.
        var path: [UInt8]?
        /// Whether only versions are evicted that strangers have caused: users other than the owner and root.
        var onlyStrangers = false
        /// Whether only versions of the history are evicted, because the new version is one of them.
        var onlyHistory = false
        /// Versions of this file are not evicted, because the new version shares the file.
        var excludedFile: StoredFile?
        /// The most versions of one document in conflict that go last. If a document has more, the oldest of them go before all
        /// other versions in conflict (D275).
        var mostConflicts = Int.max
    }

    enum EvictionPlan {
        case enough([VersionID])
        /// The evictable versions together free at most this many bytes, which is not enough.
        case tooLittle(Int)
    }

    /// Returns the oldest versions that together free enough room: versions of the history first, whatever their age (D264), and
    /// versions from conflicts last.
    ///
    /// A version is not chosen if its removal frees nothing. If several versions share a file, the removal of one version frees
    /// only the room of a name. Such versions are chosen only if the removal of whole files does not free enough. `names` has
    /// the number of all names of linked files, in the store and outside.
    func oldest(_ eviction: EvictionRequest, excluding isExcluded: Choice, names: [StoredFile: Int] = [:])
        -> EvictionPlan
    {
        guard eviction.room > 0 else { return .enough([]) }
        guard let line = line(of: eviction) else { return .tooLittle(0) }
        var search = EvictionSearch(eviction)
        for (moment, ids) in stages(of: eviction, in: line) {
            for id in ids() {
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

    /// The versions that can be evicted, in their order. A version can go if it was not needed since the time beside its list.
    private func stages(
        of eviction: EvictionRequest, in line: VersionQueue
    ) -> [(before: Int64, ids: () -> [VersionID])] {
        let history: (before: Int64, ids: () -> [VersionID]) = (Int64.max, { line.history })
        if eviction.onlyHistory { return [history] }
        let most = eviction.mostConflicts
        return [
            history, (eviction.before, { line.plain }),
            (eviction.conflictsBefore, { line.conflicts.filter { isSurplus($0, beyond: most) } }),
            (eviction.conflictsBefore, { line.conflicts.filter { !isSurplus($0, beyond: most) } }),
        ]
    }

    /// Whether a version in conflict is not among the latest `most` ones of its document.
    private func isSurplus(_ id: VersionID, beyond most: Int) -> Bool {
        guard let path = versions[id]?.path, let conflicts = documents[path]?.conflicts,
            conflicts.count > most
        else { return false }
        return id < conflicts[conflicts.count - most]
    }

    private func line(of eviction: EvictionRequest) -> VersionQueue? {
        if let path = eviction.path { documents[path] } else { owners[eviction.owner] }
    }

    /// Returns the oldest evictable linked files for which the number of names must be read. Files that had names outside the
    /// store since `moment` are left out.
    func unseen(
        _ eviction: EvictionRequest, excluding isExcluded: Choice, since moment: Int64, most: Int
    ) -> [StoredFile: VersionID] {
        guard eviction.room > 0, let line = line(of: eviction) else { return [:] }
        var found: [StoredFile: VersionID] = [:]
        for (limit, ids) in stages(of: eviction, in: line) {
            for id in ids() {
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

    /// Records which of these files have names outside the store. `names` has the number of all names of each file.
    mutating func note(_ names: [StoredFile: Int], at now: Int64) {
        for (body, count) in names {
            guard let shared = storedFiles[body], count > shared.names else { continue }
            storedFiles[body]?.elsewhere = now
        }
    }

    /// Collects versions until their removal frees enough room.
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
        /// The bytes of versions that stay because the new version shares their file.
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

    /// Returns the versions with a known age that were not needed since `moment`. A version is needed when a program destroys,
    /// in the document, the contents that the version also holds. Versions from conflicts are left out, and the history of the
    /// documents `others`, which have limits of their own.
    func all(
        before moment: Int64, butHistoryOf others: Set<[UInt8]>, excluding isExcluded: Choice
    ) -> [VersionID] {
        versions.filter { id, version in
            version.isDated && !version.isConflict && version.since < moment && !isExcluded(id)
                && !(version.isHistory && others.contains(version.path))
        }.keys.sorted()
    }

    /// Returns the oldest versions of a document that exceed the number `most`, those of the history first. Versions from
    /// conflicts are left out, because only the owner's room limits their number (D218). So is the history, if it has limits of
    /// its own.
    func oldest(
        of path: [UInt8], beyond most: Int, ofHistory isHistoryToo: Bool, before moment: Int64,
        excluding isExcluded: Choice
    ) -> [VersionID] {
        guard let line = documents[path], line.count > most else { return [] }
        let candidates = ((isHistoryToo ? line.history : []) + line.plain).filter { id in
            versions[id].map { $0.since < moment } ?? false && !isExcluded(id)
        }
        return Array(candidates.prefix(line.count - most))
    }

    /// Returns the versions of a document's history that are too many or too old for the limits of this document.
    func history(
        of path: [UInt8], beyond limits: KeptWritesLimits, now: Int64, excluding isExcluded: Choice
    ) -> [VersionID] {
        guard let history = documents[path]?.history else { return [] }
        let moment = now &- Int64(clamping: limits.age.nanoseconds)
        let excess = history.count - limits.versions
        return history.enumerated().filter { index, id in
            let isOld = versions[id].map { $0.isDated && $0.since < moment } ?? false
            return (index < excess || isOld) && !isExcluded(id)
        }.map(\.element)
    }

    /// Returns the number of a document's versions that are not of its history.
    func countWithoutHistory(of path: [UInt8]) -> Int {
        documents[path].map { $0.count - $0.history.count } ?? 0
    }

    /// The documents with versions of their history.
    var documentsWithHistory: [[UInt8]] { documents.filter { !$0.value.history.isEmpty }.map(\.key) }

    /// Returns the documents with more than `most` versions.
    func documents(beyond most: Int) -> [[UInt8]] {
        documents.filter { $0.value.count > most }.map(\.key)
    }

    /// Returns the owners with versions and reservations of more than `room` bytes.
    func owners(beyond room: Int) -> [UInt32] {
        owners.filter { $0.value.room > room }.map(\.key)
    }
}

/// The evictions that failed in the last second.
///
/// If a request for the same room is repeated within that second, it fails without a search. A search goes through all versions
/// while it holds the lock, so it delays other requests.
struct FailedEvictions: Sendable {
    private struct Kind: Hashable, Sendable {
        let owner: UInt32
        let measure: QuotaLedger.EvictionRequest.Measure
        let path: [UInt8]?
        let onlyStrangers: Bool
        let onlyHistory: Bool

        init(_ eviction: QuotaLedger.EvictionRequest) {
            (owner, measure) = (eviction.owner, eviction.measure)
            path = eviction.path
            (onlyStrangers, onlyHistory) = (eviction.onlyStrangers, eviction.onlyHistory)
        }
    }

    private struct Answer: Sendable {
        /// The most bytes that the failed eviction could have freed.
        let most: Int
        let moment: Int64
    }

    /// How long a failed eviction is remembered: one second, in nanoseconds.
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
    /// Inserts an ID at its place in the sorted list. Nearly always the new ID is the greatest, and is appended.
    mutating func insert(sorted id: VersionID) {
        guard let last, last > id else { return append(id) }
        insert(id, at: index(of: id))
    }

    mutating func remove(sorted id: VersionID) {
        let index = index(of: id)
        if index < count, self[index] == id { remove(at: index) }
    }

    /// The index of the first ID in the sorted list that is not less than `id`.
    private func index(of id: VersionID) -> Int {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if self[middle] < id { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
