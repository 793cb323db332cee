// SPDX-License-Identifier: Apache-2.0
import Coordination
import LinuxSystem
import Synchronization

/// Whose room a version takes, and what may go for it.
struct Tenant: Sendable {
    enum LettingGo: Sendable {
        /// The version may never be needed.
        case nothing
        case oldVersions
    }

    let owner: UInt32
    let causer: Ledger.Causer
    /// In whose name the disk is written. What others do to root's files takes none of the room that a file system keeps for root.
    let writer: RoomOwner
    let path: [UInt8]
    let lettingGo: LettingGo
    /// What the line takes in the log beyond an ordinary one.
    let line: Int
}

/// The limits of what is kept (D193, D210 to D212).
extension KeptFiles {
    private static let blockSize = 512
    /// A file system below may say anything: sums of this many do not overflow.
    private static let mostBlocks: UInt64 = 1 << 40
    /// For how long a step may count on a version that was kept before; also a full disk does not take it away by then.
    private static let youth = Int64(60_000_000_000)
    /// Of an ordinary line.
    private static let ordinaryLine = 1024

    /// What a file takes on the disk.
    static func room(taken status: FileStatus) -> Int {
        max(Int(clamping: min(status.blocks, mostBlocks)) * blockSize, Ledger.leastRoom)
    }

    /// What a copy of a file may take.
    static func room(neededFor status: FileStatus) -> Int {
        let unit = Ledger.leastRoom
        // The size of what is copied has a limit.
        return max((min(Int(clamping: status.size), .max - unit) + unit - 1) / unit * unit, unit)
    }

    /// What a line takes beyond an ordinary one: the path twice, and the rights of directories above.
    static func line(of occasion: Occasion, _ rights: FileRights) -> Int {
        let path = occasion.path.reduce(0) { $0 + ($1 < 0x20 ? 6 : $1 == 0x22 || $1 == 0x5C ? 2 : 1) }
        let lists = ([rights] + occasion.closed).reduce(0) {
            $0 + 96 + ($1.accessControlList?.count ?? 0) / 3 * 4
        }
        return max(path + occasion.path.count / 3 * 4 + lists - ordinaryLine, 0)
    }

    /// The user that versions of a file are charged to. All that a user's daemon keeps is that user's.
    func owner(of rights: FileRights) -> UInt32 { OwnProcess.user == 0 ? rights.user : OwnProcess.user }

    func tenant(_ rights: FileRights, _ occasion: Occasion, _ lettingGo: Tenant.LettingGo = .oldVersions)
        -> Tenant
    {
        let owner = owner(of: rights)
        let causer = causer(occasion.user, owner)
        return Tenant(
            owner: owner, causer: causer, writer: writer(rights, occasion.user), path: occasion.path,
            lettingGo: lettingGo, line: Self.line(of: occasion, rights))
    }

    /// In whose name a version and its line are written.
    func writer(_ rights: FileRights, _ user: UInt32?) -> RoomOwner {
        let isRoots = rights.user == 0 && causer(user, owner(of: rights)) == .stranger
        return RoomOwner(user: isRoots ? user ?? 0 : rights.user, group: rights.group)
    }

    /// Root may do what it wants with what users have.
    func causer(_ user: UInt32?, _ owner: UInt32) -> Ledger.Causer {
        guard let user, user != owner, user != 0 else { return .owner }
        return .stranger
    }

    /// How many bytes the versions of one owner may take.
    private func limit() throws(StoreError) -> Int {
        let status = try storing { () throws(Errno) in try directory.filesystemStatus() }
        let size = Int(clamping: status.blocks).multipliedReportingOverflow(
            by: Int(clamping: status.fragmentSize))
        return limits.room(ofFilesystem: size.overflow ? .max : size.partialValue)
    }

    /// Holds room free for a version, for which the owner's oldest ones go if need be.
    ///
    /// What strangers cause takes half of the room at most, and pushes out versions of the same document only.
    /// `body` is a file that the version is to share. If another version has it, the new one takes no more than a name.
    func reserve(_ room: Int, for tenant: Tenant, sharing body: Ledger.Body? = nil) throws(StoreError)
        -> Reservation
    {
        let limit = try limit()
        var reservation = Reservation(owner: tenant.owner, causer: tenant.causer, bytes: room + tenant.line)
        var bound = limit
        let isFree = try free(because: "the limit of \(limit) bytes is reached") { ledger in
            if let body, ledger.has(body) { reservation.bytes = Ledger.leastRoom + tenant.line }
            var excess = ledger.room(of: tenant.owner) + reservation.bytes - limit
            var isStrangers = false
            if tenant.causer == .stranger {
                let beyond = ledger.strangersRoom(of: tenant.owner) + reservation.bytes - limit / 2
                isStrangers = beyond > 0
                excess = max(excess, beyond)
                if isStrangers { bound = limit / 2 }
            }
            guard excess <= 0 || tenant.lettingGo == .oldVersions && reservation.bytes <= bound else {
                return nil
            }
            var wish = wish(tenant, excess, .charges, before: uncertain)
            (wish.onlyStrangers, wish.spared) = (isStrangers, body)
            return wish
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
    func freeingIfFull(
        _ room: Int, for tenant: Tenant, _ step: () throws(StoreError) -> OwnedDescriptor
    ) throws(StoreError) -> OwnedDescriptor {
        do throws(StoreError) {
            return try step()
        } catch .noSpace {
            guard tenant.lettingGo == .oldVersions else { throw .noSpace }
            let wish = wish(tenant, room, .blocks, before: steadyClock() &- Self.youth)
            let names = lookAtNames(wish)
            let isFree = try free(because: "the disk or the quota is full", names: names) { _ in wish }
            guard isFree else { throw .noSpace }
            return try step()
        }
    }

    private func wish(
        _ tenant: Tenant, _ room: Int, _ measure: Ledger.Wish.Measure, before moment: Int64
    ) -> Ledger.Wish {
        Ledger.Wish(
            owner: tenant.owner, room: room, measure: measure, before: moment,
            conflictsBefore: min(moment, uncertain), path: tenant.causer == .stranger ? tenant.path : nil)
    }

    /// Versions on which no step has counted since this moment may go. A step may not be taken yet whatever the option says.
    private var uncertain: Int64 {
        steadyClock() &- max(Int64(clamping: limits.certain.nanoseconds), Self.youth)
    }

    /// Whether a version may stand for one that was to be kept now. If so, it stays as long as that.
    func spare(_ id: KeptID, for use: Ledger.Use) -> Bool {
        let now = steadyClock()
        return state.withLock { $0.ledger.spare(id, keptAfter: now &- Self.youth, for: use, at: now) }
    }

    /// Lets the oldest of an owner's versions go, those in conflict last. Nil for a wish: it is in vain.
    /// Nothing goes if all that may go is not enough.
    private func free(
        because reason: String, names: [Ledger.Body: Int] = [:], _ wish: (Ledger) -> Ledger.Wish?,
        then step: (inout Ledger) -> Void = { _ in }
    ) throws(StoreError) -> Bool {
        let (written, now) = (writers.all, steadyClock())
        let gone: Gone? = state.withLock { state in
            guard let wish = wish(state.ledger), !state.vain.contains(wish, at: now) else { return nil }
            let chosen: [KeptID]
            switch state.ledger.oldest(wish, sparing: written.contains, names: names) {
            case .enough(let ids): chosen = ids
            case .tooLittle(let most):
                state.vain.insert(wish, most: most, at: now)
                return nil
            }
            var conflicts = 0
            for id in chosen where state.ledger[id]?.isConflict ?? false { conflicts += 1 }
            for id in chosen { state.ledger.remove(id) }
            step(&state.ledger)
            return Gone(ids: chosen, conflicts: conflicts, owner: wish.owner)
        }
        guard let gone else { return false }
        letGo(of: gone.ids, because: reason, gone.whose)
        return true
    }

    private struct Gone {
        let ids: [KeptID]
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
    private func lookAtNames(_ wish: Ledger.Wish) -> [Ledger.Body: Int] {
        let (written, now) = (writers.all, steadyClock())
        let files = state.withLock { state -> [Ledger.Body: KeptID] in
            if state.vain.contains(wish, at: now) { return [:] }
            return state.ledger.unseen(
                wish, sparing: written.contains, since: now &- Self.lookAgain, most: Self.mostLooks)
        }
        var names: [Ledger.Body: Int] = [:]
        for (body, id) in files {
            do throws(Errno) {
                let status = try directory.path(of: id.description).status()
                if Ledger.Body(status) == body { names[body] = Int(clamping: status.linkCount) }
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
        let old: [KeptID] = state.withLock { state in
            let old = state.ledger.all(before: moment, sparing: written.contains)
            for id in old { state.ledger.remove(id) }
            return old
        }
        letGo(of: old, because: "it is older than \(limits.age.milliseconds / 1000) s")
        for path in state.withLock({ $0.ledger.documents(beyond: limits.versions) }) { prune(path) }
        do throws(StoreError) {
            let limit = try limit()
            for owner in state.withLock({ $0.ledger.owners(beyond: limit) }) {
                let tenant = Tenant(
                    owner: owner, causer: .owner, writer: .root, path: [], lettingGo: .oldVersions, line: 0)
                _ = try free(because: "the limit of \(limit) bytes is exceeded") {
                    wish(tenant, $0.room(of: owner) - limit, .charges, before: uncertain)
                }
            }
        } catch {
            report("what is kept was not held to its limit (\(error))")
        }
        renewLogIfLong()
    }

    /// Lets the versions of a document go that are too many.
    private func prune(_ path: [UInt8]) {
        let written = writers.all
        let gone: [KeptID] = state.withLock { state in
            let gone = state.ledger.oldest(
                of: path, beyond: limits.versions, before: uncertain, sparing: written.contains)
            for id in gone { state.ledger.remove(id) }
            return gone
        }
        letGo(of: gone, because: "more than \(limits.versions) versions of the document are kept")
    }

    /// The ledger has forgotten them by now. A version that cannot be taken away is found by the next opening.
    private func letGo(of ids: [KeptID], because reason: String, _ whose: String = "") {
        guard let first = ids.first else { return }
        let others = ids.count > 1 ? " and \(ids.count - 1) more" : ""
        report("let go of kept/\(first)\(others)\(whose.isEmpty ? "" : " ")\(whose): \(reason)")
        drop(ids, because: reason)
    }

    /// Drops versions without a line of the log for people. A version stays if another step counts on it as well, or if a step has
    /// counted on it since a moment.
    func letGo(ofKnown ids: [KeptID], because reason: String, unlessNeededSince moment: Int64?) {
        let known: [KeptID] = state.withLock { state in
            let known = ids.filter { id in
                guard let item = state.ledger[id], item.use != .several else { return false }
                return moment.map { item.since < $0 } ?? true
            }
            for id in known { state.ledger.remove(id) }
            return known
        }
        drop(known, because: reason)
    }

    private func drop(_ ids: [KeptID], because reason: String) {
        guard let first = ids.first else { return }
        do throws(StoreError) {
            try dropAll(ids, because: reason)
        } catch {
            report("kept/\(first) could not be let go of in order (\(error))")
        }
        renewLogIfLong()
    }

    /// All lines first, then all files, as of one. The writer that waits for room waits for the disk twice, however many they are.
    private func dropAll(_ ids: [KeptID], because reason: String) throws(StoreError) {
        let owed = state.withLock { state in Set(state.owed.map(\.id)) }
        let lines = ids.filter { !owed.contains($0.description) }
            .map { LogLine(dropping: $0, reason: reason, at: clock()) }
        var isWritten = true
        do throws(StoreError) {
            try append(lines)
        } catch .noSpace {
            // There is room when the files are gone. A kill in between leaves lines without files.
            isWritten = false
        }
        for id in ids { takeAway(id) }
        try storing { () throws(Errno) in try directory.synchronise(by: synchronise) }
        if !isWritten { try append(lines) }
        for id in ids where owed.contains(id.description) { forgetOwed(id) }
    }

    private func takeAway(_ id: KeptID) {
        do throws(Errno) {
            try directory.remove(id.description)
        } catch {
            if error != .noEntry { report("kept/\(id) could not be removed (\(error))") }
        }
    }
}

/// What the ledger knows.
extension KeptFiles {
    /// Enters a version that is there. What is too much of its document goes.
    func enter(_ entry: KeptEntry, as status: FileStatus, for use: Ledger.Use = .one) {
        var item = item(entry, status, bornAt: steadyClock())
        item.use = use
        state.withLock { $0.ledger.insert(entry.id, item) }
        if state.withLock({ $0.ledger.count(of: entry.path) }) > limits.versions { prune(entry.path) }
    }

    func item(_ entry: KeptEntry, _ status: FileStatus, bornAt moment: Int64) -> Ledger.Item {
        let owner = owner(of: entry.rights)
        return Ledger.Item(
            owner: owner, causer: causer(entry.user, owner), path: entry.path,
            isConflict: entry.cause.isConflict, method: entry.method,
            line: Self.line(of: Occasion(entry), entry.rights), born: moment,
            isDated: entry.time >= Self.leastTime, since: moment,
            body: Ledger.Body(device: status.device, inode: status.inode), room: Self.room(taken: status),
            size: Int(clamping: status.size))
    }

    /// The year 2020. An earlier time is that of a clock that was not set, and tells no age.
    static let leastTime: Int64 = 1_577_836_800_000_000_000

    /// A link's file may have been written to, or replaced, since it was entered.
    func measure(_ id: KeptID) {
        do throws(Errno) {
            let status = try directory.path(of: id.description).status()
            state.withLock { state in
                state.ledger.change(
                    id, to: Ledger.Body(device: status.device, inode: status.inode),
                    room: Self.room(taken: status), size: Int(clamping: status.size))
            }
        } catch {
            // It was let go of.
            return
        }
    }
}

/// The programs that have the files of links open to write.
final class OpenWriters: Sendable {
    private let writers = Mutex<[KeptID: [UInt64: String]]>([:])

    /// What they write to. To let go of that would free nothing.
    var all: Set<KeptID> { writers.withLock { Set($0.keys) } }

    func insert(_ name: String, of id: KeptID, by number: UInt64) {
        writers.withLock { $0[id, default: [:]][number] = name }
    }

    /// Returns whether it was the last one.
    func remove(_ id: KeptID, by number: UInt64) -> Bool {
        writers.withLock { writers in
            guard writers[id]?.removeValue(forKey: number) != nil else { return false }
            guard writers[id]?.isEmpty ?? false else { return false }
            writers[id] = nil
            return true
        }
    }

    func names(of id: KeptID) -> [String] {
        writers.withLock { Set(($0[id] ?? [:]).values) }.sorted()
    }
}
