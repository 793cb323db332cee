// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import VersionStore

/// Preserves contents in the store before a step that would destroy them. All methods may block: call them on workers.
final class ContentPreserver: Sendable {
    let store: VersionStore?
    let engine: Engine
    /// How often a file is copied again because a program has written to it during the copy.
    private static let mostCopies = 3

    init(_ context: MountContext) {
        store = context.store
        engine = context.engine
    }

    /// Returns whether the store has the file as a version. Blocks, and returns true if that cannot be found out.
    func has(_ status: FileStatus) -> Bool {
        guard let store else { return false }
        do throws(StoreError) { return try store.holds(status) } catch { return true }
    }

    /// Preserves the contents of a file before a step that truncates or overwrites the file while another program has a
    /// claim.
    ///
    /// Throws if the contents cannot be preserved. The step must not be taken then. Nothing is preserved of an empty
    /// file.
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
        // An old version may be evicted at any moment. So the contents are preserved again, which adds a directory entry
        // (D213).
        if let id = last, countsOn(id, of: node, from: origin, for: writers) {
            let attribution = subject?.attribution ?? Attribution { node.path }
            engine.logAction(
                "endangered contents that are already preserved as \(id) (\(cause.rawValue))", attribution)
            return id
        }
        let closed = Self.closedDirectories(above: node)
        // If a presenter refused or did not answer, the version must have the contents of this moment. So it must not be
        // a version that grows with the file.
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

    /// Preserves the contents of a file before `step`, which truncates the file or lets a program continue that will
    /// truncate it.
    ///
    /// Preempted writers may go on writing until the contents are on the disk. What they write is copied again before
    /// `step`. This second copy reaches the disk soon after `step`.
    func preserveContents(
        of node: Node, because cause: PreservationCause, by subject: (any JournalSubject)?,
        doubting isTimeRacy: (FileStatus) -> Bool, before step: () -> Void
    ) throws(StoreError) {
        let descriptor = try Self.descriptor(of: node)
        let status = try Self.status(of: descriptor)
        let seen = CopyBaseline(stamp: Stamp(status), isDoubtful: isTimeRacy(status))
        let first = try preserve(node, because: cause, by: subject)
        guard let store else { return step() }
        // The writers are determined before the step. After it the subject may have closed its handle, so that its claim
        // is gone.
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

    /// The state of a file before the file was copied.
    private struct CopyBaseline {
        let stamp: Stamp
        /// Whether the file may have changed since without a new time, because its last change was too recent.
        let isDoubtful: Bool
    }

    /// Copies a file, if it may have changed since `seen`. Repeats this up to three times, and does not wait for the
    /// disk.
    ///
    /// If only the resolution of the file's times is in doubt, the file may still equal the `former` version. It is not
    /// copied then.
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

    /// Drops each copy of a growing file if a later copy of the file has the same contents at its beginning. The handle's
    /// program must no longer wait when this is called.
    func letGoOfGrown(by handle: Handle) {
        guard handle.onlyAppends, let store else { return }
        for id in store.letGoOfGrown() { engine.journal.note(.dropped, at: Engine.now, by: handle, "\(id)") }
    }

    /// Preserves the contents that a program leaves in a file while a suspended writer may still write to the file.
    ///
    /// The program cannot be refused anything any more, so a failure is only logged. If the contents equal the subject's
    /// `former` version, they are not preserved again. Returns the version.
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

    /// Returns whether a file has the same bytes as a version.
    private func holds(_ node: Node, _ version: VersionID) throws(StoreError) -> Bool {
        guard let store else { return false }
        return try store.holds(version, Self.descriptor(of: node).descriptor)
    }

    /// Preserves what a handle wrote to its file, if the file was replaced or deleted before the open was granted.
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

    /// Preserves a file that is about to lose a name while other programs have it open to write. Their later writes are
    /// preserved with the file.
    ///
    /// A failure is logged and does not stop the step.
    ///
    /// `strangers`: the handles of other programs that may write to the file.
    ///
    /// `relatives`: the handles of the subject's own programs that may write to the file.
    ///
    /// `mustStay`: whether the version stays even if none of these handles writes.
    func preserveFile(
        _ node: Node, for strangers: [Handle], and relatives: [Handle] = [], mustStay: Bool,
        because cause: PreservationCause, by subject: any JournalSubject
    ) {
        let writers = strangers + relatives
        do throws(StoreError) {
            guard let store else { throw StoreError.readOnly }
            let descriptor = try Self.descriptor(of: node)
            // The store's hard link would change with writes under another name of the file. So a copy is made. If the
            // copy fails, a hard link is better than no version.
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

    /// Preserves a document that a save renames and later removes.
    ///
    /// The document is copied. A hard link would change with writes to the document under its new name.
    func preserveSetAside(_ node: Node, because cause: PreservationCause, by subject: any JournalSubject) {
        do throws(StoreError) {
            try preserveContents(of: node, because: cause, by: subject)
        } catch {
            engine.logAction(
                "renamed a file that is preserved only by a link (\(error))", subject.attribution)
            preserveFile(node, for: [], mustStay: true, because: cause, by: subject)
        }
    }

    /// Copies the present contents of a file instead of linking the file. Later, at the close of each writer, copies the
    /// contents that the writer leaves.
    private func preserveCopies(
        of node: Node, for writers: [Handle], because cause: PreservationCause, by subject: any JournalSubject
    ) throws(StoreError) {
        // The writers are marked before the copy. The contents of a writer that has closed the file by then are in the
        // copy.
        for writer in writers { writer.becomeOrphanWriter() }
        try preserveContents(of: node, because: cause, by: subject)
    }

    /// Removes a closing handle from the writers of the store's hard links to its file. A link is dropped if none of its
    /// writers has written.
    func releaseFiles(of handle: Handle) {
        // For a writer of a file that was never a document, only writes after the file was preserved count.
        releaseFiles(of: handle, hasWritten: handle.isMeasured ? handle.mayHaveWritten : nil)
    }

    /// Removes a handle from the writers of the store's hard links to its file.
    ///
    /// `hasWritten`: whether the handle has written; nil if the file's stamp shows it.
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

    /// Notes that a writer has the file of one of the store's hard links open, until the writer closes the file.
    private func noteWriter(_ writer: Handle, of file: LinkedVersion) {
        writer.add(file)
        store?.noteWriter(of: file.id, Engine.name(of: writer.attribution), by: writer.id.rawValue)
    }

    /// Adds a writer that opens a file to the writers of the store's hard links to the file.
    ///
    /// Returns false if such a link has no writers any more. The link must then be replaced by a copy before the file is
    /// opened.
    func join(_ writer: Handle) -> Bool {
        let known = writer.linkedVersions
        for file in writer.node.linkedVersions
        where !known.contains(where: { $0 === file }) {
            guard file.join() else { return false }
            noteWriter(writer, of: file)
        }
        return true
    }

    /// Removes a handle from the writers of the store's hard links, because the handle was not opened in the end.
    func releaseFiles(ofUnopened handle: Handle) { releaseFiles(of: handle, hasWritten: false) }

    /// Replaces the store's hard links to a file by copies, so that later writes to the file do not change the versions.
    ///
    /// If this throws, no program may write to the file.
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
                // The error would come again each time, and a program must not be refused its file for ever.
                guard error.isForGood else { throw error }
                node.remove(file)
            }
        }
    }

    private func detach(_ id: VersionID) throws(StoreError) {
        do throws(StoreError) {
            try store?.detach(id)
        } catch {
            // The version was dropped meanwhile, so no write can change it.
            guard error == .noSuchEntry else { throw error }
        }
    }

    /// Writes the lines of the store's log that are still missing. Call this after the last version was preserved.
    func settle() { store?.writePendingLines() }

    func prune() { store?.prune() }

    func note(_ id: VersionID, _ cause: PreservationCause, of node: Node, by subject: (any JournalSubject)?) {
        engine.counters.preserved.count()
        engine.journal.note(.preserved, at: Engine.now, by: subject, "\(id)")
        let attribution = subject?.attribution ?? Attribution { node.path }
        engine.logAction("endangered contents that are preserved as \(id) (\(cause.rawValue))", attribution)
    }

    /// Returns the rights of those directories above a file that some users may not enter.
    ///
    /// A version of the file is shown only to users that could enter these directories at this moment, even if the
    /// directories move later. Only root's daemon has other users.
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
        // The daemon knows the file only by its file handle, so it does not know its directories (D130). Only the owner
        // may see the version.
        let owner = node.presentStatus?.user ?? 0
        return [FileRights(user: owner, group: 0, mode: 0o100, accessControlList: nil)]
    }

    /// Returns the rights of a directory. If they cannot be read, the result lets only root see the versions.
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

    /// Returns the stamp of a file that was changed `age` nanoseconds ago, if each later change will alter the stamp.
    /// Otherwise returns nil.
    static func settledStamp(_ stamp: Stamp, age: Int64, granularity: Int64) -> Stamp? {
        age >= granularity ? stamp : nil
    }

    /// Returns the time since the last change of a file, in nanoseconds.
    private static func age(of status: FileStatus) -> Int64 {
        let modified = status.modified.seconds &* 1_000_000_000 &+ Int64(status.modified.nanoseconds)
        return WallClock.nanoseconds() &- modified
    }

    static func status(of descriptor: SharedDescriptor) throws(StoreError) -> FileStatus {
        do throws(Errno) { return try descriptor.descriptor.status() } catch { throw .io(error) }
    }
}

extension JournalSubject {
    /// The user of the program that takes the step. Nil for the daemon's own steps, or if the user is unknown.
    var requester: UInt32? {
        switch self {
        case let handle as Handle: handle.user
        case let subject as any PreservationSubject: subject.user
        default: attribution.user
        }
    }
}

extension Grant {
    /// The reason for which contents are preserved that the granted step endangers.
    var preservationCause: PreservationCause { unanswered.isEmpty ? .claim : .presenter }
}

extension StoreError {
    /// Whether another attempt would fail in the same way.
    fileprivate var isForGood: Bool {
        switch self {
        case .tooLarge, .readOnly, .noRight, .noSuchEntry, .notAFile: true
        case .noSpace, .overLimit, .foreign, .inUse, .io: false
        }
    }

    /// Whether only the hard link fails, so that the file may still be copied:
    /// - The file is on another file system than the store, or in another part of it.
    /// - The file has as many links as its file system allows.
    /// - The file system allows only one link.
    fileprivate var isAboutLinks: Bool {
        switch self {
        case .noRight: true
        case .io(let error): [EXDEV, EMLINK, EOPNOTSUPP].contains(error.rawValue)
        default: false
        }
    }
}

/// A request with a step that would destroy contents, with the request's claim and user.
protocol PreservationSubject: JournalSubject {
    var claim: ClaimID { get }
    var user: UInt32? { get }
}
