// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import VersionStore

/// Preserves contents in the store before a step that would destroy them. All methods may block, so they are called on
/// workers.
final class ContentPreserver: Sendable {
    let store: VersionStore?
    let engine: Engine
    let context: MountContext
    /// How many times a file is copied, if programs write to it during each copy.
    private static let mostCopies = 3

    init(_ context: MountContext) {
        self.context = context
        store = context.store
        engine = context.engine
    }

    /// Returns whether the store has this file as a version. May block. Returns true if the store cannot be read.
    func has(_ status: FileStatus) -> Bool {
        guard let store else { return false }
        do throws(StoreError) { return try store.holds(status) } catch { return true }
    }

    /// Preserves the contents of a file before a step that truncates or overwrites the file, while another program has
    /// a claim.
    ///
    /// If this throws, the contents are not preserved, and the step must not be taken. An empty file is not preserved.
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
        // A version that is too old is not used here, because it may be evicted at any moment. The contents are then
        // preserved a second time (D213).
        if let id = last, countsOn(id, of: node, from: origin, for: writers) {
            let attribution = subject?.attribution ?? Attribution { node.path }
            engine.logAction(
                "endangered contents that are already preserved as \(id) (\(cause.rawValue))", attribution)
            return id
        }
        let closed = Self.closedDirectories(above: node)
        // A later version of a growing file replaces this version if the later version begins with this version's
        // contents. But if a presenter refused or was silent, the version with the contents of this moment must stay.
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
    /// Preempted writers can still write until the contents are on the disk. If they do, the file is copied a second
    /// time, just before `step`. The second copy is written to the disk after `step`.
    func preserveContents(
        of node: Node, because cause: PreservationCause, by subject: (any JournalSubject)?,
        doubting isTimeRacy: (FileStatus) -> Bool, before step: () -> Void
    ) throws(StoreError) {
        let descriptor = try Self.descriptor(of: node)
        let status = try Self.status(of: descriptor)
        let seen = CopyBaseline(stamp: Stamp(status), isDoubtful: isTimeRacy(status))
        let first = try preserve(node, because: cause, by: subject)
        guard let store else { return step() }
        // The list of writers depends on the subject's handle and claim. The step may close the handle and end the
        // claim, so the list is made before the step.
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
        /// Whether the file may have changed after `stamp` was read without getting a new time, because its last change
        /// was too recent.
        let isDoubtful: Bool
    }

    /// Copies a file if it may have changed since `seen`. Repeats this up to three times, if the file changes during
    /// the copy. Does not wait for the disk.
    ///
    /// The file's times may be too coarse to show a change. So the file is compared with the `former` version, and is
    /// not copied if they are equal.
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

    /// Drops each version of a growing file if a later version begins with the same contents. Call this only when the
    /// handle's program no longer waits.
    func letGoOfGrown(by handle: Handle) {
        guard handle.onlyAppends, let store else { return }
        for id in store.letGoOfGrown() { engine.journal.note(.dropped, at: Engine.now, by: handle, "\(id)") }
    }

    /// Preserves the contents that a program leaves in a file while a suspended writer may still write to the file.
    ///
    /// The program has already written, so an error is only logged. If the contents equal the `former` version, that
    /// version is used. Returns the version.
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

    /// Preserves the data that a handle wrote to its file, if the file was replaced or deleted before the handle's open
    /// was granted.
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

    /// Preserves a file that is about to lose a name while other programs have it open to write. Data that they write
    /// later are also preserved.
    ///
    /// A failure is logged and does not stop the step.
    ///
    /// `strangers`: the handles of other programs that may write to the file.
    ///
    /// `relatives`: the handles of the program that takes the step, or of its relatives, that may write to the file.
    ///
    /// `mustStay`: whether the version stays even if no writer writes to the file afterwards.
    func preserveFile(
        _ node: Node, for strangers: [Handle], and relatives: [Handle] = [], mustStay: Bool,
        because cause: PreservationCause, by subject: any JournalSubject
    ) {
        let writers = strangers + relatives
        do throws(StoreError) {
            guard let store else { throw StoreError.readOnly }
            let descriptor = try Self.descriptor(of: node)
            // A hard link in the store has no contents of its own: a write to the file changes the version. So the file
            // is copied. A hard link is made only if the copy fails.
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

    /// Preserves a document that a save renames, and that the save removes later.
    ///
    /// The document is copied. A hard link would not do: a write to the renamed document would change the version.
    func preserveSetAside(_ node: Node, because cause: PreservationCause, by subject: any JournalSubject) {
        do throws(StoreError) {
            try preserveContents(of: node, because: cause, by: subject)
        } catch {
            engine.logAction(
                "renamed a file that is preserved only by a link (\(error))", subject.attribution)
            preserveFile(node, for: [], mustStay: true, because: cause, by: subject)
        }
    }

    /// Copies the present contents of a file. Whenever one of these writers later closes the file, the contents at that
    /// time are copied as well.
    private func preserveCopies(
        of node: Node, for writers: [Handle], because cause: PreservationCause, by subject: any JournalSubject
    ) throws(StoreError) {
        // The writers are marked before the copy. If a writer closes the file before the copy, its data are in the
        // copy.
        for writer in writers { writer.becomeOrphanWriter() }
        try preserveContents(of: node, because: cause, by: subject)
    }

    /// Called when a handle is closed. Removes the handle from the writers of the hard links that the store has to its
    /// file. A link is dropped if none of its writers has written.
    func releaseFiles(of handle: Handle) {
        // For a file that was never a document, a write counts only if it came after the file was preserved. The file's
        // stamp shows this.
        releaseFiles(of: handle, hasWritten: handle.isMeasured ? handle.mayHaveWritten : nil)
    }

    /// Removes a handle from the writers of the hard links that the store has to its file.
    ///
    /// `hasWritten`: whether the handle has written. If it is nil, the file's stamp decides.
    private func releaseFiles(of handle: Handle, hasWritten: Bool?) {
        let files = handle.takeLinkedVersions()
        guard !files.isEmpty, let store else { return }
        let stamp = hasWritten == nil ? handle.node.presentStatus.map { Stamp($0) } : nil
        for file in files {
            store.noteClosed(file.id, by: handle.id.rawValue)
            switch file.closeWriter(hasWritten: hasWritten ?? file.hasChanged(to: stamp)) {
            case .otherWriters: break
            case .unneeded: drop(file, of: handle)
            case .unchanging: detachFromOtherNames(handle.node)
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

    /// Notes that a writer has a file open to which the store has a hard link. The note stays until the writer closes
    /// the file.
    private func noteWriter(_ writer: Handle, of file: LinkedVersion) {
        writer.add(file)
        store?.noteWriter(of: file.id, Engine.name(of: writer.attribution), by: writer.id.rawValue)
    }

    /// Called when a writer opens a file. Adds the writer to the hard links that the store has to the file.
    ///
    /// Returns false if such a link has no other writers. The link must then be replaced by a copy before the file is
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

    /// Called when an open has failed. Removes the handle from the writers of the store's hard links.
    func releaseFiles(ofUnopened handle: Handle) { releaseFiles(of: handle, hasWritten: false) }

    /// Replaces the store's hard links to a file by copies, because later writes to the file would change the versions.
    ///
    /// If this throws, no program may write to the file.
    func detachLinks(of node: Node) throws(StoreError) {
        for file in node.linksWithoutWriters {
            do throws(StoreError) {
                try file.detach { () throws(StoreError) in try detach(file.id) }
                node.remove(file)
            } catch {
                engine.logDocument(
                    node.path,
                    "is preserved as \(file.id) by a link without contents of its own (\(error))")
                // Each further attempt would fail with the same error, and the program could never open its file. So
                // the link stays, and the open succeeds.
                guard error.isForGood else { throw error }
                node.remove(file)
            }
        }
    }

    /// Replaces the store's hard links to a file by copies, if programs can still open the file by another name.
    ///
    /// The node of this file may be forgotten before a program opens it by that name, and the daemon may end. So the links are
    /// replaced as soon as their last writer has closed the file.
    private func detachFromOtherNames(_ node: Node) {
        guard let status = node.presentStatus, status.linkCount > node.linkedVersions.count else { return }
        // If an error is not for good, the next open of the file tries again.
        do throws(StoreError) { try detachLinks(of: node) } catch { return }
    }

    private func detach(_ id: VersionID) throws(StoreError) {
        do throws(StoreError) {
            try store?.detach(id)
        } catch {
            // The version was dropped in the meantime, so there is nothing to protect.
            guard error == .noSuchEntry else { throw error }
        }
    }

    /// Writes the lines of the store's log that are still missing. Call this after the last version was preserved.
    func settle() {
        store?.writePendingLines()
        store?.synchronizeDeferred()
    }

    /// Brings deferred versions to the disk.
    func synchronizeDeferred() { store?.synchronizeDeferred() }

    func prune() { store?.prune() }

    func note(_ id: VersionID, _ cause: PreservationCause, of node: Node, by subject: (any JournalSubject)?) {
        engine.counters.preserved.count()
        engine.journal.note(.preserved, at: Engine.now, by: subject, "\(id)")
        context.history.note(
            .preserved(id, cause), node, by: subject.flatMap(author), user: subject?.requester)
        let attribution = subject?.attribution ?? Attribution { node.path }
        engine.logAction("endangered contents that are preserved as \(id) (\(cause.rawValue))", attribution)
    }

    /// Returns the program that takes a step, for the history. It waits for the answer to its request, so it still exists.
    private func author(of subject: any JournalSubject) -> Author? {
        (subject as? Handle)?.author ?? context.processes.author(ofThread: subject.attribution.thread)
    }

    /// Returns the rights of the directories above a file, as far as some users may not enter them.
    ///
    /// A version of the file is shown only to users that could enter these directories when it was made. If the
    /// directories move later, the rights stay as they were. Only a daemon of root needs this, because only it has
    /// other users.
    static func closedDirectories(above node: Node) -> [FileRights] {
        closedDirectories(from: node.parent, to: node)
    }

    /// Returns the rights of a directory and of the directories above it, as far as some users may not enter them.
    static func closedDirectories(from directory: Node) -> [FileRights] {
        closedDirectories(from: directory, to: directory)
    }

    private static func closedDirectories(from lowest: Node?, to node: Node) -> [FileRights] {
        guard OwnProcess.user == 0 else { return [] }
        var closed: [FileRights] = []
        var directory = lowest
        while let next = directory {
            let rights = rights(of: next)
            if !rights.isOpenToAll { closed.append(rights) }
            if next.isRoot { return closed }
            directory = next.parent
        }
        // The daemon knows this file only by a file handle, so it does not know the directories (D130). So only the
        // file's owner may see the version.
        let owner = node.presentStatus?.user ?? 0
        return [FileRights(user: owner, group: 0, mode: 0o100, accessControlList: nil)]
    }

    /// Returns the rights of a directory. If they cannot be read, returns rights that let only root enter.
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

    /// Returns the stamp of a file if every later change will alter it. Returns nil if the last change, `age`
    /// nanoseconds ago, is too recent for that.
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
    /// The reason for which the contents are preserved before the granted step: a claim, or a presenter that did not
    /// answer.
    var preservationCause: PreservationCause { unanswered.isEmpty ? .claim : .presenter }
}

extension StoreError {
    /// Whether each further attempt would fail with the same error.
    fileprivate var isForGood: Bool {
        switch self {
        case .tooLarge, .readOnly, .noRight, .noSuchEntry, .notAFile: true
        case .noSpace, .overLimit, .foreign, .inUse, .io: false
        }
    }

    /// Whether only a hard link to the file is impossible, and a copy may succeed:
    /// - The file is on another file system than the store, or in another part of the same file system.
    /// - The file has as many links as its file system allows.
    /// - The file system allows only one link for each file.
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
