// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import VersionStore

/// Preserves contents before a step that would lose them. All methods may block: call them on workers.
final class ContentPreserver: Sendable {
    let store: VersionStore?
    let engine: Engine
    /// How often a copy is repeated while a program goes on writing.
    private static let mostCopies = 3

    init(_ context: MountContext) {
        store = context.store
        engine = context.engine
    }

    /// Whether the store holds a file as a version. Blocks, and returns true if it cannot be known.
    func has(_ status: FileStatus) -> Bool {
        guard let store else { return false }
        do throws(StoreError) { return try store.holds(status) } catch { return true }
    }

    /// Preserves the contents of a file before it is truncated or overwritten while another program has a claim.
    ///
    /// Throws if they cannot be preserved; the step must not be taken then. An empty file has no contents.
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
        // An old version may be evicted at any moment. The contents are preserved again, which costs a name (D213).
        if let id = last, countsOn(id, of: node, from: origin, for: writers) {
            let attribution = subject?.attribution ?? Attribution { node.path }
            engine.logAction(
                "endangered contents that are already preserved as \(id) (\(cause.rawValue))", attribution)
            return id
        }
        let closed = Self.closedDirectories(above: node)
        // For a presenter that refused or did not answer, the version must have the contents of now. A version that grows with
        // the file does not.
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

    /// Does the same before `step`, which cuts the file or lets a program continue that will.
    ///
    /// Preempted writers may write more until the contents are on the disk. Such writes are copied again, and are on
    /// the disk soon after the step.
    func preserveContents(
        of node: Node, because cause: PreservationCause, by subject: (any JournalSubject)?,
        doubting isTimeRacy: (FileStatus) -> Bool, before step: () -> Void
    ) throws(StoreError) {
        let descriptor = try Self.descriptor(of: node)
        let status = try Self.status(of: descriptor)
        let seen = CopyBaseline(stamp: Stamp(status), isDoubtful: isTimeRacy(status))
        let first = try preserve(node, because: cause, by: subject)
        guard let store else { return step() }
        // After the step the subject may have closed, and its claim no longer has these writers beside it.
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
                "overwrote the latest changes, which are not preserved (\(error))", Attribution { node.path })
        }
    }

    /// The state of a file before it was copied.
    private struct CopyBaseline {
        let stamp: Stamp
        /// The file may have changed since without a new time, because the time was too recent.
        let isDoubtful: Bool
    }

    /// Copies a file without waiting for the disk, if it may have changed since `seen`. Repeats this up to three times.
    ///
    /// Where only the clock was in doubt, the file may still equal the `former` version; then it is not copied.
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

    /// The handle's program has gone on, so copies can be released that a later copy holds completely.
    func letGoOfGrown(by handle: Handle) {
        guard handle.onlyAppends, let store else { return }
        for id in store.letGoOfGrown() { engine.journal.note(.dropped, at: Engine.now, by: handle, "\(id)") }
    }

    /// Preserves the contents that a subject leaves while a suspended writer may still write to the file.
    ///
    /// Nothing can be refused any more, so a failure is logged. Contents equal to the subject's `former` version are
    /// not preserved again. Returns the version.
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
            engine.logAction("left contents that could not be preserved (\(error))", attribution)
            return nil
        }
    }

    /// Whether a file holds the same bytes as a version.
    private func holds(_ node: Node, _ version: VersionID) throws(StoreError) -> Bool {
        guard let store else { return false }
        return try store.holds(version, Self.descriptor(of: node).descriptor)
    }

    /// Preserves the writes of a handle to a file that was replaced or deleted before it could be opened.
    func preserveOrphanWrites(by handle: Handle) {
        guard handle.mayHaveWritten else { return }
        do throws(StoreError) {
            try preserveContents(of: handle.node, because: .orphan, by: handle)
        } catch {
            engine.logAction(
                "wrote to a replaced file, whose contents could not be preserved (\(error))",
                handle.attribution)
        }
    }

    /// Preserves a file that is about to lose a name while others write to it; their later writes are preserved with
    /// it.
    ///
    /// If it `mustStay`, it is preserved whether or not they write. A failure is logged and does not stop the step.
    /// `relatives` of the subject may write to it as well.
    func preserveFile(
        _ node: Node, for strangers: [Handle], and relatives: [Handle] = [], mustStay: Bool,
        because cause: PreservationCause, by subject: any JournalSubject
    ) {
        let writers = strangers + relatives
        do throws(StoreError) {
            guard let store else { throw StoreError.readOnly }
            let descriptor = try Self.descriptor(of: node)
            // Writes under its other name would change the link in the store as well, but a link is better than
            // nothing.
            let linkCount = mustStay ? try Self.status(of: descriptor).linkCount : 0
            if mustStay, !relatives.isEmpty || linkCount > 1 {
                do throws(StoreError) {
                    return try preserveCopies(of: node, for: strangers, because: cause, by: subject)
                } catch {
                    engine.logAction(
                        "replaced or removed a file that is preserved only by a link (\(error))",
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
            node.add(file)
            for writer in writers { noteWriter(writer, of: file) }
        } catch {
            engine.logAction(
                "replaced or removed a file that could not be preserved (\(error))", subject.attribution)
        }
    }

    /// Preserves a document that a save puts aside and later removes. It is copied, because until then it has a name,
    /// and a link would change with writes there.
    func preserveSetAside(_ node: Node, because cause: PreservationCause, by subject: any JournalSubject) {
        do throws(StoreError) {
            try preserveContents(of: node, because: cause, by: subject)
        } catch {
            engine.logAction(
                "renamed a file that is preserved only by a link (\(error))", subject.attribution)
            preserveFile(node, for: [], mustStay: true, because: cause, by: subject)
        }
    }

    /// Copies the present contents where the store cannot link, and later the contents that each of the writers leaves.
    private func preserveCopies(
        of node: Node, for writers: [Handle], because cause: PreservationCause, by subject: any JournalSubject
    ) throws(StoreError) {
        // Mark the writers first: those that have closed the file by now left the contents that are copied.
        for writer in writers { writer.becomeOrphanWriter() }
        try preserveContents(of: node, because: cause, by: subject)
    }

    /// Releases the links of a handle that closes: a file to which none of its writers has written need not be
    /// preserved.
    func releaseFiles(of handle: Handle) {
        // For a writer to a file that was never a document, only writes after the file was preserved count.
        releaseFiles(of: handle, hasWritten: handle.isMeasured ? handle.mayHaveWritten : nil)
    }

    /// `hasWritten`: nil if the file tells whether the handle has written.
    private func releaseFiles(of handle: Handle, hasWritten: Bool?) {
        let files = handle.takeLinkedVersions()
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
        handle.node.remove(file)
        do throws(StoreError) {
            try store?.drop(file.id, reason: "nothing was written to it")
            engine.journal.note(.dropped, at: Engine.now, by: handle, "\(file.id)")
        } catch {
            engine.logAction(
                "has a version that is not needed and could not be removed (\(error))", handle.attribution)
        }
    }

    /// Notes a writer that has the file of a link open, until it closes it.
    private func noteWriter(_ writer: Handle, of file: LinkedVersion) {
        writer.add(file)
        store?.noteWriter(of: file.id, Engine.name(of: writer.attribution), by: writer.id.rawValue)
    }

    /// Adds a writer that opens a file. Returns false if the store has a link to the file that has no writers any more:
    /// that link needs contents of its own first.
    func join(_ writer: Handle) -> Bool {
        let known = writer.linkedVersions
        for file in writer.node.linkedVersions
        where !known.contains(where: { $0 === file }) {
            guard file.join() else { return false }
            noteWriter(writer, of: file)
        }
        return true
    }

    /// Releases the links of a writer that did not become open.
    func releaseFiles(ofUnopened handle: Handle) { releaseFiles(of: handle, hasWritten: false) }

    /// Gives links contents of their own, so that later writes to the file do not change the versions. If that fails,
    /// the file must not be written to.
    func detachLinks(of node: Node) throws(StoreError) {
        for file in node.linksWithoutWriters {
            do throws(StoreError) {
                try file.detach { () throws(StoreError) in try detach(file.id) }
                node.remove(file)
            } catch {
                let attribution = Attribution { node.path }
                engine.logAction(
                    "is preserved as \(file.id) by a link without contents of its own (\(error))", attribution
                )
                // This will not change, and no program is refused its file for ever.
                guard error.isForGood else { throw error }
                node.remove(file)
            }
        }
    }

    private func detach(_ id: VersionID) throws(StoreError) {
        do throws(StoreError) {
            try store?.detach(id)
        } catch {
            // The version was dropped meanwhile, so nothing can change it.
            guard error == .noSuchEntry else { throw error }
        }
    }

    /// Writes the pending lines of the store, after the last version.
    func settle() { store?.writePendingLines() }

    func prune() { store?.prune() }

    func note(_ id: VersionID, _ cause: PreservationCause, of node: Node, by subject: (any JournalSubject)?) {
        engine.counters.preserved.count()
        engine.journal.note(.preserved, at: Engine.now, by: subject, "\(id)")
        let attribution = subject?.attribution ?? Attribution { node.path }
        engine.logAction("endangered contents that are preserved as \(id) (\(cause.rawValue))", attribution)
    }

    /// The rights of the directories above a file that some users may not enter.
    ///
    /// Versions from there are shown only to users that could enter them at that moment, wherever the directories are
    /// later. Only root's daemon has other users.
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
        // The file is known by its handle alone, so its directories are unknown (D130).
        let owner = node.presentStatus?.user ?? 0
        return [FileRights(user: owner, group: 0, mode: 0o100, accessControlList: nil)]
    }

    /// If a directory cannot be observed, only root may see its versions.
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

    /// The stamp of a file that was changed `age` nanoseconds ago, if the stamp tells each later change.
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
    /// The user that took the step. Nil for the daemon's own steps, or if the user is unknown.
    var requester: UInt32? {
        switch self {
        case let handle as Handle: handle.user
        case let subject as any PreservationSubject: subject.user
        default: attribution.user
        }
    }
}

extension Grant {
    /// The reason why contents are preserved that a granted step endangers.
    var preservationCause: PreservationCause { unanswered.isEmpty ? .claim : .presenter }
}

extension StoreError {
    /// Whether another attempt would fail again.
    fileprivate var isForGood: Bool {
        switch self {
        case .tooLarge, .readOnly, .noRight, .noSuchEntry, .notAFile: true
        case .noSpace, .overLimit, .foreign, .inUse, .io: false
        }
    }

    /// Whether only the link fails, and the file itself may be read:
    /// - It lies on another file system than the store, or in another part of it.
    /// - It has as many links as it can have.
    /// - It can have one link only.
    fileprivate var isAboutLinks: Bool {
        switch self {
        case .noRight: true
        case .io(let error): [EXDEV, EMLINK, EOPNOTSUPP].contains(error.rawValue)
        default: false
        }
    }
}

/// A request whose step would lose contents, with its claim and its user.
protocol PreservationSubject: JournalSubject {
    var claim: ClaimID { get }
    var user: UInt32? { get }
}
