// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import Glibc
import LinuxSystem
import VersionStore

/// Offers the conflict copies of tools that synchronise files as conflicts of their documents (D249).
///
/// The contents of a conflict copy become a version of the document, and the conflict copy stays where it is. The offer ends
/// when the version is resolved, or when the conflict copy is removed or gets another name. The version stays then as well, but
/// is resolved.
final class ConflictCopies: Sendable {
    private let context: MountContext
    private let engine: Engine

    /// The pauses before the document is looked for again, in nanoseconds. A tool may give the document's name to the other
    /// contents only after it has made the conflict copy.
    private static let pauses: [UInt64] = [100_000_000, 1_000_000_000, 5_000_000_000, 30_000_000_000]

    /// How long a change around the mount rests before the file is read. The program may still write the file.
    private static let rest: UInt64 = 500_000_000

    init(_ context: MountContext) {
        self.context = context
        engine = context.engine
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

    /// Notes that a closed handle has possibly changed its file.
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
            guard let store = context.store, !context.hasEnded, let status = copy.status,
                status.isRegularFile
            else { return }
            if copy.hasDocument { return offer(copy, in: store) }
            guard attempt < Self.pauses.count else { return }
            look(at: copy, after: Self.pauses[attempt], attempt: attempt + 1)
        }
    }

    /// Makes the contents of a conflict copy a version of its document, unless they are one already.
    private func offer(_ copy: ConflictCopy, in store: VersionStore) {
        do throws(StoreError) {
            let file = try copy.open()
            let former = copy.versions(in: store)
            guard !former.contains(where: { store.holds($0.id, file) }) else { return }
            let id = try preserve(file, of: copy, in: store)
            engine.counters.preserved.count()
            engine.journal.note(.preserved, at: Engine.now, by: nil, "\(id)")
            engine.logAction(
                "has a conflict copy of \(copy.meaning.tool.rawValue), '\(copy.name)', which is preserved as \(id)",
                copy.attribution)
            for version in former where version.standing == .conflict { end(version, of: copy, in: store) }
            // The conflict copy may have been removed before the version was in the store.
            guard copy.status == nil, let offer = store.record(of: id) else { return }
            end(offer, of: copy, in: store)
        } catch {
            engine.logAction(
                "has a conflict copy, '\(copy.name)', which could not be preserved (\(error))",
                copy.attribution)
        }
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
            engine.logAction(
                "has a conflict, \(offer.id), that could not be resolved (\(error))", copy.attribution)
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

    var attribution: Attribution { Attribution { document } }

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
