// SPDX-License-Identifier: Apache-2.0
import LinuxSystem
import Synchronization

/// The files and the log of an open store: preserved contents in `kept/`, and one line in the log for each version.
///
/// The daemon can be killed between any two steps, and `recover` then completes the work:
/// - To preserve a file, its contents are written under a name that marks them as incomplete, and then the log line. A file
///   without a line shows that the preservation was interrupted.
/// - To drop a version, the `dropped` line is written, and then the file is removed. A file with a `dropped` line shows that
///   the removal was interrupted.
///
/// A link gives a file a second name in the store, and preserves the file even if the disk has no room for the line. The line
/// is then *pending*: it counts as written, and is written after the next line that can be written.
final class VersionFiles: Sendable {
    struct State: ~Copyable, Sendable {
        var log: VersionLog
        /// The number of lines in the log, without lines that could not be written.
        var lines = 0
        /// The number of lines in the log when the log was last rewritten.
        var linesCompacted = 0
        /// Log lines that could not be written yet, for example on a full disk. The files of these versions exist.
        var pendingLines: [LogLine] = []
        var grown = GrownFiles()
        var recent = RecentCopies()
        var ledger = QuotaLedger()
        var failedEvictions = FailedEvictions()
        /// The size of the log in bytes when the log was last rewritten.
        var bytesCompacted = 0
        var logName = LogName.onDisk
        var deferred = DeferredWork()
    }

    /// Whether the directory entry of the log is on the disk.
    enum LogName {
        case onDisk
        /// The log was rewritten and renamed, but the directory could not be brought to the disk yet.
        case pending
    }

    /// The state and rights of a file that is to be preserved.
    struct Contents {
        let status: FileStatus
        let rights: FileRights
    }

    /// The end of a file's name while its contents are being copied into the store.
    static let incomplete = ".copying"
    /// The most pending lines. They are limited, because they fill the memory while the disk stays full. A file without a line
    /// stays preserved: the next opening of the store finds the file, but not its path.
    private static let mostOwed = 4096

    let home: StoreDirectory
    let directory: StoreDirectory
    private let state: Mutex<State>
    let isReadOnly: Bool
    /// Whether the store did not exist until this object created it.
    let isNew: Bool
    let limits: StoreLimits
    let clock: @Sendable () -> Int64
    let steadyClock: @Sendable () -> Int64
    let report: @Sendable (String) -> Void
    let synchronize: Synchronisation
    let writers: LinkWriters
    /// The number of lines from which the log is rewritten. A shorter log is rewritten only if it has `leastCompactedBytes`.
    let leastCompactedLines: Int
    let leastCompactedBytes: Int
    /// The index has a lock of its own, which is never held during I/O. So a request thread can look at the index.
    private let index = Mutex(VersionIndex())
    let deferral = Deferral()
    let changes = ChangeObservers()
    private let findLimits = Mutex<(@Sendable ([UInt8]) -> KeptWritesLimits?)?>(nil)

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

    /// Runs a closure that reads or changes the store's state. The store's lock is held during the call.
    func withState<Result: ~Copyable, Failure: Error>(
        _ body: (inout State) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result {
        try state.withLock { (state) throws(Failure) in try body(&state) }
    }

    /// Runs a closure that reads or changes the index. The lock of the index is held during the call, so the closure does no
    /// I/O.
    func withIndex<Result, Failure: Error>(
        _ body: (inout VersionIndex) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result {
        try index.withLock { (index) throws(Failure) in try body(&index) }
    }

    /// Returns the limits of a document's history; nil if it has no limits of its own.
    func historyLimits(ofFileAt path: [UInt8]) -> KeptWritesLimits? {
        let find = findLimits.withLock { $0 }
        return find?(path)
    }

    func limitHistory(by find: @escaping @Sendable ([UInt8]) -> KeptWritesLimits?) {
        findLimits.withLock { $0 = find }
    }

    /// Preserves a file by giving it a second name in the store.
    ///
    /// If there is no room for the version, the second name is removed and an error is thrown. Failures after that are only
    /// reported, because the caller then removes the file's first name in any case.
    func link(_ file: borrowing OwnedDescriptor, _ request: PreservationRequest) throws(StoreError)
        -> VersionID
    {
        let contents = try examine(file)
        let (id, time) = nextID()
        try withStoreErrors { () throws(Errno) in try directory.link(file, as: id.description) }
        let reservation: Reservation
        do throws(StoreError) {
            // The second name takes no blocks. But without the version, the removal of the first name would free the blocks of
            // the file. So the version is charged for them.
            reservation = try reserve(
                Self.room(taken: contents.status), for: charge(contents.rights, request),
                sharing: QuotaLedger.StoredFile(contents.status))
        } catch {
            undo(id.description)
            throw error
        }
        defer { release(reservation) }
        do throws(Errno) {
            if request.durability == .immediate { try directory.synchronize(by: synchronize) }
        } catch {
            report("kept/\(id) may not outlive a power cut (\(error))")
        }
        let entry = VersionRecord(id, contents, request, method: .link, at: time)
        appendOrQueue(
            LogLine(entry), owner: writer(entry.rights, entry.user), request.durability)
        enter(entry, as: contents.status)
        return id
    }

    func copy(
        _ file: borrowing OwnedDescriptor, _ request: PreservationRequest, limit: Int
    ) throws(StoreError) -> VersionID {
        if let id = recentVersion(file, request) { return id }
        let entry = try copied(file, request, limit: limit)
        // Copies of files that programs only append to are not remembered here, because such a copy is dropped soon: a later
        // copy begins with its bytes. A suspected version is possibly dropped soon too.
        if entry.standing != .suspected { state.withLock { $0.recent.insert(entry) } }
        return entry.id
    }

    func copied(
        _ file: borrowing OwnedDescriptor, _ request: PreservationRequest, limit: Int
    ) throws(StoreError) -> VersionRecord {
        try finish(beginCopying(file, request, .oldVersions, limit: limit), request)
    }

    /// Begins a copy. The copy has a name that ends with ``incomplete`` until all its bytes are on the disk. If the store
    /// already has an equal copy of the same owner, the new name is a second name of that copy.
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
            if request.durability == .immediate || copy.method == .copy { try synchronize(copy.file) }
            status = try copy.file.status()
            try directory.rename(incomplete, to: copy.id.description)
        } catch {
            undo(incomplete)
            throw StoreError(error)
        }
        let entry = VersionRecord(copy.id, copy.contents, request, method: copy.method, at: copy.time)
        try record(entry, request.durability)
        enter(entry, as: status)
        return entry
    }

    /// Copies a file without waiting for the disk. If the daemon is killed before the copy is recorded, the log has no line for
    /// the copy. The next opening of the store adds the line.
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

    /// Records a copy as a version, when a program's step destroys the copied contents.
    ///
    /// If the log line cannot be written, the copy stays, but other steps do not rely on it. A stranger is a user other than
    /// the owner and root. If a stranger caused the copy, the version counts against the limit for versions of strangers.
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
        if reliance != .none, entry.standing != .suspected { state.withLock { $0.recent.insert(entry) } }
        release(copy.reservation)
        return copy.id
    }

    private func lookAt(_ file: borrowing OwnedDescriptor) -> FileStatus? {
        do throws(Errno) { return try file.status() } catch { return nil }
    }

    /// Replaces a link in the store by a copy of the file's contents at this time.
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

    /// Gives the copy that replaces a link the owner, mode and access control list of the linked file.
    private func takeRights(_ copy: borrowing OwnedDescriptor, _ contents: Contents, as id: VersionID) {
        do throws(Errno) {
            // If the owner cannot be set, the copy belongs to the daemon's user. Only root and that user can then open it.
            try copy.changeOwner(user: contents.status.user, group: contents.status.group)
            try copy.changeMode(to: contents.status.mode & 0o666)
            guard let list = contents.rights.accessControlList else { return }
            try copy.setAccessControlList(list)
        } catch {
            // The owner or the mode could not be set, so the copy still has mode 0600.
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

    func drop(_ id: VersionID, _ line: LogLine, _ durability: Durability = .immediate) throws(StoreError) {
        guard !isReadOnly else { throw .readOnly }
        // The log never contained the line of this version, because the line is pending. So no `dropped` line is needed, and
        // the disk has no room for it.
        let isOwed = isPending(id)
        if !isOwed { try append(line, durability) }
        try remove(id.description, durability)
        forget([id])
        // If the pending line was written during the removal, the log has a line without a file. The next opening of the store
        // reports this.
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
        return (withIndex { $0.nextID(at: time) }, time)
    }

    /// The method and the reserved room of a copy that is not finished.
    private struct Making {
        var method = PreservationMethod.copy
        var reservation: Reservation?
    }

    /// Copies a file into the store under `name`. The copy gets the owner of the file, and this owner is charged for it.
    private func fill(
        _ name: String, from source: borrowing OwnedDescriptor, of contents: Contents,
        for charge: QuotaCharge,
        limit: Int, _ making: inout Making
    ) throws(StoreError) -> OwnedDescriptor {
        let isCopyable = Int(clamping: contents.status.size) <= limit
        do throws(StoreError) {
            // It is not known yet whether the file system can share the blocks. A file above the copy limit can only be
            // preserved by sharing, which takes hardly any room.
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

    /// Gives a new copy to the owner of the original file. The bytes of the copy then count for the owner's disk quota.
    private func give(_ file: borrowing OwnedDescriptor, to status: FileStatus) throws(StoreError) {
        guard OwnProcess.user == 0, status.user != 0 || status.group != 0 else { return }
        do throws(Errno) {
            try file.changeOwner(user: status.user, group: status.group)
        } catch {
            // These errors come from a file system without owners. Such a file system has no quotas.
            guard [.notPermitted, .invalid, .unsupported].contains(error) else { throw StoreError(error) }
        }
    }

    /// Fills a copy, by sharing the blocks of `source` or by copying its bytes.
    ///
    /// Room is reserved only when the contents can certainly be preserved, because the reservation can evict versions (D210:
    /// useless removals are avoided).
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
        // One byte more than the limit is copied. If that byte exists, the file has grown beyond the limit during the copying.
        let copied = try withStoreErrors { () throws(Errno) in
            try ThreadIdentity.withQuota(of: writer.user, group: writer.group) { () throws(Errno) in
                try source.copyContents(to: target, limit: limit + 1)
            }
        }
        guard copied <= limit else { throw .tooLarge(limit: limit) }
    }

    /// Brings the name of a complete copy to the disk, and then appends its log line.
    private func record(_ entry: VersionRecord, _ durability: Durability) throws(StoreError) {
        do throws(StoreError) {
            if durability == .immediate {
                try withStoreErrors { () throws(Errno) in try directory.synchronize(by: synchronize) }
            }
            try append(LogLine(entry), owner: writer(entry.rights, entry.user), durability)
            if durability == .deferred, entry.method == .reflink {
                state.withLock { $0.deferred.copies.append(entry.id) }
            }
        } catch {
            undo(entry.id.description)
            throw error
        }
    }

    func append(
        _ line: LogLine, owner: QuotaOwner = .root, _ durability: Durability = .immediate
    ) throws(StoreError) {
        try append([line], owner: owner, durability)
    }

    func append(
        _ lines: [LogLine], owner: QuotaOwner = .root, _ durability: Durability = .immediate
    ) throws(StoreError) {
        guard !lines.isEmpty else { return }
        let bytes = lines.flatMap { $0.bytes() }
        try state.withLock { state throws(StoreError) in
            do throws(Errno) {
                if durability == .immediate { state.nameLog(in: home, by: synchronize) }
                try state.log.append(bytes, owner: owner, durability)
                state.lines += lines.count
                if durability == .deferred { state.deferred.hasLines = true }
                state.writePendingLines()
            } catch {
                throw StoreError(error)
            }
        }
        if durability == .deferred { deferral.begin() }
    }

    /// Appends the log line of a file that exists and stays. If this fails, the line becomes pending. Returns whether the line
    /// is written.
    @discardableResult
    func appendOrQueue(
        _ line: LogLine, owner: QuotaOwner = .root, _ durability: Durability = .immediate
    ) -> Bool {
        do throws(StoreError) {
            try append(line, owner: owner, durability)
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

    func remove(_ name: String, _ durability: Durability = .immediate) throws(StoreError) {
        try withStoreErrors { () throws(Errno) in
            try directory.remove(name)
            if durability == .immediate { try directory.synchronize(by: synchronize) }
        }
    }

    /// Removes a file of the store after a failure, or a copy that is not needed.
    ///
    /// If the file cannot be removed, the next opening of the store finds it.
    private func undo(_ name: String) {
        do throws(Errno) {
            try directory.remove(name)
        } catch {
            report("kept/\(name) could not be removed after a failure (error \(error.rawValue))")
        }
    }
}

extension VersionFiles.State {
    /// Brings the directory entry of a rewritten log to the disk. Until this succeeds, a power cut can lose the lines of that
    /// log.
    ///
    /// A failure was already reported when the log was rewritten. This method is called before each new line, until it
    /// succeeds.
    mutating func nameLog(in home: borrowing StoreDirectory, by synchronize: Synchronisation) {
        guard logName == .pending else { return }
        do throws(Errno) { try home.synchronize(by: synchronize) } catch { return }
        logName = .onDisk
    }

    /// Writes the pending lines one after the other, until all are written or a write fails.
    mutating func writePendingLines() {
        while let line = pendingLines.first {
            // The failure was already reported when the line became pending. The next call of this method tries again to write
            // the line.
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
            size: Int(clamping: contents.status.size), closed: request.closed, user: request.user,
            standing: request.standing, provenance: request.provenance)
    }
}

extension QuotaLedger.StoredFile {
    init(_ status: FileStatus) { self.init(device: status.device, inode: status.inode) }
}

/// Whether a copy is certain to be recorded as a version.
package enum CopyNeed: Sendable {
    case certain
    /// The copy is possibly discarded later, so no version is evicted to make room for it.
    case possible
}

/// A copy in the store that is not recorded as a version yet. Its bytes are possibly not on the disk yet.
package struct UnfinishedCopy: ~Copyable, Sendable {
    let id: VersionID
    let time: Int64
    let contents: VersionFiles.Contents
    /// The user that caused the copy; nil if the daemon itself caused it.
    let user: UInt32?
    let method: PreservationMethod
    /// The room that is reserved for the copy, until the owner is charged for the version.
    let reservation: Reservation?
    let file: OwnedDescriptor
}
