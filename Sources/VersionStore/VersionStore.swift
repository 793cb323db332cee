// SPDX-License-Identifier: Apache-2.0
package import LinuxSystem
import Synchronization

/// Preserves contents that would be lost when an operation preempts a claim.
///
/// Every function may block on the disk: call them on workers. When a preserving function has returned, its contents and its
/// line are on the disk and survive any kill. If it throws, nothing is preserved. A link is different if its line has no room
/// on the disk: the contents are preserved, a report is logged, and the line is written later.
package final class VersionStore: Sendable {
    /// The largest file, in bytes, that is copied rather than shared or linked.
    package static let largestCopy = 256 << 20

    private let files: VersionFiles?
    private let log: @Sendable (String) -> Void
    /// Why there is no store, nil if there is one.
    ///
    /// The source cannot be written then, and every preserving function throws this error.
    package let absence: StoreError?
    private let largestCopy: Int
    private let writers = LinkWriters()

    /// Opens `.truce` in the root of a source, and creates it if it is missing.
    ///
    /// - Parameters:
    ///   - root: a descriptor of the root; `O_PATH` is enough.
    ///   - largestCopy: the most bytes that are copied.
    ///   - limits: how much is preserved.
    ///   - clock: nanoseconds since 1970.
    ///   - steadyClock: nanoseconds that measure the age of versions. They go on while the machine sleeps, and do not jump. If
    ///     it is nil, a `clock` of the caller must not jump either.
    ///   - synchronize: brings a file or a directory to the disk.
    ///   - log: receives one sentence for each problem, and for each eviction.
    ///   - leastCompactedLines: a log of fewer lines is not rewritten, unless it is long.
    ///   - leastCompactedBytes: the bytes of a long log.
    ///   - takeLock: takes the exclusive lock of a file, or returns false if another process has it.
    /// - Throws: `foreign` if there is a `.truce` that is not ours, `inUse` if another daemon has it.
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
            try files.recover()
            self.files = files
            absence = nil
        } catch {
            guard error == .readOnly || error == .noRight else { throw error }
            files = nil
            absence = error
            log("no versions will be preserved: the source cannot be written")
        }
    }

    /// Removes versions that are too old or too many, or take too much room. Call it regularly.
    package func prune() { files?.prune() }

    /// Removes the store if this opening created it and the mount failed.
    package func discardIfNew(in root: borrowing OwnedDescriptor) {
        if files?.isNew == true { StoreLayout.remove(from: root, log: log) }
    }

    /// Preserves a file that is about to lose its name, by giving it another name: atomic, and without a copy.
    ///
    /// An `O_PATH` descriptor of the file is enough. `path` leads to it from the root of the source. `closed` are the
    /// directories on that path that some users may not enter. `user` caused the step; versions that other users than the owner
    /// cause have less room.
    package func preserveByLinking(
        _ file: borrowing OwnedDescriptor, path: [UInt8], cause: PreservationCause, closed: [FileRights] = [],
        by user: UInt32? = nil
    ) throws(StoreError) -> VersionID {
        try requireFiles().link(
            file, PreservationRequest(path: path, cause: cause, closed: closed, user: user))
    }

    /// Preserves the contents of a file about to be overwritten: shared where the file system can, otherwise copied. An equal
    /// version of the path from a moment ago is used instead.
    package func preserveByCopying(
        _ file: borrowing OwnedDescriptor, path: [UInt8], cause: PreservationCause, closed: [FileRights] = [],
        by user: UInt32? = nil
    ) throws(StoreError) -> VersionID {
        try requireFiles().copy(
            file, PreservationRequest(path: path, cause: cause, closed: closed, user: user),
            limit: largestCopy)
    }

    /// Copies the contents of a file as ``preserveByCopying(_:path:cause:closed:by:)`` does, but does not wait for the disk. It
    /// is for a file that is written all the time and about to be overwritten. Call ``record(_:path:cause:closed:by:)`` or
    /// ``discard(_:)`` afterwards. After a kill in between, the next opening finds the contents, but not their path.
    package func copyWithoutSync(
        _ file: borrowing OwnedDescriptor,
        for request: PreservationRequest = PreservationRequest(path: [], cause: .suspendedWriter),
        need: CopyNeed = .possible
    ) throws(StoreError) -> UnfinishedCopy {
        try requireFiles().copyWithoutSync(file, request, need, limit: largestCopy)
    }

    /// Records a copy: it is on the disk and listed when this returns, or the reason why not is logged.
    package func record(
        _ copy: consuming UnfinishedCopy, path: [UInt8], cause: PreservationCause, closed: [FileRights] = [],
        by user: UInt32? = nil
    ) throws(StoreError) -> VersionID {
        try requireFiles().record(
            copy, PreservationRequest(path: path, cause: cause, closed: closed, user: user))
    }

    /// Whether a copy equals a version, byte by byte; false if they cannot be compared.
    package func isSame(_ copy: borrowing UnfinishedCopy, as id: VersionID) -> Bool {
        do throws(StoreError) { return try requireFiles().isSame(copy.id, as: id) } catch { return false }
    }

    package func discard(_ copy: consuming UnfinishedCopy) { files?.discard(copy) }

    /// Preserves the contents of a file that is only appended to, like ``preserveByCopying(_:path:cause:closed:by:)``. Call
    /// ``letGoOfGrown()`` when no caller waits for that any more.
    package func preserveGrown(
        _ file: borrowing OwnedDescriptor, path: [UInt8], cause: PreservationCause, closed: [FileRights] = [],
        by user: UInt32? = nil
    ) throws(StoreError) -> VersionID {
        try requireFiles().copyGrown(
            file, PreservationRequest(path: path, cause: cause, closed: closed, user: user),
            limit: largestCopy)
    }

    /// Drops each copy of ``preserveGrown(_:path:cause:closed:by:)`` that the next copy of its file begins with, and returns
    /// their IDs. By its ID it can still be read, from the copy that holds it; it is not listed any more.
    package func letGoOfGrown() -> [VersionID] { files?.letGoOfGrown(limit: largestCopy) ?? [] }

    /// Whether a version may stand for contents that are to be preserved now: it is on the disk, and at most a minute old. Then
    /// it stays as long as if it were preserved now. An older version must be preserved again, which costs a name.
    package func renewIfRecent(_ id: VersionID) -> Bool { files?.renewIfRecent(id, for: .one) ?? false }

    /// Drops a version that turned out not to be needed.
    package func drop(_ id: VersionID, reason: String) throws(StoreError) {
        try requireFiles().drop(id, reason: reason)
    }

    /// Drops the versions that exist and that no step has relied on since `moment`.
    package func dropVersions(of ids: [VersionID], reason: String, unlessNeededSince moment: Int64? = nil) {
        files?.dropVersions(ofKnown: ids, because: reason, unlessNeededSince: moment)
    }

    /// The time of the clock that measures the age of versions.
    package func moment() -> Int64 { files?.steadyClock() ?? 0 }

    /// Gives a link contents of its own, so that later writes to its file do not change them. A kill leaves the link or the
    /// copy under the ID, with the same contents.
    package func detach(_ id: VersionID) throws(StoreError) {
        try requireFiles().detach(id, limit: largestCopy)
    }

    /// Notes that a program has the file of a link open for writing, until ``noteClosed(_:by:)``.
    package func noteWriter(of id: VersionID, _ name: String, by number: UInt64) {
        writers.insert(name, of: id, by: number)
    }

    package func noteClosed(_ id: VersionID, by number: UInt64) {
        // The length of the file does not change any more.
        if writers.remove(id, by: number) { files?.measure(id) }
    }

    /// The programs that have the file of a link open for writing, each once, in the order of their names.
    package func writers(of id: VersionID) -> [String] { writers.names(of: id) }

    /// Whether a file equals a version, byte by byte; false if they cannot be compared.
    package func holds(_ id: VersionID, _ file: borrowing OwnedDescriptor) -> Bool {
        do throws(StoreError) { return try requireFiles().holds(id, file) } catch { return false }
    }

    /// Writes the lines that had no room, a last time. Without them the next opening finds the contents, but not their paths.
    package func writePendingLines() { files?.writePendingLines() }

    /// Lists the versions of a path and everything below it, oldest first; all versions for an empty path. `alias` returns
    /// whether another path is the same document.
    package func list(
        under path: [UInt8], orCalled alias: ([UInt8]) -> Bool = { _ in false }
    ) throws(StoreError) -> [VersionRecord] {
        guard let files else { return [] }
        let folder = path + [UInt8(ascii: "/")]
        return try files.entries {
            path.isEmpty || $0.path == path || $0.path.starts(with: folder) || alias($0.path)
        }
    }

    /// Whether a file is one of the files that hold versions.
    package func holds(_ status: FileStatus) throws(StoreError) -> Bool {
        try files?.hold(status) ?? false
    }

    package func entry(_ id: VersionID) throws(StoreError) -> VersionRecord { try find(id).entry }

    /// Finds a version, also if it was dropped because another file holds all of it.
    ///
    /// `VersionRecord.mayBeRead` decides whether a user may see it.
    package func find(_ id: VersionID) throws(StoreError) -> VersionLocation {
        guard let contents = try requireFiles().find(id) else { throw .noSuchEntry }
        return contents
    }

    /// Opens the contents of a version for reading; they end at ``VersionLocation/end`` of the file.
    ///
    /// If another version has become the holder since they were found, that one is opened.
    package func open(_ contents: inout VersionLocation) throws(StoreError) -> OwnedDescriptor {
        while true {
            do throws(StoreError) {
                return try requireFiles().open(contents.holder)
            } catch {
                guard error == .noSuchEntry else { throw error }
                let found = try find(contents.entry.id)
                // Each holder has a later ID, so the loop ends.
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

/// The settings of a store.
struct StoreSettings: Sendable {
    let limits: StoreLimits
    let clock: @Sendable () -> Int64
    let steadyClock: @Sendable () -> Int64
    let log: @Sendable (String) -> Void
    let synchronize: Synchronisation
    let leastCompactedLines: Int
    let leastCompactedBytes: Int
}
