// SPDX-License-Identifier: Apache-2.0
import Coordination
import LinuxSystem
import Synchronization

/// Whose room a version takes, and what may go for it.
struct QuotaCharge: Sendable {
    enum EvictionRule: Sendable {
        /// The version may never be needed.
        case nothing
        case oldVersions
    }

    let owner: UInt32
    let initiator: QuotaLedger.Initiator
    /// In whose name the disk is written. What others do to root's files takes none of the room that a file system keeps for root.
    let writer: QuotaOwner
    let path: [UInt8]
    let evictionRule: EvictionRule
    /// What the line takes in the log beyond an ordinary one.
    let line: Int
}

/// The limits of what is kept (D193, D210 to D212).
extension VersionFiles {
    private static let blockSize = 512
    /// A file system below may say anything: sums of this many do not overflow.
    private static let mostBlocks: UInt64 = 1 << 40
    /// For how long a step may count on a version that was kept before; also a full disk does not take it away by then.
    private static let youth = Int64(60_000_000_000)
    /// Of an ordinary line.
    private static let ordinaryLine = 1024

    /// What a file takes on the disk.
    static func room(taken status: FileStatus) -> Int {
        max(Int(clamping: min(status.blocks, mostBlocks)) * blockSize, QuotaLedger.leastRoom)
    }

    /// What a copy of a file may take.
    static func room(neededFor status: FileStatus) -> Int {
        let unit = QuotaLedger.leastRoom
        // The size of what is copied has a limit.
        return max((min(Int(clamping: status.size), .max - unit) + unit - 1) / unit * unit, unit)
    }

    /// What a line takes beyond an ordinary one: the path twice, and the rights of directories above.
    static func line(of request: PreservationRequest, _ rights: FileRights) -> Int {
        let path = request.path.reduce(0) { $0 + ($1 < 0x20 ? 6 : $1 == 0x22 || $1 == 0x5C ? 2 : 1) }
        let lists = ([rights] + request.closed).reduce(0) {
            $0 + 96 + ($1.accessControlList?.count ?? 0) / 3 * 4
        }
        return max(path + request.path.count / 3 * 4 + lists - ordinaryLine, 0)
    }

    /// The user that versions of a file are charged to. All that a user's daemon keeps is that user's.
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
            evictionRule: evictionRule, line: Self.line(of: request, rights))
    }

    /// In whose name a version and its line are written.
    func writer(_ rights: FileRights, _ user: UInt32?) -> QuotaOwner {
        let isRoots = rights.user == 0 && initiator(user, owner(of: rights)) == .stranger
        return QuotaOwner(user: isRoots ? user ?? 0 : rights.user, group: rights.group)
    }

    /// Root may do what it wants with what users have.
    func initiator(_ user: UInt32?, _ owner: UInt32) -> QuotaLedger.Initiator {
        guard let user, user != owner, user != 0 else { return .owner }
        return .stranger
    }

    /// How many bytes the versions of one owner may take.
    private func limit() throws(StoreError) -> Int {
        let status = try withStoreErrors { () throws(Errno) in try directory.filesystemStatus() }
        let size = Int(clamping: status.blocks).multipliedReportingOverflow(
            by: Int(clamping: status.fragmentSize))
        return limits.room(ofFilesystem: size.overflow ? .max : size.partialValue)
    }

    /// Holds room free for a version, for which the owner's oldest ones go if need be.
    ///
    /// What strangers cause takes half of the room at most, and pushes out versions of the same document only.
    /// `body` is a file that the version is to share. If another version has it, the new one takes no more than a name.
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
            guard excess <= 0 || charge.evictionRule == .oldVersions && reservation.bytes <= bound else {
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
        state.withLock { $0.ledger.release(reservation) }
    }

    /// Runs a step that writes to the disk. If there is no room, or the owner's quota is used up, the owner's oldest versions go, but
    /// for the newest, for which other steps are not taken yet; and the step is tried once more.
    func evictingIfFull(
        _ room: Int, for charge: QuotaCharge, _ step: () throws(StoreError) -> OwnedDescriptor
    ) throws(StoreError) -> OwnedDescriptor {
        do throws(StoreError) {
            return try step()
        } catch .noSpace {
            guard charge.evictionRule == .oldVersions else { throw .noSpace }
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
            conflictsBefore: min(moment, uncertain), path: charge.initiator == .stranger ? charge.path : nil)
    }

    /// Versions on which no step has counted since this moment may go. A step may not be taken yet whatever the option says.
    private var uncertain: Int64 {
        steadyClock() &- max(Int64(clamping: limits.certain.nanoseconds), Self.youth)
    }

    /// Whether a version may stand for one that was to be kept now. If so, it stays as long as that.
    func renewIfRecent(_ id: VersionID, for reliance: QuotaLedger.Reliance) -> Bool {
        let now = steadyClock()
        return state.withLock {
            $0.ledger.renewIfRecent(id, preservedAfter: now &- Self.youth, for: reliance, at: now)
        }
    }

    /// Lets the oldest of an owner's versions go, those in conflict last. Nil for a wish: it is in vain.
    /// Nothing goes if all that may go is not enough.
    private func evict(
        because reason: String, names: [QuotaLedger.StoredFile: Int] = [:],
        _ eviction: (QuotaLedger) -> QuotaLedger.EvictionRequest?,
        then step: (inout QuotaLedger) -> Void = { _ in }
    ) throws(StoreError) -> Bool {
        let (written, now) = (writers.all, steadyClock())
        let gone: EvictedVersions? = state.withLock { state in
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

    /// At how many files is looked for one step.
    private static let mostLooks = 1024
    /// A file that had names elsewhere is looked at again after that.
    private static let lookAgain = Int64(10_000_000_000)

    /// How many names those files have, anywhere, that are not the store's alone and may go. Not under the lock: each look is a call
    /// of the file system.
    private func lookAtNames(_ eviction: QuotaLedger.EvictionRequest) -> [QuotaLedger.StoredFile: Int] {
        let (written, now) = (writers.all, steadyClock())
        let files = state.withLock { state -> [QuotaLedger.StoredFile: VersionID] in
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
                // It was let go of, or cannot be seen. It does not go for this step.
                continue
            }
        }
        state.withLock { [names] in $0.ledger.note(names, at: now) }
        return names
    }

    /// Lets versions go that are too old, or too many; then those that exceed the room. Call it now and then.
    func prune() {
        guard !isReadOnly else { return }
        let written = writers.all
        // The time for which they are certain to stay counts first.
        let moment = min(steadyClock() &- Int64(clamping: limits.age.nanoseconds), uncertain)
        let old: [VersionID] = state.withLock { state in
            let old = state.ledger.all(before: moment, excluding: written.contains)
            for id in old { state.ledger.remove(id) }
            return old
        }
        reportAndDrop(of: old, because: "it is older than \(limits.age.milliseconds / 1000) s")
        for path in state.withLock({ $0.ledger.documents(beyond: limits.versions) }) { prune(path) }
        do throws(StoreError) {
            let limit = try limit()
            for owner in state.withLock({ $0.ledger.owners(beyond: limit) }) {
                let charge = QuotaCharge(
                    owner: owner, initiator: .owner, writer: .root, path: [], evictionRule: .oldVersions,
                    line: 0)
                _ = try evict(because: "the limit of \(limit) bytes is exceeded") {
                    eviction(charge, $0.room(of: owner) - limit, .charges, before: uncertain)
                }
            }
        } catch {
            report("what is kept was not held to its limit (\(error))")
        }
        compactLogIfLong()
    }

    /// Lets the versions of a document go that are too many.
    private func prune(_ path: [UInt8]) {
        let written = writers.all
        let gone: [VersionID] = state.withLock { state in
            let gone = state.ledger.oldest(
                of: path, beyond: limits.versions, before: uncertain, excluding: written.contains)
            for id in gone { state.ledger.remove(id) }
            return gone
        }
        reportAndDrop(of: gone, because: "more than \(limits.versions) versions of the document are kept")
    }

    /// The ledger has forgotten them by now. A version that cannot be taken away is found by the next opening.
    private func reportAndDrop(of ids: [VersionID], because reason: String, _ whose: String = "") {
        guard let first = ids.first else { return }
        let others = ids.count > 1 ? " and \(ids.count - 1) more" : ""
        report("let go of kept/\(first)\(others)\(whose.isEmpty ? "" : " ")\(whose): \(reason)")
        drop(ids, because: reason)
    }

    /// Drops versions without a line of the log for people. A version stays if another step counts on it as well, or if a step has
    /// counted on it since a moment.
    func dropVersions(ofKnown ids: [VersionID], because reason: String, unlessNeededSince moment: Int64?) {
        let known: [VersionID] = state.withLock { state in
            let known = ids.filter { id in
                guard let version = state.ledger[id], version.reliance != .several else { return false }
                return moment.map { version.since < $0 } ?? true
            }
            for id in known { state.ledger.remove(id) }
            return known
        }
        drop(known, because: reason)
    }

    private func drop(_ ids: [VersionID], because reason: String) {
        guard let first = ids.first else { return }
        do throws(StoreError) {
            try dropAll(ids, because: reason)
        } catch {
            report("kept/\(first) could not be let go of in order (\(error))")
        }
        compactLogIfLong()
    }

    /// All lines first, then all files, as of one. The writer that waits for room waits for the disk twice, however many they are.
    private func dropAll(_ ids: [VersionID], because reason: String) throws(StoreError) {
        let pendingLines = state.withLock { state in Set(state.pendingLines.map(\.id)) }
        let lines = ids.filter { !pendingLines.contains($0.description) }
            .map { LogLine(dropping: $0, reason: reason, at: clock()) }
        var isWritten = true
        do throws(StoreError) {
            try append(lines)
        } catch .noSpace {
            // There is room when the files are gone. A kill in between leaves lines without files.
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

/// What the ledger knows.
extension VersionFiles {
    /// Enters a version that is there. What is too much of its document goes.
    func enter(_ entry: VersionRecord, as status: FileStatus, for reliance: QuotaLedger.Reliance = .one) {
        var version = version(entry, status, bornAt: steadyClock())
        version.reliance = reliance
        state.withLock { $0.ledger.insert(entry.id, version) }
        if state.withLock({ $0.ledger.count(of: entry.path) }) > limits.versions { prune(entry.path) }
    }

    func version(_ entry: VersionRecord, _ status: FileStatus, bornAt moment: Int64)
        -> QuotaLedger.ChargedVersion
    {
        let owner = owner(of: entry.rights)
        return QuotaLedger.ChargedVersion(
            owner: owner, initiator: initiator(entry.user, owner), path: entry.path,
            isConflict: entry.cause.isConflict, method: entry.method,
            line: Self.line(of: PreservationRequest(entry), entry.rights), born: moment,
            isDated: entry.time >= Self.leastTime, since: moment,
            body: QuotaLedger.StoredFile(device: status.device, inode: status.inode),
            room: Self.room(taken: status),
            size: Int(clamping: status.size))
    }

    /// The year 2020. An earlier time is that of a clock that was not set, and tells no age.
    static let leastTime: Int64 = 1_577_836_800_000_000_000

    /// A link's file may have been written to, or replaced, since it was entered.
    func measure(_ id: VersionID) {
        do throws(Errno) {
            let status = try directory.path(of: id.description).status()
            state.withLock { state in
                state.ledger.change(
                    id, to: QuotaLedger.StoredFile(device: status.device, inode: status.inode),
                    room: Self.room(taken: status), size: Int(clamping: status.size))
            }
        } catch {
            // It was let go of.
            return
        }
    }
}

/// The programs that have the files of links open to write.
final class LinkWriters: Sendable {
    private let writers = Mutex<[VersionID: [UInt64: String]]>([:])

    /// What they write to. To let go of that would free nothing.
    var all: Set<VersionID> { writers.withLock { Set($0.keys) } }

    func insert(_ name: String, of id: VersionID, by number: UInt64) {
        writers.withLock { $0[id, default: [:]][number] = name }
    }

    /// Returns whether it was the last one.
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
