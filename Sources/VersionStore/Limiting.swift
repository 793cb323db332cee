// SPDX-License-Identifier: Apache-2.0
import Coordination
import LinuxSystem
import Synchronization

/// The limits of what is kept (D193).
extension KeptFiles {
    /// What even an empty file takes: its inode and its name, and its line in the log.
    private static let leastRoom = 4096
    private static let blockSize = 512
    /// A file system below may say anything: sums of this many do not overflow.
    private static let mostBlocks: UInt64 = 1 << 40

    /// What a file takes on the disk.
    static func room(taken status: FileStatus) -> Int {
        max(Int(clamping: min(status.blocks, mostBlocks)) * blockSize, leastRoom)
    }

    /// What a copy of a file may take. What is too long to be copied can only share the blocks that there are.
    static func room(neededFor status: FileStatus, limit: Int) -> Int {
        let size = Int(clamping: status.size)
        guard size <= limit else { return room(taken: status) }
        return max((size + leastRoom - 1) / leastRoom * leastRoom, leastRoom)
    }

    /// The user that versions of a file are charged to. All that a user's daemon keeps is that user's.
    func owner(of rights: FileRights) -> UInt32 { OwnProcess.user == 0 ? rights.user : OwnProcess.user }

    /// How many bytes the versions of one owner may take.
    private func limit() throws(StoreError) -> Int {
        let status = try storing { () throws(Errno) in try directory.filesystemStatus() }
        let size = Int(clamping: status.blocks).multipliedReportingOverflow(
            by: Int(clamping: status.fragmentSize))
        return limits.room(ofFilesystem: size.overflow ? .max : size.partialValue)
    }

    /// Holds room free for a version, for which the owner's oldest ones go if need be.
    func reserve(_ room: Int, for owner: UInt32) throws(StoreError) {
        let limit = try limit()
        let isFree = try free(of: owner, before: uncertain, because: "the limit of \(limit) bytes is reached")
        {
            ledger in
            let excess = ledger.room(of: owner) + room - limit
            return excess <= 0 ? 0 : room > limit ? nil : excess
        } then: {
            $0.reserve(room, for: owner)
        }
        guard isFree else { throw .overLimit(limit) }
    }

    func release(_ room: Int, of owner: UInt32) {
        guard room > 0 else { return }
        state.withLock { $0.ledger.release(room, of: owner) }
    }

    /// Runs a step that writes to the disk. If there is no room, or the owner's quota is used up, the owner's oldest versions go, however
    /// new they are, and the step is tried once more.
    func freeingIfFull(
        _ room: Int, of owner: UInt32, _ step: () throws(StoreError) -> OwnedDescriptor
    ) throws(StoreError) -> OwnedDescriptor {
        do throws(StoreError) {
            return try step()
        } catch .noSpace {
            let isFree = try free(of: owner, before: .max, because: "the disk or the quota is full") { _ in
                room
            }
            guard isFree else { throw .noSpace }
            return try step()
        }
    }

    /// Versions from before this moment may go.
    private var uncertain: Int64 { clock() &- Int64(clamping: limits.certain.nanoseconds) }

    /// Lets the oldest of an owner's versions go that are in no conflict. `need` says how many bytes are wanted, or nil if that is in vain.
    /// Nothing goes if all that may go is not enough.
    private func free(
        of owner: UInt32, before time: Int64, because reason: String, _ need: (Ledger) -> Int?,
        then step: (inout Ledger) -> Void = { _ in }
    ) throws(StoreError) -> Bool {
        let written = writers.all
        let gone: [KeptID]? = state.withLock { state in
            guard let room = need(state.ledger),
                let chosen = state.ledger.oldest(
                    of: owner, freeing: room, before: time, sparing: written.contains)
            else { return nil }
            for id in chosen { state.ledger.remove(id) }
            step(&state.ledger)
            return chosen
        }
        guard let gone else { return false }
        letGo(of: gone, because: reason, "of user \(owner)")
        return true
    }

    /// Lets versions go that are too old, or too many; then those that exceed the room. Call it now and then.
    func prune() {
        guard !isReadOnly else { return }
        let written = writers.all
        let now = clock()
        let old: [KeptID] = state.withLock { state in
            let time = now &- Int64(clamping: limits.age.nanoseconds)
            let old = state.ledger.all(before: time, sparing: written.contains)
            for id in old { state.ledger.remove(id) }
            return old
        }
        letGo(of: old, because: "it is older than \(limits.age.milliseconds / 1000) s")
        for path in state.withLock({ $0.ledger.documents(beyond: limits.versions) }) { prune(path) }
        do throws(StoreError) {
            let limit = try limit()
            for owner in state.withLock({ $0.ledger.owners(beyond: limit) }) {
                _ = try free(of: owner, before: uncertain, because: "the limit of \(limit) bytes is exceeded")
                {
                    $0.room(of: owner) - limit
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

    /// What nobody needs to hear of.
    func letGo(ofKnown ids: [KeptID], because reason: String) {
        let known: [KeptID] = state.withLock { state in
            let known = ids.filter { state.ledger[$0] != nil }
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
    func enter(_ entry: KeptEntry, as status: FileStatus) {
        state.withLock { state in state.ledger.insert(entry.id, item(entry, status)) }
        if state.withLock({ $0.ledger.count(of: entry.path) }) > limits.versions { prune(entry.path) }
    }

    func item(_ entry: KeptEntry, _ status: FileStatus) -> Ledger.Item {
        Ledger.Item(
            owner: owner(of: entry.rights), path: entry.path, isConflict: entry.cause.isConflict,
            isCopy: [.copy, .reflink, .shared].contains(entry.method),
            body: Ledger.Body(device: status.device, inode: status.inode), room: Self.room(taken: status),
            size: Int(clamping: status.size))
    }

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

/// Equal contents of one owner are stored once.
extension KeptFiles {
    /// Of how many copies of the same size the beginning, the middle and the end are looked at.
    private static let mostLooks = 32
    /// How many are compared byte by byte.
    private static let mostComparisons = 4
    private static let sample = 4096

    /// Gives a copy that holds what a file holds one more name, and opens it. It is compared, and not believed, that it does.
    func share(
        _ file: borrowing OwnedDescriptor, _ contents: Contents, as name: String
    ) -> OwnedDescriptor? {
        let owner = owner(of: contents.rights)
        let size = Int(clamping: contents.status.size)
        let candidates = state.withLock { $0.ledger.copies(of: owner, size: size).prefix(Self.mostLooks) }
        var comparisons = 0
        for id in candidates where comparisons < Self.mostComparisons {
            do throws(Errno) {
                let copy = try directory.open(id.description)
                let status = try copy.status()
                // What an earlier release has copied is root's, and not charged to the owner.
                guard status.user == owner, Int(status.size) == size, try isAlike(file, copy, size) else {
                    continue
                }
                comparisons += 1
                guard try file.hasSameContents(as: copy, count: size), try file.status().size == size
                else { continue }
                try directory.link(copy, as: name)
                return copy
            } catch {
                // It was let go of, or has as many names as it can have. The file is copied then, or another one found.
                continue
            }
        }
        return nil
    }

    /// Whether two files are equal where that is quickly seen.
    private func isAlike(
        _ one: borrowing OwnedDescriptor, _ other: borrowing OwnedDescriptor, _ size: Int
    ) throws(Errno) -> Bool {
        for offset in [size - Self.sample, 0, size / 2] {
            let start = max(0, offset)
            guard try one.hasSameContents(as: other, from: start, count: min(Self.sample, size - start))
            else { return false }
        }
        return true
    }

    /// Whether a file holds what is kept under an ID, byte by byte.
    func holds(_ id: KeptID, _ file: borrowing OwnedDescriptor) throws(StoreError) -> Bool {
        let copy = try open(id)
        return try storing { () throws(Errno) in
            let source = try file.reopenedForReading()
            let size = Int(clamping: try copy.status().size)
            guard try source.status().size == size, try source.hasSameContents(as: copy, count: size) else {
                return false
            }
            return try source.status().size == size
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
