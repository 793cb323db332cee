// SPDX-License-Identifier: Apache-2.0
package import LinuxSystem
import Synchronization

/// Preserves contents that would be lost when an operation preempts a claim.
///
/// Every function can wait for the disk, so only worker threads call it. When a preserving function returns, the contents and
/// their log line are on the disk and survive any kill. If the function throws, nothing is preserved. There is one exception: a
/// link is preserved even if the disk has no room for its log line. A report is then logged, and the line is written later.
package final class VersionStore: Sendable {
    /// The size in bytes of the largest file that the store copies. A larger file is preserved only by a link or by sharing its
    /// blocks.
    package static let largestCopy = 256 << 20

    let files: VersionFiles?
    private let log: @Sendable (String) -> Void
    /// The reason why there is no store; nil if there is a store.
    ///
    /// There is no store if the source cannot be written. Every preserving function throws this error in that case.
    package let absence: StoreError?
    private let largestCopy: Int
    private let writers = LinkWriters()

    /// Opens `.truce` in the root of a source, and creates `.truce` if it is missing.
    ///
    /// - Parameters:
    ///   - root: a descriptor of the root; `O_PATH` is enough.
    ///   - largestCopy: the size of the largest file that is copied, in bytes.
    ///   - limits: the most room, age and number of versions.
    ///   - clock: returns the time of day, in nanoseconds since 1970.
    ///   - steadyClock: returns nanoseconds by which the age of versions is measured. This clock runs while the machine sleeps
    ///     and cannot be set. If it is nil and a `clock` is given, that `clock` measures the age, and must not be set either.
    ///   - synchronize: brings a file or a directory to the disk.
    ///   - log: receives one sentence for each problem, and for each eviction.
    ///   - leastCompactedLines: a log with fewer lines is rewritten only if it has at least `leastCompactedBytes`.
    ///   - leastCompactedBytes: the size in bytes from which a log is rewritten, even if it has few lines.
    ///   - takeLock: takes the exclusive lock of a file, or returns false if another process has the lock.
    /// - Throws: `foreign` if there is a `.truce` that this daemon did not make, `inUse` if another daemon uses the store.
    package init(
        in root: borrowing OwnedDescriptor, largestCopy: Int = VersionStore.largestCopy,
        limits: StoreLimits = StoreLimits(),
        clock: (@Sendable () -> Int64)? = nil, steadyClock: (@Sendable () -> Int64)? = nil,
        synchronisingBy synchronize: @escaping Synchronisation = { file throws(Errno) in
            try file.synchronize()
        },
        log: @escaping @Sendable (String) -> Void,
        compactingLogsOf leastCompactedLines: Int = 4096, orOfBytes leastCompactedBytes: Int = 8 << 20,
        takingLockBy takeLock: StoreLayout.LockTaking = { file throws(Errno) in try file.tryLock() }
    ) throws(StoreError) {
        self.largestCopy = largestCopy
        self.log = log
        do throws(StoreError) {
            let layout = try StoreLayout.open(in: root, takingLockBy: takeLock, log: log)
            let settings = StoreSettings(
                limits: limits, clock: clock ?? WallClock.nanoseconds,
                steadyClock: steadyClock ?? clock ?? WallClock.bootNanoseconds, log: log,
                synchronize: synchronize, leastCompactedLines: leastCompactedLines,
                leastCompactedBytes: leastCompactedBytes)
            let files = try VersionFiles(layout, settings, writers: writers)
            try files.recover(copyingAtMost: largestCopy)
            self.files = files
            absence = nil
        } catch {
            guard error == .readOnly || error == .noRight else { throw error }
            files = nil
            absence = error
            log("no versions will be preserved: the source cannot be written")
        }
    }

    /// Removes versions that are too old, that are too many for one document, or that take too much room for one owner. The
    /// daemon calls this regularly.
    package func prune() { files?.prune() }

    /// Gives the histories of documents limits of their own. `find` returns the limits of the document at a path; nil if the
    /// limits of all versions apply. It is called on any thread, under no lock.
    package func limitHistory(by find: @escaping @Sendable ([UInt8]) -> KeptWritesLimits?) {
        files?.limitHistory(by: find)
    }

    /// Removes the store if this object created it. The daemon calls this when the mount fails.
    package func discardIfNew(in root: borrowing OwnedDescriptor) {
        if files?.isNew == true { StoreLayout.remove(from: root, log: log) }
    }

    /// Preserves a file that is about to lose its name: the file gets a second name in the store, and nothing is copied.
    ///
    /// An `O_PATH` descriptor of the file is enough. `path` leads from the root of the source to the file. `closed` has the
    /// rights of those directories on the path that some users may not enter. `user` is the user that causes the preservation.
    /// If that user is not the file's owner, there is less room for the version.
    package func preserveByLinking(
        _ file: borrowing OwnedDescriptor, path: [UInt8], cause: PreservationCause, closed: [FileRights] = [],
        by user: UInt32? = nil
    ) throws(StoreError) -> VersionID {
        try requireFiles().link(
            file, PreservationRequest(path: path, cause: cause, closed: closed, user: user))
    }

    /// Preserves a file by a second name, as ``preserveByLinking(_:path:cause:closed:by:)`` does. The request says which
    /// standing, provenance and durability the version has.
    package func preserveByLinking(
        _ file: borrowing OwnedDescriptor, for request: PreservationRequest
    ) throws(StoreError) -> VersionID {
        try requireFiles().link(file, request)
    }

    /// Preserves the contents of a file, as ``preserveByCopying(_:path:cause:closed:by:)`` does. The request says which
    /// standing, provenance and durability the version has. A suspected version always is a version of its own.
    package func preserveByCopying(
        _ file: borrowing OwnedDescriptor, for request: PreservationRequest
    ) throws(StoreError) -> VersionID {
        try requireFiles().copy(file, request, limit: largestCopy)
    }

    /// Preserves the contents of a file that is about to be overwritten. If the file system can share blocks, the copy shares
    /// those of the file. If the store has an equal version of the same path from the last minute, no copy is made.
    package func preserveByCopying(
        _ file: borrowing OwnedDescriptor, path: [UInt8], cause: PreservationCause, closed: [FileRights] = [],
        by user: UInt32? = nil
    ) throws(StoreError) -> VersionID {
        try requireFiles().copy(
            file, PreservationRequest(path: path, cause: cause, closed: closed, user: user),
            limit: largestCopy)
    }

    /// Copies the contents of a file as ``preserveByCopying(_:path:cause:closed:by:)`` does, but does not wait for the disk.
    ///
    /// This is for a file that a program writes all the time and that is about to be overwritten. The caller must then call
    /// ``record(_:path:cause:closed:by:)`` or ``discard(_:)``. If the daemon is killed before that call, the next opening of
    /// the store finds the contents, but not their path.
    package func copyWithoutSync(
        _ file: borrowing OwnedDescriptor,
        for request: PreservationRequest = PreservationRequest(path: [], cause: .suspendedWriter),
        need: CopyNeed = .possible
    ) throws(StoreError) -> UnfinishedCopy {
        try requireFiles().copyWithoutSync(file, request, need, limit: largestCopy)
    }

    /// Records a copy of ``copyWithoutSync(_:for:need:)`` as a version. When this returns, the copy is on the disk and is
    /// listed; otherwise the daemon's log has the reason.
    package func record(
        _ copy: consuming UnfinishedCopy, path: [UInt8], cause: PreservationCause, closed: [FileRights] = [],
        by user: UInt32? = nil
    ) throws(StoreError) -> VersionID {
        try requireFiles().record(
            copy, PreservationRequest(path: path, cause: cause, closed: closed, user: user))
    }

    /// Whether a copy equals a version, byte by byte; false if the two cannot be compared.
    package func isSame(_ copy: borrowing UnfinishedCopy, as id: VersionID) -> Bool {
        do throws(StoreError) { return try requireFiles().isSame(copy.id, as: id) } catch { return false }
    }

    package func discard(_ copy: consuming UnfinishedCopy) { files?.discard(copy) }

    /// Preserves the contents of a file that programs only append to, like ``preserveByCopying(_:path:cause:closed:by:)``. The
    /// caller must call ``letGoOfGrown()`` later, when no request waits for it.
    package func preserveGrown(
        _ file: borrowing OwnedDescriptor, path: [UInt8], cause: PreservationCause, closed: [FileRights] = [],
        by user: UInt32? = nil
    ) throws(StoreError) -> VersionID {
        try requireFiles().copyGrown(
            file, PreservationRequest(path: path, cause: cause, closed: closed, user: user),
            limit: largestCopy)
    }

    /// Drops each copy of ``preserveGrown(_:path:cause:closed:by:)`` if the next copy of the same file begins with all of its
    /// bytes. Returns the IDs of the dropped copies.
    ///
    /// A dropped copy is not listed any more. A program that has its ID can still read its contents, which come from the later
    /// copy.
    package func letGoOfGrown() -> [VersionID] { files?.letGoOfGrown(limit: largestCopy) ?? [] }

    /// Whether a program's step may destroy the contents that an existing version holds, without a new version of them. The
    /// existing version must be on the disk and at most a minute old. If this returns true, the version stays as long as a
    /// version that is preserved now.
    package func renewIfRecent(_ id: VersionID) -> Bool { files?.renewIfRecent(id, for: .one) ?? false }

    /// Drops a version that is not needed after all.
    package func drop(_ id: VersionID, reason: String) throws(StoreError) {
        try requireFiles().drop(id, reason: reason)
    }

    /// Drops the given versions, as far as they still exist. A version stays if it was needed since `moment`: a program's step
    /// has destroyed the contents that the version holds.
    package func dropVersions(of ids: [VersionID], reason: String, unlessNeededSince moment: Int64? = nil) {
        files?.dropVersions(ofKnown: ids, because: reason, unlessNeededSince: moment)
    }

    /// The time of the steady clock now, in nanoseconds. This clock measures the age of versions.
    package func moment() -> Int64 { files?.steadyClock() ?? 0 }

    /// Replaces a link in the store by a copy, so that later writes to the linked file do not change the version. After a kill,
    /// the ID belongs to the link or to the copy, and the contents of the two are equal.
    package func detach(_ id: VersionID) throws(StoreError) {
        try requireFiles().detach(id, limit: largestCopy)
    }

    /// Records that a program has the linked file of a version open for writing. This ends when ``noteClosed(_:by:)`` is called
    /// with the same number.
    package func noteWriter(of id: VersionID, _ name: String, by number: UInt64) {
        writers.insert(name, of: id, by: number)
    }

    package func noteClosed(_ id: VersionID, by number: UInt64) {
        // No program has the file open for writing any more, so its size is final and can be measured.
        if writers.remove(id, by: number) { files?.measure(id) }
    }

    /// The names of the programs that have the linked file of a version open for writing, sorted and without duplicates.
    package func writers(of id: VersionID) -> [String] { writers.names(of: id) }

    /// Whether the contents of a file equal those of a version, byte by byte; false if they cannot be compared.
    package func holds(_ id: VersionID, _ file: borrowing OwnedDescriptor) -> Bool {
        do throws(StoreError) { return try requireFiles().holds(id, file) } catch { return false }
    }

    /// Tries again to write the log lines for which the disk had no room. If the lines are never written, the next opening of
    /// the store finds the contents of these versions, but not their paths.
    package func writePendingLines() { files?.writePendingLines() }

    /// Lists the versions of a path and of all paths below it, oldest first. An empty path lists all versions.
    ///
    /// This reads neither the log nor the disk (D220).
    package func list(under path: [UInt8]) -> [VersionRecord] {
        files?.withIndex { index in index.ids(under: path) { _ in false }.compactMap { index[$0] } } ?? []
    }

    /// Returns the IDs of the versions that ``list(under:)`` lists, oldest first, and of those in the same directory whose path
    /// `isAlias` accepts, such as the path of the document's backup. `isAlias` is called under the lock of the index.
    package func ids(under path: [UInt8], orBeside isAlias: ([UInt8]) -> Bool = { _ in false }) -> [VersionID]
    {
        files?.withIndex { $0.ids(under: path, orBeside: isAlias) } ?? []
    }

    /// Lists the versions that were made of a file with this device and inode number, oldest first. The caller checks that the
    /// file is older than a version, because the number of a removed file is used again for another file.
    package func list(ofDevice device: UInt64, inode: UInt64) -> [VersionRecord] {
        files?.withIndex { index in
            index.ids(ofDevice: device, inode: inode).compactMap { index[$0] }
        } ?? []
    }

    /// Removes versions for a user, as far as they still exist. Returns how many were removed.
    package func remove(_ ids: [VersionID], reason: String) throws(StoreError) -> Int {
        try requireFiles().remove(ids, because: reason)
    }

    /// Whether the store has any version.
    package var hasVersions: Bool { files.map { $0.withIndex { !$0.isEmpty } } ?? false }

    /// The description of a version; nil if the store does not have the version any more.
    package func record(of id: VersionID) -> VersionRecord? { files?.withIndex { $0[id] } }

    /// Settles a version whose standing is `suspected`, after the comparison of the contents. Returns false if the version is
    /// gone or is not suspected any more.
    @discardableResult
    package func settle(_ id: VersionID, as verdict: Verdict) throws(StoreError) -> Bool {
        try requireFiles().settle(id, as: verdict)
    }

    /// Marks a conflict as resolved. The version then ages like other versions. Returns false if the version is no conflict.
    @discardableResult
    package func resolve(_ id: VersionID) throws(StoreError) -> Bool { try requireFiles().resolve(id) }

    /// Notes that a document or directory has got another path, so that its versions follow it (D219). Both paths lead from the
    /// root of the source. This does not wait for the disk, so any thread may call it.
    package func noteMoved(from former: [UInt8], to path: [UInt8], isDirectory: Bool) {
        files?.noteMoved(from: former, to: path, isDirectory ? .folder : .file)
    }

    /// Notes that two documents or directories have exchanged their paths. See ``noteMoved(from:to:isDirectory:)``.
    package func noteExchanged(_ path: [UInt8], _ other: [UInt8]) {
        files?.noteMoved(from: path, to: other, .exchange)
    }

    /// Adds a function that is called after each change of a version. The call comes from any thread, and must not wait.
    package func observe(_ observer: @escaping @Sendable (StoreChange) -> Void) {
        files?.changes.add(observer)
    }

    /// Sets what the store calls when something is deferred. The call must lead to ``synchronizeDeferred()`` within 500 ms. It
    /// comes from any thread, and must not wait.
    package func whenDeferred(_ call: @escaping @Sendable () -> Void) { files?.deferral.set(call) }

    /// Brings all deferred versions to the disk, and writes the log lines of moves. Waits for the disk.
    package func synchronizeDeferred() { files?.synchronizeDeferred() }

    /// Opens the directory of the source's history, which is in the store's directory. Creates it if it is missing. Returns nil if
    /// the source cannot be written.
    package func historyDirectory() throws(StoreError) -> StoreDirectory? {
        guard let files, !files.isReadOnly else { return nil }
        do throws(Errno) {
            return try files.home.subdirectory(StoreLayout.history)
        } catch {
            throw StoreError(error)
        }
    }

    /// Whether a file with this status is a file of the store that holds a version.
    package func holds(_ status: FileStatus) throws(StoreError) -> Bool {
        try files?.hold(status) ?? false
    }

    package func entry(_ id: VersionID) throws(StoreError) -> VersionRecord { try find(id).entry }

    /// Finds the file that holds a version. A dropped version is found too, if another version begins with all of its contents.
    ///
    /// `VersionRecord.mayBeRead` decides whether a user may read the version.
    package func find(_ id: VersionID) throws(StoreError) -> VersionLocation {
        guard let contents = try requireFiles().find(id) else { throw .noSuchEntry }
        return contents
    }

    /// Opens the file with the contents of a version for reading. The contents end at ``VersionLocation/end`` in that file.
    ///
    /// If the version was dropped after its location was found, the file of the version that now holds its contents is opened.
    package func open(_ contents: inout VersionLocation) throws(StoreError) -> OwnedDescriptor {
        while true {
            do throws(StoreError) {
                return try requireFiles().open(contents.holder)
            } catch {
                guard error == .noSuchEntry else { throw error }
                let found = try find(contents.entry.id)
                // Each pass of the loop uses a later ID than the pass before, so the loop ends.
                guard found.holder > contents.holder else { throw error }
                contents = found
            }
        }
    }

    private func requireFiles() throws(StoreError) -> VersionFiles {
        guard let files else { throw absence ?? .readOnly }
        return files
    }
}

/// The settings of a store, as the parameters of ``VersionStore``'s initializer give them.
struct StoreSettings: Sendable {
    let limits: StoreLimits
    let clock: @Sendable () -> Int64
    let steadyClock: @Sendable () -> Int64
    let log: @Sendable (String) -> Void
    let synchronize: Synchronisation
    let leastCompactedLines: Int
    let leastCompactedBytes: Int
}
