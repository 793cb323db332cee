// SPDX-License-Identifier: Apache-2.0
package import LinuxSystem
import Synchronization

/// Keeps what would be lost when an operation goes ahead over somebody's claim.
///
/// Every function may block on the disk: call them on workers. A `keep` that returned has its contents
/// and its line on the disk, whatever is killed afterwards; one that threw kept nothing. Of a link it may be the line that
/// has no room on the disk: then the contents are kept, and the log hears of it and gets the line later.
package final class VersionStore: Sendable {
    /// The largest file that is copied rather than shared or linked.
    package static let largestCopy = 256 << 20

    private let files: VersionFiles?
    private let log: @Sendable (String) -> Void
    /// Why there is no store, nil if there is one.
    ///
    /// The source cannot be written then, and every `keep` says so.
    package let absence: StoreError?
    private let largestCopy: Int
    private let writers = LinkWriters()

    /// Opens `.truce` in the root of a source, and makes it if it is missing.
    ///
    /// - Parameters:
    ///   - root: a descriptor of the root; `O_PATH` will do.
    ///   - largestCopy: the most bytes that are copied.
    ///   - limits: how much is kept.
    ///   - clock: nanoseconds since 1970.
    ///   - steadyClock: nanoseconds by which versions grow old, which go on while the machine sleeps, and do not jump. A `clock` of the
    ///     caller's does not jump either, if this is nil.
    ///   - synchronize: brings a file or a directory to the disk.
    ///   - log: hears of everything that was not as it should be, and of what had to go, one sentence each.
    ///   - leastCompactedLines: a log of fewer lines is not written anew, unless it is long.
    ///   - leastCompactedBytes: how long.
    ///   - takeLock: takes the exclusive lock of a file, or says that it cannot be had.
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
            log("nothing will be kept: the source cannot be written")
        }
    }

    /// Lets versions go that are too old or too many, or take too much room. Call it now and then.
    package func prune() { files?.prune() }

    /// Takes the store away again if this opening has made it: what it was made for did not come about.
    package func discardIfNew(in root: borrowing OwnedDescriptor) {
        if files?.isNew == true { StoreLayout.remove(from: root, log: log) }
    }

    /// Keeps a file about to lose its name, by giving it another: atomic, and nothing is copied.
    ///
    /// An `O_PATH` descriptor of the file will do; `path` leads to it from the root of the source, and `closed` are the directories
    /// on that way which not everybody may enter. `user` is the one whose step makes it necessary: what others than the owner cause has
    /// less room.
    package func preserveByLinking(
        _ file: borrowing OwnedDescriptor, path: [UInt8], cause: PreservationCause, closed: [FileRights] = [],
        by user: UInt32? = nil
    ) throws(StoreError) -> VersionID {
        try requireFiles().link(
            file, PreservationRequest(path: path, cause: cause, closed: closed, user: user))
    }

    /// Keeps the contents of a file about to be overwritten: shared where the file system can, else
    /// copied. What was kept of the path a moment ago and is the same stands for that.
    package func preserveByCopying(
        _ file: borrowing OwnedDescriptor, path: [UInt8], cause: PreservationCause, closed: [FileRights] = [],
        by user: UInt32? = nil
    ) throws(StoreError) -> VersionID {
        try requireFiles().copy(
            file, PreservationRequest(path: path, cause: cause, closed: closed, user: user),
            limit: largestCopy)
    }

    /// Copies the contents of a file as ``preserveByCopying(_:path:cause:)`` does, but waits for no disk: for what somebody writes all
    /// the time, and that is about to be overwritten. Either ``record(_:path:cause:)`` or ``discard(_:)`` is to follow; of who is
    /// killed before, the next opening finds the contents, and not whose they were.
    package func copyWithoutSync(
        _ file: borrowing OwnedDescriptor,
        for request: PreservationRequest = PreservationRequest(path: [], cause: .suspendedWriter),
        need: CopyNeed = .possible
    ) throws(StoreError) -> UnfinishedCopy {
        try requireFiles().copyWithoutSync(file, request, need, limit: largestCopy)
    }

    /// What was copied is on the disk when this returns, and listed, or the log has heard why not.
    package func record(
        _ copy: consuming UnfinishedCopy, path: [UInt8], cause: PreservationCause, closed: [FileRights] = [],
        by user: UInt32? = nil
    ) throws(StoreError) -> VersionID {
        try requireFiles().record(
            copy, PreservationRequest(path: path, cause: cause, closed: closed, user: user))
    }

    /// Whether a copy holds what is kept under an ID, byte by byte. What cannot be compared is taken to be different.
    package func isSame(_ copy: borrowing UnfinishedCopy, as id: VersionID) -> Bool {
        do throws(StoreError) { return try requireFiles().isSame(copy.id, as: id) } catch { return false }
    }

    package func discard(_ copy: consuming UnfinishedCopy) { files?.discard(copy) }

    /// Keeps the contents of a file that is appended to and nothing else, like ``preserveByCopying(_:path:cause:)``. Call
    /// ``letGoOfGrown()`` when nobody waits for that any more.
    package func preserveGrown(
        _ file: borrowing OwnedDescriptor, path: [UInt8], cause: PreservationCause, closed: [FileRights] = [],
        by user: UInt32? = nil
    ) throws(StoreError) -> VersionID {
        try requireFiles().copyGrown(
            file, PreservationRequest(path: path, cause: cause, closed: closed, user: user),
            limit: largestCopy)
    }

    /// Lets go of what ``preserveGrown(_:path:cause:)`` copied, if the next copy of that file begins with all of it; returns what
    /// that was. Under its ID it can be read as before, out of the one that holds it; it is listed no more.
    package func letGoOfGrown() -> [VersionID] { files?.letGoOfGrown(limit: largestCopy) ?? [] }

    /// Whether a version may stand for contents that are to be kept now: it is on the disk, and no older than a minute. Then it stays as
    /// long as if it were kept now. An older one is to be kept again, which costs a name.
    package func renewIfRecent(_ id: VersionID) -> Bool { files?.renewIfRecent(id, for: .one) ?? false }

    /// Lets go of a kept file that turned out not to be needed.
    package func drop(_ id: VersionID, reason: String) throws(StoreError) {
        try requireFiles().drop(id, reason: reason)
    }

    /// Lets go of several, as far as they are there, and no step has counted on them since a moment.
    package func dropVersions(of ids: [VersionID], reason: String, unlessNeededSince moment: Int64? = nil) {
        files?.dropVersions(ofKnown: ids, because: reason, unlessNeededSince: moment)
    }

    /// The time by the clock by which versions grow old.
    package func moment() -> Int64 { files?.steadyClock() ?? 0 }

    /// Gives a link contents of its own, so that what is written to its file from now on does not change them. A kill leaves
    /// the link or the copy under the ID, and both hold the same.
    package func detach(_ id: VersionID) throws(StoreError) {
        try requireFiles().detach(id, limit: largestCopy)
    }

    /// A program has the file of a link open to write, until ``noteClosed(_:by:)``.
    package func noteWriter(of id: VersionID, _ name: String, by number: UInt64) {
        writers.insert(name, of: id, by: number)
    }

    package func noteClosed(_ id: VersionID, by number: UInt64) {
        // From now on it has the length that it has.
        if writers.remove(id, by: number) { files?.measure(id) }
    }

    /// The programs that have the file of a link open to write, each once, in the order of their names.
    package func writers(of id: VersionID) -> [String] { writers.names(of: id) }

    /// Whether a file holds what is kept under an ID, byte by byte. What cannot be compared is taken to be different.
    package func holds(_ id: VersionID, _ file: borrowing OwnedDescriptor) -> Bool {
        do throws(StoreError) { return try requireFiles().holds(id, file) } catch { return false }
    }

    /// The last chance of lines that had no room: without them, the next opening finds the contents and not whose they were.
    package func writePendingLines() { files?.writePendingLines() }

    /// What is kept of a path and everything below it, oldest first; of everything for an empty path. `alias` says which other
    /// paths are the same document.
    package func list(
        under path: [UInt8], orCalled alias: ([UInt8]) -> Bool = { _ in false }
    ) throws(StoreError) -> [VersionRecord] {
        guard let files else { return [] }
        let folder = path + [UInt8(ascii: "/")]
        return try files.entries {
            path.isEmpty || $0.path == path || $0.path.starts(with: folder) || alias($0.path)
        }
    }

    /// Whether a file is one of those that hold what is kept.
    package func holds(_ status: FileStatus) throws(StoreError) -> Bool {
        try files?.hold(status) ?? false
    }

    package func entry(_ id: VersionID) throws(StoreError) -> VersionRecord { try find(id).entry }

    /// What was kept under an ID, also if that was let go of because another file holds all of it.
    ///
    /// Whether somebody may see it is `VersionRecord.mayBeRead`'s to say.
    package func find(_ id: VersionID) throws(StoreError) -> VersionLocation {
        guard let contents = try requireFiles().find(id) else { throw .noSuchEntry }
        return contents
    }

    /// Opens kept contents for reading; no more of the file is theirs than ``VersionLocation/end``.
    ///
    /// They may have gone on to another holder since they were found, and are found there.
    package func open(_ contents: inout VersionLocation) throws(StoreError) -> OwnedDescriptor {
        while true {
            do throws(StoreError) {
                return try requireFiles().open(contents.holder)
            } catch {
                guard error == .noSuchEntry else { throw error }
                let found = try find(contents.entry.id)
                // Each is a later one, so this ends.
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

/// How a store is run.
struct StoreSettings: Sendable {
    let limits: StoreLimits
    let clock: @Sendable () -> Int64
    let steadyClock: @Sendable () -> Int64
    let log: @Sendable (String) -> Void
    let synchronize: Synchronisation
    let leastCompactedLines: Int
    let leastCompactedBytes: Int
}
