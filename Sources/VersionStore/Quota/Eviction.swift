// SPDX-License-Identifier: Apache-2.0
import Coordination
import LinuxSystem
import Synchronization

/// The owner that a version is charged to, and the versions that can be evicted to make room for it.
struct QuotaCharge: Sendable {
    enum EvictionRule: Sendable {
        /// No version is evicted, because it is not certain that the new version will be needed.
        case nothing
        /// Only versions of the history are evicted, because the new version is one of them.
        case history
        case oldVersions
    }

    let owner: UInt32
    let initiator: QuotaLedger.Initiator
    /// The user and group to which the disk quota charges the written bytes. For a version of root's file, it is the user that
    /// caused the version. The version then takes no disk room that is reserved for root.
    let writer: QuotaOwner
    let path: [UInt8]
    let evictionRule: EvictionRule
    /// The bytes by which the version's log line exceeds an ordinary line; 0 for an ordinary line.
    let line: Int
}

/// The limits of the store: the owner pays (D193), useless removals are avoided (D210), age is measured by a steady clock
/// (D211), and names cost room (D212).
extension VersionFiles {
    private static let blockSize = 512
    /// The largest number of blocks that is counted for a file. A file system can report any number, and sums of larger numbers
    /// could overflow.
    private static let mostBlocks: UInt64 = 1 << 40
    /// The time, in nanoseconds, for which a version is recent. If a step needs the same contents within this time, the version
    /// is used again. Even a full disk does not evict a recent version.
    private static let youth = Int64(60_000_000_000)
    /// The size of an ordinary log line, in bytes. Only the bytes beyond this size are charged to the owner.
    private static let ordinaryLine = 1024

    /// The bytes that a file takes on the disk. An empty file counts as `QuotaLedger.leastRoom`.
    static func room(taken status: FileStatus) -> Int {
        max(Int(clamping: min(status.blocks, mostBlocks)) * blockSize, QuotaLedger.leastRoom)
    }

    /// The most bytes that a copy of a file takes on the disk.
    static func room(neededFor status: FileStatus) -> Int {
        let unit = QuotaLedger.leastRoom
        // The size is bounded, because the sum could overflow for larger sizes. Files that are copied are much smaller than
        // this bound.
        return max((min(Int(clamping: status.size), .max - unit) + unit - 1) / unit * unit, unit)
    }

    /// The bytes by which a version's log line exceeds an ordinary line. The line contains the path twice, and the rights of
    /// the file and of the directories above it, and the programs that have part in the version.
    static func line(of request: PreservationRequest, _ rights: FileRights) -> Int {
        let path = request.path.reduce(0) { $0 + ($1 < 0x20 ? 6 : $1 == 0x22 || $1 == 0x5C ? 2 : 1) }
        let lists = ([rights] + request.closed).reduce(0) {
            $0 + 96 + ($1.accessControlList?.count ?? 0) / 3 * 4
        }
        let provenance = request.provenance?.lineRoom ?? 0
        return max(path + request.path.count / 3 * 4 + lists + provenance - ordinaryLine, 0)
    }

    /// The user that versions of a file are charged to: the file's owner if the daemon runs as root, otherwise the daemon's
    /// user.
    func owner(of rights: FileRights) -> UInt32 { OwnProcess.user == 0 ? rights.user : OwnProcess.user }

    func charge(
        _ rights: FileRights, _ request: PreservationRequest,
        _ evictionRule: QuotaCharge.EvictionRule = .oldVersions
    )
        -> QuotaCharge
    {
        let owner = owner(of: rights)
        let initiator = initiator(request.user, owner)
        return QuotaCharge(
            owner: owner, initiator: initiator, writer: writer(rights, request.user), path: request.path,
            evictionRule: evictionRule == .oldVersions && request.cause.isHistory ? .history : evictionRule,
            line: Self.line(of: request, rights))
    }

    /// The user and group to which the disk quota charges a version and its log line.
    func writer(_ rights: FileRights, _ user: UInt32?) -> QuotaOwner {
        let isRoots = rights.user == 0 && initiator(user, owner(of: rights)) == .stranger
        return QuotaOwner(user: isRoots ? user ?? 0 : rights.user, group: rights.group)
    }

    /// Whether the owner of the versions or another user (a stranger) causes a version. Root and the daemon count as the owner.
    func initiator(_ user: UInt32?, _ owner: UInt32) -> QuotaLedger.Initiator {
        guard let user, user != owner, user != 0 else { return .owner }
        return .stranger
    }

    /// Returns the most bytes that the versions of one owner may take on this file system.
    private func limit() throws(StoreError) -> Int {
        let status = try withStoreErrors { () throws(Errno) in try directory.filesystemStatus() }
        let size = Int(clamping: status.blocks).multipliedReportingOverflow(
            by: Int(clamping: status.fragmentSize))
        return limits.room(ofFilesystem: size.overflow ? .max : size.partialValue)
    }

    /// Reserves room for a version. If the owner's limit is reached, evicts the owner's oldest versions to make room.
    ///
    /// If a stranger causes the version, it evicts only versions of the same document. Versions that strangers cause take at
    /// most half of the owner's room. `body` is a file of the store that the new version shares, if there is one. The new
    /// version is then charged for its name and its line only.
    func reserve(_ room: Int, for charge: QuotaCharge, sharing body: QuotaLedger.StoredFile? = nil)
        throws(StoreError)
        -> Reservation
    {
        let limit = try limit()
        var reservation = Reservation(
            owner: charge.owner, initiator: charge.initiator, bytes: room + charge.line)
        var bound = limit
        let isFree = try evict(because: "the limit of \(limit) bytes is reached") { ledger in
            if let body, ledger.has(body) { reservation.bytes = QuotaLedger.leastRoom + charge.line }
            var excess = ledger.room(of: charge.owner) + reservation.bytes - limit
            var isStrangers = false
            if charge.initiator == .stranger {
                let beyond = ledger.strangersRoom(of: charge.owner) + reservation.bytes - limit / 2
                isStrangers = beyond > 0
                excess = max(excess, beyond)
                if isStrangers { bound = limit / 2 }
            }
            guard excess <= 0 || charge.evictionRule != .nothing && reservation.bytes <= bound else {
                return nil
            }
            var eviction = eviction(charge, excess, .charges, before: uncertain)
            (eviction.onlyStrangers, eviction.excludedFile) = (isStrangers, body)
            return eviction
        } then: {
            $0.reserve(reservation)
        }
        guard isFree else { throw .overLimit(bound) }
        return reservation
    }

    func release(_ reservation: Reservation?) {
        guard let reservation else { return }
        withState { $0.ledger.release(reservation) }
    }

    /// Runs a step that writes to the disk. If the disk or the owner's quota is full, the owner's oldest versions are evicted,
    /// and the step runs once more.
    ///
    /// Versions of the last minute are not evicted, because a program's step that destroys the original contents can still be
    /// in progress.
    func evictingIfFull(
        _ room: Int, for charge: QuotaCharge, _ step: () throws(StoreError) -> OwnedDescriptor
    ) throws(StoreError) -> OwnedDescriptor {
        do throws(StoreError) {
            return try step()
        } catch .noSpace {
            guard charge.evictionRule != .nothing else { throw .noSpace }
            let eviction = eviction(charge, room, .blocks, before: steadyClock() &- Self.youth)
            let names = lookAtNames(eviction)
            let isFree = try evict(because: "the disk or the quota is full", names: names) { _ in eviction }
            guard isFree else { throw .noSpace }
            return try step()
        }
    }

    private func eviction(
        _ charge: QuotaCharge, _ room: Int, _ measure: QuotaLedger.EvictionRequest.Measure,
        before moment: Int64
    ) -> QuotaLedger.EvictionRequest {
        QuotaLedger.EvictionRequest(
            owner: charge.owner, room: room, measure: measure, before: moment,
            conflictsBefore: min(moment, uncertain), path: charge.initiator == .stranger ? charge.path : nil,
            onlyHistory: charge.evictionRule == .history, mostConflicts: limits.versions)
    }

    /// A time on the steady clock. A version is not evicted if it was needed after this time: a program's step then destroyed
    /// the contents that the version holds. The time is at least a minute ago, even if the option `keep-certain` is shorter.
    private var uncertain: Int64 {
        steadyClock() &- max(Int64(clamping: limits.certain.nanoseconds), Self.youth)
    }

    /// Whether a version is recent enough to be used again. If so, the version then stays as long as a version that is
    /// preserved now.
    func renewIfRecent(_ id: VersionID, for reliance: QuotaLedger.Reliance) -> Bool {
        let now = steadyClock()
        return withState {
            $0.ledger.renewIfRecent(id, preservedAfter: now &- Self.youth, for: reliance, at: now)
        }
    }

    /// Evicts the oldest versions of one owner, versions from conflicts last. Returns whether enough room is free after this.
    ///
    /// If all evictable versions together do not free enough, none of them is evicted. `eviction` returns how much room is
    /// needed, or nil if an eviction cannot help.
    private func evict(
        because reason: String, names: [QuotaLedger.StoredFile: Int] = [:],
        _ eviction: (QuotaLedger) -> QuotaLedger.EvictionRequest?,
        then step: (inout QuotaLedger) -> Void = { _ in }
    ) throws(StoreError) -> Bool {
        let (written, now) = (writers.all, steadyClock())
        let gone: EvictedVersions? = withState { state in
            guard let eviction = eviction(state.ledger), !state.failedEvictions.contains(eviction, at: now)
            else { return nil }
            let chosen: [VersionID]
            switch state.ledger.oldest(eviction, excluding: written.contains, names: names) {
            case .enough(let ids): chosen = ids
            case .tooLittle(let most):
                state.failedEvictions.insert(eviction, most: most, at: now)
                return nil
            }
            var conflicts = 0
            for id in chosen where state.ledger[id]?.isConflict ?? false { conflicts += 1 }
            for id in chosen { state.ledger.remove(id) }
            step(&state.ledger)
            return EvictedVersions(ids: chosen, conflicts: conflicts, owner: eviction.owner)
        }
        guard let gone else { return false }
        forget(gone.ids)
        reportAndDrop(of: gone.ids, because: reason, gone.whose)
        return true
    }

    private struct EvictedVersions {
        let ids: [VersionID]
        let conflicts: Int
        let owner: UInt32

        var whose: String {
            let part = conflicts == ids.count ? ", in conflict" : ", \(conflicts) of them in conflict"
            return "of user \(owner)\(conflicts > 0 ? part : "")"
        }
    }

    /// One search for room reads the number of names of at most this many files.
    private static let mostLooks = 1024
    /// The nanoseconds for which a file with names outside the store is not examined again.
    private static let lookAgain = Int64(10_000_000_000)

    /// Reads the number of names of the linked files that could be evicted.
    ///
    /// The removal of a version frees blocks only if its file has no names outside the store. The lock is not held during this,
    /// because each number takes a system call.
    private func lookAtNames(_ eviction: QuotaLedger.EvictionRequest) -> [QuotaLedger.StoredFile: Int] {
        let (written, now) = (writers.all, steadyClock())
        let files = withState { state -> [QuotaLedger.StoredFile: VersionID] in
            if state.failedEvictions.contains(eviction, at: now) { return [:] }
            return state.ledger.unseen(
                eviction, excluding: written.contains, since: now &- Self.lookAgain, most: Self.mostLooks)
        }
        var names: [QuotaLedger.StoredFile: Int] = [:]
        for (body, id) in files {
            do throws(Errno) {
                let status = try directory.path(of: id.description).status()
                if QuotaLedger.StoredFile(status) == body { names[body] = Int(clamping: status.linkCount) }
            } catch {
                // The version was removed after it was chosen, or it cannot be examined. In this search it is not evicted.
                continue
            }
        }
        withState { [names] in $0.ledger.note(names, at: now) }
        return names
    }

    /// Removes versions that are too old, and versions that are too many for one document. After that, removes versions of
    /// owners that exceed the limit of bytes. The daemon calls this regularly.
    func prune() {
        guard !isReadOnly else { return }
        let written = writers.all
        let documents = withState { $0.ledger.documentsWithHistory }
        let others = Set(documents.filter { historyLimits(ofFileAt: $0) != nil })
        // If the age limit is shorter than the time for which versions certainly stay, the longer time applies.
        let moment = min(steadyClock() &- Int64(clamping: limits.age.nanoseconds), uncertain)
        let old: [VersionID] = withState { state in
            let old = state.ledger.all(before: moment, butHistoryOf: others, excluding: written.contains)
            for id in old { state.ledger.remove(id) }
            return old
        }
        forget(old)
        reportAndDrop(of: old, because: "it is older than \(limits.age.milliseconds / 1000) s")
        for path in others.union(withState { $0.ledger.documents(beyond: limits.versions) }) { prune(path) }
        do throws(StoreError) {
            let limit = try limit()
            for owner in withState({ $0.ledger.owners(beyond: limit) }) {
                let charge = QuotaCharge(
                    owner: owner, initiator: .owner, writer: .root, path: [], evictionRule: .oldVersions,
                    line: 0)
                _ = try evict(because: "the limit of \(limit) bytes is exceeded") {
                    eviction(charge, $0.room(of: owner) - limit, .charges, before: uncertain)
                }
            }
        } catch {
            report("the limit of versions could not be enforced (\(error))")
        }
        compactLogIfLong()
    }

    /// Removes the oldest versions of a document until the number of its versions is within the limit. If its history has
    /// limits of its own, the limit is only for the other versions.
    private func prune(_ path: [UInt8]) {
        let (written, now, own) = (writers.all, steadyClock(), historyLimits(ofFileAt: path))
        if let own {
            let gone: [VersionID] = withState { state in
                let gone = state.ledger.history(of: path, beyond: own, now: now, excluding: written.contains)
                for id in gone { state.ledger.remove(id) }
                return gone
            }
            forget(gone)
            // A configuration file asks for this, so it is no news for the daemon's log.
            drop(gone, because: "the limits of the document's history are reached")
            guard withState({ $0.ledger.countWithoutHistory(of: path) }) > limits.versions else { return }
        }
        let gone: [VersionID] = withState { state in
            var most = limits.versions
            if own != nil {
                most += state.ledger.count(of: path) - state.ledger.countWithoutHistory(of: path)
            }
            let gone = state.ledger.oldest(
                of: path, beyond: most, ofHistory: own == nil, before: uncertain, excluding: written.contains)
            for id in gone { state.ledger.remove(id) }
            return gone
        }
        forget(gone)
        reportAndDrop(of: gone, because: "the document has more than \(limits.versions) versions")
    }

    /// Reports and removes versions that are not in the ledger any more. If the file of a version cannot be removed, the next
    /// opening of the store tries again.
    private func reportAndDrop(of ids: [VersionID], because reason: String, _ whose: String = "") {
        guard let first = ids.first else { return }
        let others = ids.count > 1 ? " and \(ids.count - 1) more" : ""
        report("removed kept/\(first)\(others)\(whose.isEmpty ? "" : " ")\(whose): \(reason)")
        drop(ids, because: reason)
    }

    /// Drops versions without a report. A version stays if several steps rely on it, or if a step has relied on it since
    /// `moment`.
    func dropVersions(ofKnown ids: [VersionID], because reason: String, unlessNeededSince moment: Int64?) {
        let known: [VersionID] = withState { state in
            let known = ids.filter { id in
                guard let version = state.ledger[id], version.reliance != .several else { return false }
                return moment.map { version.since < $0 } ?? true
            }
            for id in known { state.ledger.remove(id) }
            return known
        }
        forget(known)
        drop(known, because: reason)
    }

    /// Removes versions for a user, also those on which steps rely. Returns how many were removed.
    func remove(_ ids: [VersionID], because reason: String) throws(StoreError) -> Int {
        guard !isReadOnly else { throw .readOnly }
        let known = withIndex { index in ids.filter { index[$0] != nil } }
        guard !known.isEmpty else { return 0 }
        try dropAll(known, because: reason)
        forget(known)
        compactLogIfLong()
        return known.count
    }

    private func drop(_ ids: [VersionID], because reason: String) {
        guard let first = ids.first else { return }
        do throws(StoreError) {
            try dropAll(ids, because: reason)
        } catch {
            report("kept/\(first) could not be removed in order (\(error))")
        }
        compactLogIfLong()
    }

    /// Writes the `dropped` lines of all versions, and then removes all their files. With this order, the caller waits for the
    /// disk only twice, even for many versions.
    private func dropAll(_ ids: [VersionID], because reason: String) throws(StoreError) {
        let pendingLines = withState { state in Set(state.pendingLines.map(\.id)) }
        let lines = ids.filter { !pendingLines.contains($0.description) }
            .map { LogLine(dropping: $0, reason: reason, at: clock()) }
        var isWritten = true
        do throws(StoreError) {
            try append(lines)
        } catch .noSpace {
            // The disk has no room for the lines. The files are removed to make room, and the lines are written after that. If
            // the daemon is killed in between, the log has lines of versions without files.
            isWritten = false
        }
        for id in ids { takeAway(id) }
        try withStoreErrors { () throws(Errno) in try directory.synchronize(by: synchronize) }
        if !isWritten { try append(lines) }
        for id in ids where pendingLines.contains(id.description) { forgetPendingLine(id) }
    }

    private func takeAway(_ id: VersionID) {
        do throws(Errno) {
            try directory.remove(id.description)
        } catch {
            if error != .noEntry { report("kept/\(id) could not be removed (\(error))") }
        }
    }
}

/// Functions that enter versions into the ledger.
extension VersionFiles {
    /// Enters a version into the ledger. If the document then has more versions than the limit allows, removes its oldest
    /// versions.
    func enter(_ entry: VersionRecord, as status: FileStatus, for reliance: QuotaLedger.Reliance = .one) {
        let entry = withIndex { $0.insert(entry) }
        var version = version(entry, status, bornAt: steadyClock())
        version.reliance = reliance
        withState { $0.ledger.insert(entry.id, version) }
        if entry.standing != .suspected { changes.report(.gained, entry) }
        let isHistory = entry.cause.isHistory
        if isHistory || withState({ $0.ledger.count(of: entry.path) }) > limits.versions { prune(entry.path) }
    }

    /// Removes versions from the index and the ledger.
    func forget(_ ids: [VersionID]) {
        guard !ids.isEmpty else { return }
        let lost = withIndex { index in
            let lost = ids.compactMap { index[$0] }
            for id in ids { index.remove(id) }
            return lost
        }
        withState { state in for id in ids { state.ledger.remove(id) } }
        for version in lost where version.standing != .suspected { changes.report(.lost, version) }
    }

    func version(_ entry: VersionRecord, _ status: FileStatus, bornAt moment: Int64)
        -> QuotaLedger.ChargedVersion
    {
        let owner = owner(of: entry.rights)
        return QuotaLedger.ChargedVersion(
            owner: owner, initiator: initiator(entry.user, owner), path: entry.path,
            isConflict: entry.standing.isConflict, isHistory: entry.cause.isHistory, method: entry.method,
            line: Self.line(of: PreservationRequest(entry), entry.rights), born: moment,
            isDated: entry.time >= Self.leastTime, since: moment,
            body: QuotaLedger.StoredFile(device: status.device, inode: status.inode),
            room: Self.room(taken: status),
            size: Int(clamping: status.size))
    }

    /// The beginning of the year 2020, in nanoseconds since 1970. A version with an earlier time was preserved while the clock
    /// was not set, so its age is unknown.
    static let leastTime: Int64 = 1_577_836_800_000_000_000

    /// Examines the file of a linked version, and updates the version's room in the ledger. The file can have been written or
    /// replaced since the version was entered.
    func measure(_ id: VersionID) {
        do throws(Errno) {
            let status = try directory.path(of: id.description).status()
            withState { state in
                state.ledger.change(
                    id, to: QuotaLedger.StoredFile(device: status.device, inode: status.inode),
                    room: Self.room(taken: status), size: Int(clamping: status.size))
            }
        } catch {
            // The version was removed before this call, so the ledger needs no update.
            return
        }
    }
}

/// The programs that have a linked file of the store open for writing.
final class LinkWriters: Sendable {
    private let writers = Mutex<[VersionID: [UInt64: String]]>([:])

    /// The versions with a file that some program has open for writing. They are not evicted, because the removal of an open
    /// file frees no room.
    var all: Set<VersionID> { writers.withLock { Set($0.keys) } }

    func insert(_ name: String, of id: VersionID, by number: UInt64) {
        writers.withLock { $0[id, default: [:]][number] = name }
    }

    /// Removes one writer of a version. Returns whether the version has no writer any more.
    func remove(_ id: VersionID, by number: UInt64) -> Bool {
        writers.withLock { writers in
            guard writers[id]?.removeValue(forKey: number) != nil else { return false }
            guard writers[id]?.isEmpty ?? false else { return false }
            writers[id] = nil
            return true
        }
    }

    func names(of id: VersionID) -> [String] {
        writers.withLock { Set(($0[id] ?? [:]).values) }.sorted()
    }
}
