// SPDX-License-Identifier: Apache-2.0
import LinuxSystem
import Synchronization

/// A store that exists: files in `kept/` and the lines in the log about them.
///
/// The order of steps survives a kill. Preserving: first the contents, under a name that marks them as incomplete; then the
/// line. Dropping: first the line, then the file. So a file without a line was being preserved, and a file with a `dropped`
/// line was being dropped. `recover` finishes both.
///
/// A link is preserved even if its line has no room. The line is pending: it counts as written, and is written after another
/// line.
final class VersionFiles: Sendable {
    struct State: ~Copyable, Sendable {
        var log: VersionLog
        /// The lines in the log, as far as known.
        var lines = 0
        /// The lines when the log was last rewritten.
        var linesCompacted = 0
        var lastID: VersionID?
        /// Unwritten lines of files that exist.
        var pendingLines: [LogLine] = []
        var grown = GrownFiles()
        var recent = RecentCopies()
        var ledger = QuotaLedger()
        var failedEvictions = FailedEvictions()
        /// The bytes of the log when it was last rewritten.
        var bytesCompacted = 0
        var logName = LogName.onDisk
    }

    /// Whether the name of the log is known to be on the disk.
    enum LogName {
        case onDisk
        /// The log was rewritten, and the directory could not be brought to the disk.
        case pending
    }

    /// The state and rights of a file that is to be preserved.
    struct Contents {
        let status: FileStatus
        let rights: FileRights
    }

    /// The suffix of a copy that is being made.
    static let incomplete = ".copying"
    /// The most pending lines: a disk that stays full must not fill the memory. A file without a line is adopted, but its path
    /// is lost.
    private static let mostOwed = 4096

    let home: StoreDirectory
    let directory: StoreDirectory
    private let state: Mutex<State>
    let isReadOnly: Bool
    /// Whether this opening made the store.
    let isNew: Bool
    let limits: StoreLimits
    let clock: @Sendable () -> Int64
    let steadyClock: @Sendable () -> Int64
    let report: @Sendable (String) -> Void
    let synchronize: Synchronisation
    let writers: LinkWriters
    /// A log with fewer lines and bytes is not rewritten.
    let leastCompactedLines: Int
    let leastCompactedBytes: Int

    init(
        _ layout: consuming StoreLayout, _ settings: StoreSettings, writers: LinkWriters
    ) throws(StoreError) {
        (isReadOnly, isNew) = (layout.isReadOnly, layout.isNew)
        home = layout.home
        directory = layout.kept
        let file = layout.log
        do throws(Errno) {
            state = Mutex(State(log: try VersionLog(file, synchronisingBy: settings.synchronize)))
        } catch {
            throw StoreError(error)
        }
        limits = settings.limits
        (clock, steadyClock) = (settings.clock, settings.steadyClock)
        report = settings.log
        synchronize = settings.synchronize
        (leastCompactedLines, leastCompactedBytes) = (
            settings.leastCompactedLines, settings.leastCompactedBytes
        )
        self.writers = writers
    }

    /// Runs a closure under the lock, for the store's other files.
    func withState<Result: ~Copyable, Failure: Error>(
        _ body: (inout State) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result {
        try state.withLock { (state) throws(Failure) in try body(&state) }
    }

    /// Preserves a file by giving it another name.
    ///
    /// Only a lack of room undoes the link; later failures are reported. The caller's step removes the former name in any case.
    func link(_ file: borrowing OwnedDescriptor, _ request: PreservationRequest) throws(StoreError)
        -> VersionID
    {
        let contents = try examine(file)
        let (id, time) = nextID()
        try withStoreErrors { () throws(Errno) in try directory.link(file, as: id.description) }
        let reservation: Reservation
        do throws(StoreError) {
            // A link takes no blocks, but existing blocks are not freed.
            reservation = try reserve(
                Self.room(taken: contents.status), for: charge(contents.rights, request),
                sharing: QuotaLedger.StoredFile(contents.status))
        } catch {
            undo(id.description)
            throw error
        }
        defer { release(reservation) }
        do throws(Errno) {
            try directory.synchronize(by: synchronize)
        } catch {
            report("kept/\(id) may not outlive a power cut (\(error))")
        }
        let entry = VersionRecord(id, contents, request, method: .link, at: time)
        appendOrQueue(LogLine(entry), owner: writer(entry.rights, entry.user))
        enter(entry, as: contents.status)
        return id
    }

    func copy(
        _ file: borrowing OwnedDescriptor, _ request: PreservationRequest, limit: Int
    ) throws(StoreError) -> VersionID {
        if let id = recentVersion(file, request) { return id }
        let entry = try copied(file, request, limit: limit)
        // Copies of files that only grow are not remembered here: they are dropped when a later copy holds them.
        state.withLock { $0.recent.insert(entry) }
        return entry.id
    }

    func copied(
        _ file: borrowing OwnedDescriptor, _ request: PreservationRequest, limit: Int
    ) throws(StoreError) -> VersionRecord {
        try finish(beginCopying(file, request, .oldVersions, limit: limit), request)
    }

    /// Copies under a name that says "incomplete" until every byte is on the disk. If the store has an equal copy of the same
    /// owner, that copy gets another name instead.
    private func beginCopying(
        _ file: borrowing OwnedDescriptor, _ request: PreservationRequest,
        _ evictionRule: QuotaCharge.EvictionRule, limit: Int
    ) throws(StoreError) -> UnfinishedCopy {
        let contents = try examine(file)
        let source = try withStoreErrors { () throws(Errno) in try file.reopenForReading() }
        let (id, time) = nextID()
        let name = id.description + Self.incomplete
        let charge = charge(contents.rights, request, evictionRule)
        if let same = share(source, contents, as: name) {
            do throws(StoreError) {
                let body = QuotaLedger.StoredFile(
                    try withStoreErrors { () throws(Errno) in try same.status() })
                let reservation = try reserve(QuotaLedger.leastRoom, for: charge, sharing: body)
                return UnfinishedCopy(
                    id: id, time: time, contents: contents, user: request.user, method: .shared,
                    reservation: reservation, file: same)
            } catch {
                undo(name)
                throw error
            }
        }
        var making = Making()
        let target = try fill(name, from: source, of: contents, for: charge, limit: limit, &making)
        return UnfinishedCopy(
            id: id, time: time, contents: contents, user: request.user, method: making.method,
            reservation: making.reservation, file: target)
    }

    func finish(
        _ copy: consuming UnfinishedCopy, _ request: PreservationRequest
    ) throws(StoreError) -> VersionRecord {
        let incomplete = copy.id.description + Self.incomplete
        defer { release(copy.reservation) }
        let status: FileStatus
        do throws(Errno) {
            try synchronize(copy.file)
            status = try copy.file.status()
            try directory.rename(incomplete, to: copy.id.description)
        } catch {
            undo(incomplete)
            throw StoreError(error)
        }
        let entry = VersionRecord(copy.id, copy.contents, request, method: copy.method, at: copy.time)
        try record(entry)
        enter(entry, as: status)
        return entry
    }

    /// Copies without waiting for the disk. After a kill the copy has no line, and the next opening adopts it.
    func copyWithoutSync(
        _ file: borrowing OwnedDescriptor, _ request: PreservationRequest, _ need: CopyNeed, limit: Int
    ) throws(StoreError) -> UnfinishedCopy {
        let copy = try beginCopying(
            file, request, need == .certain ? .oldVersions : .nothing, limit: limit)
        let incomplete = copy.id.description + Self.incomplete
        do throws(Errno) {
            try directory.rename(incomplete, to: copy.id.description)
        } catch {
            undo(incomplete)
            release(copy.reservation)
            throw StoreError(error)
        }
        return copy
    }

    /// Records a copy for a step that is taken. The copy stays even if its line fails, as a link does, but no other step may
    /// rely on it then. A copy with a stranger's reservation stays charged as a stranger's.
    func record(_ copy: consuming UnfinishedCopy, _ request: PreservationRequest) -> VersionID {
        var reliance = QuotaLedger.Reliance.one
        do throws(Errno) {
            try synchronize(copy.file)
            try directory.synchronize(by: synchronize)
        } catch {
            reliance = .none
            report("kept/\(copy.id) may not outlive a power cut (\(error))")
        }
        let user = copy.reservation?.initiator == .stranger ? copy.user : request.user
        let entry = VersionRecord(
            copy.id, copy.contents, request.by(user), method: copy.method, at: copy.time)
        if !appendOrQueue(LogLine(entry), owner: writer(entry.rights, user)) { reliance = .none }
        enter(entry, as: lookAt(copy.file) ?? copy.contents.status, for: reliance)
        if reliance != .none { state.withLock { $0.recent.insert(entry) } }
        release(copy.reservation)
        return copy.id
    }

    private func lookAt(_ file: borrowing OwnedDescriptor) -> FileStatus? {
        do throws(Errno) { return try file.status() } catch { return nil }
    }

    /// Replaces a link by a copy, with all that was written to the file so far.
    func detach(_ id: VersionID, limit: Int) throws(StoreError) {
        guard !isReadOnly else { throw .readOnly }
        let source = try open(id)
        let contents = try examine(source)
        let incomplete = id.description + Self.incomplete
        let charge = charge(contents.rights, PreservationRequest(path: [], cause: .recovered))
        var making = Making()
        let target = try fill(incomplete, from: source, of: contents, for: charge, limit: limit, &making)
        defer { release(making.reservation) }
        do throws(StoreError) {
            takeRights(target, contents, as: id)
            try withStoreErrors { () throws(Errno) in
                try synchronize(target)
                try directory.replace(id.description, by: incomplete)
            }
        } catch {
            undo(incomplete)
            throw error
        }
        measure(id)
        try withStoreErrors { () throws(Errno) in try directory.synchronize(by: synchronize) }
    }

    /// Gives a copy that replaces a link the file's rights.
    private func takeRights(_ copy: borrowing OwnedDescriptor, _ contents: Contents, as id: VersionID) {
        do throws(Errno) {
            // Where that is impossible, the copy belongs to the daemon, and only root or the daemon's user can open it.
            try copy.changeOwner(user: contents.status.user, group: contents.status.group)
            try copy.changeMode(to: contents.status.mode & 0o666)
            guard let list = contents.rights.accessControlList else { return }
            try copy.setAccessControlList(list)
        } catch {
            // Its mode is still 0600.
            report("kept/\(id) is open to its owner only (\(error))")
        }
    }

    func discard(_ copy: consuming UnfinishedCopy) {
        undo(copy.id.description)
        release(copy.reservation)
    }

    func drop(_ id: VersionID, reason: String) throws(StoreError) {
        try drop(id, LogLine(dropping: id, reason: reason, at: clock()))
    }

    func drop(_ id: VersionID, _ line: LogLine) throws(StoreError) {
        guard !isReadOnly else { throw .readOnly }
        // A pending line was never in the log, so the log needs no `dropped` line. It has no room for it either.
        let isOwed = state.withLock { state in state.pendingLines.contains { $0.id == id.description } }
        if !isOwed { try append(line) }
        try remove(id.description)
        state.withLock { $0.ledger.remove(id) }
        // The line may have been written meanwhile. Then the next opening finds a line without a file.
        if isOwed { forgetPendingLine(id) }
        compactLogIfLong()
    }
}

extension VersionFiles {
    func examine(_ file: borrowing OwnedDescriptor) throws(StoreError) -> Contents {
        guard !isReadOnly else { throw .readOnly }
        let status = try withStoreErrors { () throws(Errno) in try file.status() }
        guard status.isRegularFile else { throw .notAFile }
        let list = try withStoreErrors { () throws(Errno) in try file.accessControlList() }
        return Contents(status: status, rights: FileRights(status, accessControlList: list))
    }

    private func nextID() -> (VersionID, time: Int64) {
        let time = clock()
        return state.withLock { state in
            let id = VersionID.next(after: state.lastID, at: time)
            state.lastID = id
            return (id, time)
        }
    }

    /// The method and the reservation of a copy in progress.
    private struct Making {
        var method = PreservationMethod.copy
        var reservation: Reservation?
    }

    /// Copies a file into the store. The copy belongs to the owner and takes the owner's room.
    private func fill(
        _ name: String, from source: borrowing OwnedDescriptor, of contents: Contents,
        for charge: QuotaCharge,
        limit: Int, _ making: inout Making
    ) throws(StoreError) -> OwnedDescriptor {
        let isCopyable = Int(clamping: contents.status.size) <= limit
        do throws(StoreError) {
            // Shared blocks take hardly any room.
            let room = isCopyable ? Self.room(neededFor: contents.status) : QuotaLedger.leastRoom
            return try evictingIfFull(room, for: charge) { () throws(StoreError) in
                let target = try withStoreErrors { () throws(Errno) in try directory.create(name) }
                do throws(StoreError) {
                    try give(target, to: contents.status)
                    try fill(target, from: source, for: charge, limit: limit, &making)
                    return target
                } catch {
                    undo(name)
                    throw error
                }
            }
        } catch {
            release(making.reservation)
            throw error
        }
    }

    /// Gives the file its owner, so that bytes written afterwards count for the owner's quota.
    private func give(_ file: borrowing OwnedDescriptor, to status: FileStatus) throws(StoreError) {
        guard OwnProcess.user == 0, status.user != 0 || status.group != 0 else { return }
        do throws(Errno) {
            try file.changeOwner(user: status.user, group: status.group)
        } catch {
            // Some file systems have no owners, and no quotas either.
            guard [.notPermitted, .invalid, .unsupported].contains(error) else { throw StoreError(error) }
        }
    }

    /// Fills a copy. No version is evicted before the contents are known to be shared, or short enough to be copied (D210).
    private func fill(
        _ target: borrowing OwnedDescriptor, from source: borrowing OwnedDescriptor, for charge: QuotaCharge,
        limit: Int, _ making: inout Making
    ) throws(StoreError) {
        let writer = charge.writer
        let isShared = try withStoreErrors { () throws(Errno) in
            try source.rewind()
            return try ThreadIdentity.withQuota(of: writer.user, group: writer.group) { () throws(Errno) in
                try source.reflink(to: target)
            }
        }
        let status = try withStoreErrors { () throws(Errno) in try source.status() }
        guard isShared || Int(clamping: status.size) <= limit else { throw .tooLarge(limit: limit) }
        making.method = isShared ? .reflink : .copy
        if making.reservation == nil {
            let room = isShared ? Self.room(taken: status) : Self.room(neededFor: status)
            making.reservation = try reserve(room, for: charge)
        }
        if isShared { return }
        // One byte beyond the limit tells a file that grew meanwhile from a file that just fits.
        let copied = try withStoreErrors { () throws(Errno) in
            try ThreadIdentity.withQuota(of: writer.user, group: writer.group) { () throws(Errno) in
                try source.copyContents(to: target, limit: limit + 1)
            }
        }
        guard copied <= limit else { throw .tooLarge(limit: limit) }
    }

    /// Makes the name and then the line of a complete copy durable.
    private func record(_ entry: VersionRecord) throws(StoreError) {
        do throws(StoreError) {
            try withStoreErrors { () throws(Errno) in try directory.synchronize(by: synchronize) }
            try append(LogLine(entry), owner: writer(entry.rights, entry.user))
        } catch {
            undo(entry.id.description)
            throw error
        }
    }

    func append(_ line: LogLine, owner: QuotaOwner = .root) throws(StoreError) {
        try append([line], owner: owner)
    }

    func append(_ lines: [LogLine], owner: QuotaOwner = .root) throws(StoreError) {
        guard !lines.isEmpty else { return }
        let bytes = lines.flatMap { $0.bytes() }
        try state.withLock { state throws(StoreError) in
            do throws(Errno) {
                state.nameLog(in: home, by: synchronize)
                try state.log.append(bytes, owner: owner)
                state.lines += lines.count
                state.writePendingLines()
            } catch {
                throw StoreError(error)
            }
        }
    }

    /// Appends the line of a file that exists and stays, or queues it. Returns whether it is written.
    @discardableResult
    func appendOrQueue(_ line: LogLine, owner: QuotaOwner = .root) -> Bool {
        do throws(StoreError) {
            try append(line, owner: owner)
            return true
        } catch {
            let isOwed: Bool = state.withLock { state in
                guard state.pendingLines.count < Self.mostOwed else { return false }
                state.pendingLines.append(line)
                return true
            }
            report("kept/\(line.id) has no line in kept.log\(isOwed ? " yet" : "") (\(error))")
            return false
        }
    }

    func writePendingLines() { state.withLock { $0.writePendingLines() } }

    func forgetPendingLine(_ id: VersionID) {
        state.withLock { state in state.pendingLines.removeAll { $0.id == id.description } }
    }

    func remove(_ name: String) throws(StoreError) {
        try withStoreErrors { () throws(Errno) in
            try directory.remove(name)
            try directory.synchronize(by: synchronize)
        }
    }

    /// Removes a file after a failure, or a copy that is not needed.
    ///
    /// The next opening finds a file that cannot be removed.
    private func undo(_ name: String) {
        do throws(Errno) {
            try directory.remove(name)
        } catch {
            report("kept/\(name) could not be removed after a failure (error \(error.rawValue))")
        }
    }
}

extension VersionFiles.State {
    /// Brings the name of a new log to the disk, since its lines are durable only then. A failure was reported; each new line
    /// tries again.
    mutating func nameLog(in home: borrowing StoreDirectory, by synchronize: Synchronisation) {
        guard logName == .pending else { return }
        do throws(Errno) { try home.synchronize(by: synchronize) } catch { return }
        logName = .onDisk
    }

    /// Writes the pending lines, if that is possible now.
    mutating func writePendingLines() {
        while let line = pendingLines.first {
            // The failure was reported for each line, and is tried again.
            do throws(Errno) { try log.append(line.bytes()) } catch { return }
            lines += 1
            pendingLines.removeFirst()
        }
    }
}

extension VersionRecord {
    fileprivate init(
        _ id: VersionID, _ contents: VersionFiles.Contents, _ request: PreservationRequest,
        method: PreservationMethod, at time: Int64
    ) {
        self.init(
            id: id, path: request.path, cause: request.cause, time: time, rights: contents.rights,
            method: method, device: contents.status.device, inode: contents.status.inode,
            size: Int(clamping: contents.status.size), closed: request.closed, user: request.user)
    }
}

extension QuotaLedger.StoredFile {
    init(_ status: FileStatus) { self.init(device: status.device, inode: status.inode) }
}

/// Whether a copy will be recorded.
package enum CopyNeed: Sendable {
    case certain
    /// It may never be needed, so no other version is evicted for it.
    case possible
}

/// Contents that were copied, but may not be on the disk yet.
package struct UnfinishedCopy: ~Copyable, Sendable {
    let id: VersionID
    let time: Int64
    let contents: VersionFiles.Contents
    /// The user that caused the copy.
    let user: UInt32?
    let method: PreservationMethod
    /// The room that is reserved for it until it is entered.
    let reservation: Reservation?
    let file: OwnedDescriptor
}
