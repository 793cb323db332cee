// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import Glibc
import LinuxSystem
import Synchronization
import VersionStore

/// Offers the conflict copies of tools that synchronise files as conflicts of their documents (D249).
///
/// The contents of a conflict copy become a version of the document, and the conflict copy stays where it is. The offer ends
/// when the version is resolved, or when the conflict copy is removed or gets another name. The version stays then as well, but
/// is resolved.
///
/// Only one thread at a time looks at a conflict copy. Two threads could read different contents, and neither would end the
/// offer of the other (D276).
///
/// **Lock rule.** The mutex covers the looks. Under it, no system call is made and no other mutex is taken.
final class ConflictCopies: Sendable {
    /// The state of a look at a conflict copy.
    private enum Look {
        /// This look is the last one.
        case last
        /// A further look is due after it.
        case again(attempt: Int)
    }

    private let context: MountContext
    private let engine: Engine
    private let nodes: NodeTable
    private let looks = Mutex<[EntryName: Look]>([:])

    /// The pauses before a further look, in nanoseconds. A tool may give the document's name to the other contents only after
    /// it has made the conflict copy. Or a program has the conflict copy open to write.
    private static let pauses: [UInt64] = [100_000_000, 1_000_000_000, 5_000_000_000, 30_000_000_000]

    /// How long a change around the mount rests before the file is read. The program may still write the file.
    private static let rest: UInt64 = 500_000_000
    /// The most claims on a conflict copy that are searched for writers.
    private static let mostClaimants = 256

    init(_ context: MountContext, _ tree: FileTree) {
        self.context = context
        engine = context.engine
        nodes = tree.nodes
    }

    /// Notes that a file has a name from now on, or has new contents under this name. Most names are no names of conflict
    /// copies; for these, nothing is done.
    func noteArrival(of name: NameBytes, in directory: Node, isOutOfBand: Bool = false) {
        guard let copy = ConflictCopy(name, directory) else { return }
        if isOutOfBand { look(at: copy, after: Self.rest, attempt: 0) } else { look(at: copy, attempt: 0) }
    }

    /// Notes that a rename has given a name a file, or has taken the file away.
    func noteChange(of name: NameBytes, in directory: Node) {
        guard let copy = ConflictCopy(name, directory) else { return }
        look(at: copy, attempt: 0)
        endIfGone(copy)
    }

    /// Notes that a closed handle has possibly changed its file. The handle's claim has ended.
    func noteArrival(ofFileOf handle: Handle) {
        let (name, parent, hasName) = handle.node.location
        if hasName, let parent { noteArrival(of: name, in: parent) }
    }

    /// Notes that a name has no file any more, or has another file.
    func noteDeparture(of name: NameBytes, in directory: Node) {
        if let copy = ConflictCopy(name, directory) { endIfGone(copy) }
    }

    private func endIfGone(_ copy: ConflictCopy) {
        context.work(on: copy.directory, for: .preserving) { [self] in
            guard let store = context.store, copy.status == nil else { return }
            for version in copy.versions(in: store) where version.standing == .conflict {
                end(version, of: copy, in: store)
            }
        }
    }

    private func look(at copy: ConflictCopy, after pause: UInt64, attempt: Int) {
        engine.timers.schedule(at: Engine.now.nanoseconds + pause) { [weak self] in
            self?.look(at: copy, attempt: attempt)
        }
    }

    private func look(at copy: ConflictCopy, attempt: Int) {
        context.work(on: copy.directory, for: .preserving) { [self] in
            guard begin(copy, attempt) else { return }
            var next: Int? = attempt
            while let attempt = next {
                inspect(copy, attempt)
                next = end(copy)
            }
        }
    }

    /// Begins a look. Returns false if another thread looks at the conflict copy just now. That thread then looks once more.
    private func begin(_ copy: ConflictCopy, _ attempt: Int) -> Bool {
        looks.withLock { looks in
            guard let look = looks[copy.entry] else {
                looks[copy.entry] = .last
                return true
            }
            looks[copy.entry] =
                switch look {
                case .last: .again(attempt: attempt)
                case .again(let other): .again(attempt: min(attempt, other))
                }
            return false
        }
    }

    /// Ends a look. Returns the attempt of the look that is due now; nil if none is due.
    private func end(_ copy: ConflictCopy) -> Int? {
        looks.withLock { looks in
            guard case .again(let attempt) = looks[copy.entry] else {
                looks[copy.entry] = nil
                return nil
            }
            looks[copy.entry] = .last
            return attempt
        }
    }

    private func inspect(_ copy: ConflictCopy, _ attempt: Int) {
        guard let store = context.store, !context.hasEnded, let status = copy.status,
            status.isRegularFile
        else { return }
        let isLast = attempt >= Self.pauses.count
        if copy.hasDocument, offer(copy, in: store, unlessWritten: isLast ? nil : status) { return }
        if !isLast { look(at: copy, after: Self.pauses[attempt], attempt: attempt + 1) }
    }

    /// Whether a program has the file open to write, or is just opening it.
    private func isBeingWritten(_ status: FileStatus) -> Bool {
        guard let node = nodes[FileKey(status)] else { return false }
        return engine.claimants(on: node.item, atMost: Self.mostClaimants).contains { claimant in
            guard let handle = claimant as? Handle, handle.mayWrite || handle.truncates else { return false }
            return engine.isGranted(handle.currentClaim)
        }
    }

    /// Makes the contents of a conflict copy a version of its document, unless its latest version has them already.
    ///
    /// Returns false if nothing was done, because a program is writing the file with this `status`. Then the contents may be
    /// incomplete. If `status` is nil, the contents are taken as they are.
    private func offer(_ copy: ConflictCopy, in store: VersionStore, unlessWritten status: FileStatus?)
        -> Bool
    {
        do throws(StoreError) {
            let file = try copy.open()
            let former = copy.versions(in: store)
            if let latest = former.last, store.holds(latest.id, file) { return true }
            // A writer that had already left has changed the file before the look, so its contents are complete.
            if let status, isBeingWritten(status) { return false }
            let id = try preserve(file, of: copy, in: store)
            engine.counters.preserved.count()
            engine.journal.note(.preserved, at: Engine.now, by: nil, "\(id)")
            engine.logDocument(
                copy.document,
                "has a conflict copy of \(copy.meaning.tool.rawValue), '\(copy.name)', which is preserved as \(id)"
            )
            for version in former where version.standing == .conflict { end(version, of: copy, in: store) }
            // The conflict copy may have been removed before the version was in the store.
            if copy.status == nil, let offer = store.record(of: id) { end(offer, of: copy, in: store) }
        } catch {
            engine.logDocument(
                copy.document, "has a conflict copy, '\(copy.name)', which could not be preserved (\(error))")
        }
        return true
    }

    private func preserve(
        _ file: borrowing OwnedDescriptor, of copy: ConflictCopy, in store: VersionStore
    ) throws(StoreError) -> VersionID {
        let request = PreservationRequest(
            path: copy.document, cause: .sync,
            closed: ContentPreserver.closedDirectories(from: copy.directory),
            provenance: Provenance(
                saver: VersionActor(program: copy.meaning.tool.rawValue), conflictCopy: copy.name.bytes))
        do throws(StoreError) {
            return try store.preserveByCopying(file, for: request)
        } catch {
            // A link needs no room, but a later change of the conflict copy changes the version too.
            guard case .tooLarge = error else { throw error }
            return try store.preserveByLinking(file, for: request)
        }
    }

    private func end(_ offer: VersionRecord, of copy: ConflictCopy, in store: VersionStore) {
        do throws(StoreError) {
            try store.resolve(offer.id)
        } catch {
            // The version was removed in the meantime.
            guard error != .noSuchEntry else { return }
            engine.logDocument(
                copy.document, "has a conflict, \(offer.id), that could not be resolved (\(error))")
        }
    }
}

/// A conflict copy in a directory.
private struct ConflictCopy: Sendable {
    let meaning: ConflictCopyName
    let name: NameBytes
    let directory: Node

    /// Returns nil if the name is not that of a conflict copy.
    init?(_ name: NameBytes, _ directory: Node) {
        guard let meaning = ConflictCopyName(name.bytes) else { return nil }
        (self.meaning, self.name, self.directory) = (meaning, name, directory)
    }

    /// The path of the document, from the source's root.
    var document: [UInt8] {
        let folder = directory.path
        return folder.isEmpty ? meaning.document : folder + [UInt8(ascii: "/")] + meaning.document
    }

    var entry: EntryName { EntryName(name, in: directory) }

    /// The status of the conflict copy; nil if there is no such file.
    var status: FileStatus? { Self.status(of: name, in: directory) }

    var hasDocument: Bool {
        Self.status(of: NameBytes(meaning.document), in: directory)?.isRegularFile ?? false
    }

    private static func status(of name: NameBytes, in directory: Node) -> FileStatus? {
        do throws(Errno) {
            let below = try directory.descriptor()
            return try name.withName { (name) throws(Errno) in try below.descriptor.status(of: name) }
        } catch {
            return nil
        }
    }

    func open() throws(StoreError) -> OwnedDescriptor {
        do throws(Errno) {
            let below = try directory.descriptor()
            return try name.withName { (name) throws(Errno) in try below.descriptor.path(of: name) }
        } catch {
            throw .io(error)
        }
    }

    /// The versions of this conflict copy, also those that are resolved.
    func versions(in store: VersionStore) -> [VersionRecord] {
        store.list(under: document).filter {
            $0.cause == .sync && $0.provenance?.conflictCopy == name.bytes
        }
    }
}
