// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization
import VersionStore

/// Keeps contents before a step that would lose them. Everything here may block: call it on workers.
final class ContentPreserver: Sendable {
    let store: VersionStore?
    let engine: Engine
    /// How often what somebody goes on writing is copied.
    private static let mostCopies = 3

    /// Whether the source holds the daemon's own directory.
    var hasStore: Bool { store.map { $0.absence == nil } ?? false }

    init(store: VersionStore?, engine: Engine) {
        self.store = store
        self.engine = engine
    }

    /// Whether the store has a file, as what it keeps. Blocks, and says yes if it cannot be known.
    func has(_ status: FileStatus) -> Bool {
        guard let store else { return false }
        do throws(StoreError) { return try store.holds(status) } catch { return true }
    }

    /// Keeps what a file holds now, before it is truncated or overwritten over somebody's claim.
    ///
    /// Throws if it cannot be kept; then the step must not be taken. An empty file holds nothing.
    func preserveContents(
        of node: Node, because cause: PreservationCause, by subject: (any JournalSubject)?
    ) throws(StoreError) {
        _ = try preserve(node, because: cause, by: subject)
    }

    private func preserve(
        _ node: Node, because cause: PreservationCause, by subject: (any JournalSubject)?,
        from origin: SuspendedWriterVersions.Origin = .writer
    ) throws(StoreError) -> VersionID? {
        let descriptor = try Self.descriptor(of: node)
        guard try Self.status(of: descriptor).size > 0 else { return nil }
        guard let store else { throw .readOnly }
        let writers = writers(beside: subject, because: cause)
        let last = try lastVersion(of: node, for: writers)
        // An old one may go at any moment. It is kept again, which costs a name (D213).
        if let id = last, countsOn(id, of: node, from: origin, for: writers) {
            let attribution = subject?.attribution ?? Attribution { node.path }
            engine.logAction(
                "went over contents that were kept as \(id) before (\(cause.rawValue))", attribution)
            return id
        }
        let closed = Self.closedDirectories(above: node)
        // Who refused or did not answer should find what there was then.
        let isGrown = cause != .presenter && (subject as? Handle)?.onlyAppends ?? false
        let id =
            isGrown
            ? try store.preserveGrown(
                descriptor.descriptor, path: node.path, cause: cause, closed: closed, by: subject?.requester)
            : try store.preserveByCopying(
                descriptor.descriptor, path: node.path, cause: cause, closed: closed, by: subject?.requester)
        note(id, cause, of: node, by: subject)
        if !isGrown { enter(id, of: node, insteadOf: last, from: origin, for: writers) }
        return id
    }

    /// The same before `step` cuts the file, or lets somebody go on who will. Until contents are on the disk those who were gone
    /// over may have written more, which is copied once again; that is on the disk soon after the step.
    func preserveContents(
        of node: Node, because cause: PreservationCause, by subject: (any JournalSubject)?,
        doubting isTimeRacy: (FileStatus) -> Bool, before step: () -> Void
    ) throws(StoreError) {
        let descriptor = try Self.descriptor(of: node)
        let status = try Self.status(of: descriptor)
        let seen = CopyBaseline(stamp: Stamp(status), isDoubtful: isTimeRacy(status))
        let first = try preserve(node, because: cause, by: subject)
        guard let store else { return step() }
        // After the step the subject may have closed, and its claim tells no more beside what it was.
        let writers = writers(beside: subject, because: cause)
        let request = PreservationRequest(
            path: node.path, cause: cause, closed: Self.closedDirectories(above: node),
            user: subject?.requester)
        var late = try Self.copy(
            descriptor, changedSince: seen, doubting: isTimeRacy, after: first, to: store, for: request)
        step()
        guard let copy = late.take() else { return }
        do throws(StoreError) {
            let id = try store.record(
                copy, path: request.path, cause: cause, closed: request.closed, by: request.user)
            note(id, cause, of: node, by: subject)
            enter(id, of: node, from: .writer, for: writers)
        } catch {
            engine.logAction(
                "went over what was written last and is not kept (\(error))", Attribution { node.path })
        }
    }

    /// What a file looked like before it was copied.
    private struct CopyBaseline {
        let stamp: Stamp
        /// It may have been changed since without its time telling: that was too near.
        let isDoubtful: Bool
    }

    /// Copies a file without waiting for the disk, if it is not as it was, or may not be; and again as long as that is so, three
    /// times at most. Where only the clock was in doubt, it still holds what the `former` version does.
    private static func copy(
        _ descriptor: SharedDescriptor, changedSince seen: CopyBaseline,
        doubting isTimeRacy: (FileStatus) -> Bool,
        after former: VersionID?, to store: VersionStore, for request: PreservationRequest
    ) throws(StoreError) -> UnfinishedCopy? {
        var seen = seen
        var late: UnfinishedCopy?
        do throws(StoreError) {
            for _ in 0..<mostCopies {
                let status = try status(of: descriptor)
                let now = CopyBaseline(stamp: Stamp(status), isDoubtful: isTimeRacy(status))
                let isSame = now.stamp.hasSameContents(as: seen.stamp) && !seen.isDoubtful
                guard status.size > 0, !isSame else { break }
                seen = now
                let isFormer = former.map { store.holds($0, descriptor.descriptor) } ?? false
                var copy: UnfinishedCopy?
                if !isFormer {
                    copy = try store.copyWithoutSync(descriptor.descriptor, for: request, need: .certain)
                }
                if let former = late.take() { store.discard(former) }
                late = copy.take()
            }
        } catch {
            if let former = late.take() { store.discard(former) }
            throw error
        }
        return late
    }

    /// Whoever it was kept for has gone on: copies go that a later one holds all of.
    func letGoOfGrown(by handle: Handle) {
        guard handle.onlyAppends, let store else { return }
        for id in store.letGoOfGrown() { engine.journal.note(.dropped, at: Engine.now, by: handle, "\(id)") }
    }

    /// Keeps what somebody leaves behind while a suspended handle may still write to the same file.
    ///
    /// Nothing can be refused any more: a failure is logged. What is the same as a version that was kept for the subject before is not
    /// kept again. Returns the version.
    @discardableResult
    func preserveBesideSuspendedWriter(
        in node: Node, by subject: (any JournalSubject)?, after former: VersionID? = nil,
        from origin: SuspendedWriterVersions.Origin = .others
    ) -> VersionID? {
        do throws(StoreError) {
            if let former, try holds(node, former) {
                let writers = writers(beside: subject, because: .suspendedWriter)
                if countsOn(former, of: node, from: origin, for: writers) { return former }
            }
            return try preserve(node, because: .suspendedWriter, by: subject, from: origin)
        } catch {
            let attribution = subject?.attribution ?? Attribution { node.path }
            engine.logAction("left contents that could not be kept (\(error))", attribution)
            return nil
        }
    }

    /// Whether a file holds what a version holds, byte by byte.
    private func holds(_ node: Node, _ version: VersionID) throws(StoreError) -> Bool {
        guard let store else { return false }
        return try store.holds(version, Self.descriptor(of: node).descriptor)
    }

    /// Keeps what a handle wrote to a file that was replaced or deleted before it could be opened.
    func preserveOrphanWrites(by handle: Handle) {
        guard handle.mayHaveWritten else { return }
        do throws(StoreError) {
            try preserveContents(of: handle.node, because: .orphan, by: handle)
        } catch {
            engine.logAction(
                "wrote to a file that was replaced, and it could not be kept (\(error))", handle.attribution)
        }
    }

    /// Keeps a file that is about to lose a name while others write to it: what they still write is
    /// kept with it. If it `mustStay`, it is kept whether or not they write anything. Not being able to is logged and does not
    /// stop the step.
    /// `relatives` of the subject may write to it as well.
    func preserveFile(
        _ node: Node, for strangers: [Handle], and relatives: [Handle] = [], mustStay: Bool,
        because cause: PreservationCause, by subject: any JournalSubject
    ) {
        let writers = strangers + relatives
        do throws(StoreError) {
            guard let store else { throw StoreError.readOnly }
            let descriptor = try Self.descriptor(of: node)
            // What is written under its other name would be written to a link here as well; but that is better than nothing.
            let linkCount = mustStay ? try Self.status(of: descriptor).linkCount : 0
            if mustStay, !relatives.isEmpty || linkCount > 1 {
                do throws(StoreError) {
                    return try preserveCopies(of: node, for: strangers, because: cause, by: subject)
                } catch {
                    engine.logAction(
                        "replaced or removed a file that is kept by a link only (\(error))",
                        subject.attribution)
                }
            }
            let id: VersionID
            do throws(StoreError) {
                id = try store.preserveByLinking(
                    descriptor.descriptor, path: node.path, cause: cause,
                    closed: Self.closedDirectories(above: node), by: subject.requester)
            } catch {
                guard error.isAboutLinks else { throw error }
                return try preserveCopies(of: node, for: strangers, because: cause, by: subject)
            }
            note(id, cause, of: node, by: subject)
            let stamp = Self.settledStamp(of: descriptor)
            let file = LinkedVersion(id, as: stamp, writers: writers.count, mustStay: mustStay)
            node.state.withLock { $0.linkedVersions.append(file) }
            for writer in writers { noteWriter(writer, of: file) }
        } catch {
            engine.logAction(
                "replaced or removed a file that could not be kept (\(error))", subject.attribution)
        }
    }

    /// Keeps what a document holds that a save puts aside before it makes a new one and takes this away. Until then it has a name, so
    /// that a link would show what is done to it there.
    func preserveSetAside(_ node: Node, because cause: PreservationCause, by subject: any JournalSubject) {
        do throws(StoreError) {
            try preserveContents(of: node, because: cause, by: subject)
        } catch {
            engine.logAction(
                "put contents aside that are kept by a link only (\(error))", subject.attribution)
            preserveFile(node, for: [], mustStay: true, because: cause, by: subject)
        }
    }

    /// Where nothing links to the store: what there is now, and again what each of the writers leaves.
    private func preserveCopies(
        of node: Node, for writers: [Handle], because cause: PreservationCause, by subject: any JournalSubject
    ) throws(StoreError) {
        // First: whoever has closed the file by now left what is copied.
        for writer in writers { writer.state.withLock { $0.writesToOrphan = true } }
        try preserveContents(of: node, because: cause, by: subject)
    }

    /// A handle closes: a file to which none of its writers has written need not be kept.
    func releaseFiles(of handle: Handle) {
        // Of who writes to what never was a document only that counts which is written after the file was kept.
        releaseFiles(of: handle, hasWritten: handle.isMeasured ? handle.mayHaveWritten : nil)
    }

    /// Nil: whether the handle has written is seen by the file.
    private func releaseFiles(of handle: Handle, hasWritten: Bool?) {
        let files = handle.state.withLock { state in
            defer { state.linkedVersions = [] }
            return state.linkedVersions
        }
        guard !files.isEmpty, let store else { return }
        let stamp = hasWritten == nil ? handle.node.presentStatus.map { Stamp($0) } : nil
        for file in files {
            store.noteClosed(file.id, by: handle.id.rawValue)
            switch file.closeWriter(hasWritten: hasWritten ?? file.hasChanged(to: stamp)) {
            case .otherWriters: break
            case .unneeded: drop(file, of: handle)
            case .unchanging: break
            }
        }
    }

    private func drop(_ file: LinkedVersion, of handle: Handle) {
        handle.node.state.withLock { state in state.linkedVersions.removeAll { $0 === file } }
        do throws(StoreError) {
            try store?.drop(file.id, reason: "nothing was written to it")
            engine.journal.note(.dropped, at: Engine.now, by: handle, "\(file.id)")
        } catch {
            engine.logAction("kept a file that need not be kept (\(error))", handle.attribution)
        }
    }

    /// A writer has the file of a link open, until it closes it.
    private func noteWriter(_ writer: Handle, of file: LinkedVersion) {
        writer.state.withLock { $0.linkedVersions.append(file) }
        store?.noteWriter(of: file.id, Engine.name(of: writer.attribution), by: writer.id.rawValue)
    }

    /// One more writer opens a file. Returns false if the store has a link to it that no writer has any more: that has to get
    /// contents of its own first.
    func join(_ writer: Handle) -> Bool {
        let known = writer.state.withLock { $0.linkedVersions }
        for file in writer.node.state.withLock({ $0.linkedVersions })
        where !known.contains(where: { $0 === file }) {
            guard file.join() else { return false }
            noteWriter(writer, of: file)
        }
        return true
    }

    /// A handle that was to write has not come to be open.
    func releaseFiles(ofUnopened handle: Handle) { releaseFiles(of: handle, hasWritten: false) }

    /// Gives links contents of their own, so that nothing that is written to the file from now on changes what is kept. If that is
    /// not possible, the file must not be written to.
    func detachLinks(of node: Node) throws(StoreError) {
        for file in node.linksWithoutWriters {
            do throws(StoreError) {
                try file.detach { () throws(StoreError) in try detach(file.id) }
                node.state.withLock { state in state.linkedVersions.removeAll { $0 === file } }
            } catch {
                let attribution = Attribution { node.path }
                engine.logAction(
                    "is kept as \(file.id) by a link that has no contents of its own (\(error))", attribution)
                // That will not change, and no program is to be kept from its file for ever.
                guard error.isForGood else { throw error }
                node.state.withLock { state in state.linkedVersions.removeAll { $0 === file } }
            }
        }
    }

    private func detach(_ id: VersionID) throws(StoreError) {
        do throws(StoreError) {
            try store?.detach(id)
        } catch {
            // It was let go of meanwhile: nothing can change it.
            guard error == .noSuchEntry else { throw error }
        }
    }

    /// Whatever was kept was the last.
    func settle() { store?.writePendingLines() }

    func prune() { store?.prune() }

    func note(_ id: VersionID, _ cause: PreservationCause, of node: Node, by subject: (any JournalSubject)?) {
        engine.counters.preserved.count()
        engine.journal.note(.preserved, at: Engine.now, by: subject, "\(id)")
        let attribution = subject?.attribution ?? Attribution { node.path }
        engine.logAction("went over contents that are kept as \(id) (\(cause.rawValue))", attribution)
    }

    /// The directories above a file that not everybody may enter: what lies there is told to those only who could enter them when it
    /// was kept, wherever they are by then. Nobody but root's daemon has others to tell.
    static func closedDirectories(above node: Node) -> [FileRights] {
        guard OwnProcess.user == 0 else { return [] }
        var closed: [FileRights] = []
        var directory = node.parent
        while let next = directory {
            let rights = rights(of: next)
            if !rights.isOpenToAll { closed.append(rights) }
            if next.isRoot { return closed }
            directory = next.parent
        }
        // Known by its handle alone: nobody knows in which directories it lies (D130).
        let owner = node.presentStatus?.user ?? 0
        return [FileRights(user: owner, group: 0, mode: 0o100, accessControlList: nil)]
    }

    /// Of what cannot be looked at, nobody but root knows anything.
    private static func rights(of directory: Node) -> FileRights {
        do throws(Errno) {
            return try FileRights(of: directory.descriptor().descriptor)
        } catch {
            return FileRights(user: 0, group: 0, mode: 0, accessControlList: nil)
        }
    }

    static func descriptor(of node: Node) throws(StoreError) -> SharedDescriptor {
        do throws(Errno) { return try node.descriptor() } catch { throw .io(error) }
    }

    private static func settledStamp(of descriptor: SharedDescriptor) -> Stamp? {
        do throws(StoreError) {
            let status = try status(of: descriptor)
            return settledStamp(
                Stamp(status), age: age(of: status), granularity: FileTimes.granularity(of: status))
        } catch {
            return nil
        }
    }

    /// The stamp of a file that was changed so many nanoseconds ago, if it tells each later change.
    static func settledStamp(_ stamp: Stamp, age: Int64, granularity: Int64) -> Stamp? {
        age >= granularity ? stamp : nil
    }

    /// For how long a file has not been changed, in nanoseconds.
    private static func age(of status: FileStatus) -> Int64 {
        let modified = status.modified.seconds &* 1_000_000_000 &+ Int64(status.modified.nanoseconds)
        return WallClock.nanoseconds() &- modified
    }

    static func status(of descriptor: SharedDescriptor) throws(StoreError) -> FileStatus {
        do throws(Errno) { return try descriptor.descriptor.status() } catch { throw .io(error) }
    }
}

extension JournalSubject {
    /// The user whose step contents are kept for. Nil for what the daemon does of itself, or if that is not known.
    var requester: UInt32? {
        switch self {
        case let handle as Handle: handle.user
        case let request as ClaimedRequest: request.user
        default: attribution.user
        }
    }
}

extension Grant {
    /// Why contents are kept that a granted step endangers.
    var preservationCause: PreservationCause { unanswered.isEmpty ? .claim : .presenter }
}

extension StoreError {
    /// Whether trying again comes to the same.
    fileprivate var isForGood: Bool {
        switch self {
        case .tooLarge, .readOnly, .noRight, .noSuchEntry, .notAFile: true
        case .noSpace, .overLimit, .foreign, .inUse, .io: false
        }
    }

    /// Whether the file itself may be read all the same: it lies on another file system than the store or in another part of
    /// it, has as many links as it can have, or can have one only.
    fileprivate var isAboutLinks: Bool {
        switch self {
        case .noRight: true
        case .io(let error): [EXDEV, EMLINK, EOPNOTSUPP].contains(error.rawValue)
        default: false
        }
    }
}
