// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import History
import LinuxSystem
import TextMerge
import VersionStore

/// Preserves contents that a program is about to replace without having read them, although it has read older ones (D226).
///
/// 1. Before the step, ``review(_:)`` finds out what the program has read. If it has not read the present generation,
///    ``prepare(_:for:)`` preserves the contents as a suspected version.
/// 2. After the program's save, the contents are compared (D228). If the new contents have everything of the preserved ones, the
///    version is dropped. Otherwise it becomes a conflict, and the log says which program has saved over which.
final class UnseenOverwrites: Sendable {
    /// The size in bytes of the largest file that is compared line by line, and is noted as a base.
    static let mostCompared: UInt64 = 1 << 20
    /// The most claims on a file that are searched for programs that are just opening it.
    private static let mostClaimants = 256

    let sightings: Sightings
    let merges = PendingMerges()
    let context: MountContext
    private let engine: Engine
    private let processes: ProcessResolver
    let handles: HandleTable
    let nodes: NodeTable

    init(_ context: MountContext, _ tree: FileTree) {
        self.context = context
        sightings = Sightings(context, below: tree.nodes.root.key)
        engine = context.engine
        processes = context.processes
        (handles, nodes) = (tree.handles, tree.nodes)
    }

    // MARK: Before a step

    /// Called before a file is opened to write. Returns nil if nothing need be done before the open.
    func review(_ handle: Handle) -> ChangeReview? {
        guard let review = sightings.review(handle), !review.isHarmless,
            review.needsBase || mayOverwrite(handle)
        else {
            handle.setOverwrite(.reviewed)
            return nil
        }
        return review
    }

    /// Whether the program of a handle may overwrite contents, and does not order its accesses itself.
    private func mayOverwrite(_ handle: Handle) -> Bool { !handle.onlyAppends && !handle.locksFile }

    /// Prepares the open of a handle after its review. Returns false if the file must not be opened. May block.
    ///
    /// `isPreserved`: whether the contents are preserved in any case, for a program that has the file open (D222).
    func prepare(_ review: ChangeReview, for handle: Handle, isPreserved: Bool) -> Bool {
        noteBase(review)
        handle.setOverwrite(.reviewed)
        guard review.view.isUnseen, mayOverwrite(handle), !isPreserved || isRefused(review, handle.thread)
        else { return true }
        guard handle.mayReadAndWrite else { return preserve(review, for: handle) }
        if case .backing = review.node.dataRoute {
            // The kernel moves the file's data already, so the daemon does not see whether the program reads first.
            sightings.noteRead(by: handle)
        } else {
            handle.setOverwrite(.awaitingFirstAccess)
        }
        return true
    }

    /// Called before a handle changes the file, if the program has not read the file by the handle so far. Returns false if the
    /// file must not be changed. May block.
    func prepareWrite(by handle: Handle) -> Bool {
        guard handle.overwrite == .awaitingFirstAccess else { return true }
        handle.setOverwrite(.reviewed)
        guard mayOverwrite(handle) else { return true }
        let change = DocumentChange(node: handle.node, process: handle.process, handle: handle.id)
        guard let review = sightings.review(change), review.view.isUnseen else { return true }
        return preserve(review, for: handle)
    }

    private func preserve(_ review: ChangeReview, for handle: Handle) -> Bool {
        let node = review.node
        guard preserve(review, by: handle, thread: handle.thread, mayLink: false) else { return false }
        if isMerged(node, by: handle.thread), hasSuspicions(node) { merges.expect(node.id) }
        return true
    }

    /// Whether the changes of two programs to this file are merged.
    func isMerged(_ node: Node, by thread: Int32) -> Bool {
        context.policies.mergesSaves
            && context.policy(of: .unseen, forFileAt: node.path, usedBy: thread) == .merge
    }

    /// Whether requests must wait for merges.
    var mayMerge: Bool { context.policies.mergesSaves || merges.isUsed }

    /// Whether a save of the file is not compared yet.
    func hasSuspicions(_ node: Node) -> Bool {
        sightings.change(node) { document, _ in !document.suspicions.isEmpty } ?? false
    }

    /// Called when a file was not opened after ``prepare(_:for:)``. Nothing was overwritten by this open.
    func abandonOpen(of handle: Handle) {
        guard handle.mayWrite || handle.truncates, handle.isClaimed, handle.node.isRemembered else { return }
        dropSoon(sightings.noteUnopened(handle), of: handle.node)
        if merges.isPending(handle.node.id), !hasSuspicions(handle.node) { merges.cancel(handle.node.id) }
    }

    /// Called when a program reads by a handle. If it then writes by the same handle, it has seen the contents.
    func noteRead(by handle: Handle) {
        guard handle.overwrite == .awaitingFirstAccess else { return }
        handle.setOverwrite(.reviewed)
        sightings.noteRead(by: handle)
    }

    /// Called before a step by which a thread replaces or removes a file, or changes its size. Returns nil if no other program is
    /// concerned.
    func review(_ node: Node?, by thread: Int32) -> ChangeReview? {
        guard let node, concerns(node, by: thread) else { return nil }
        return sightings.review(
            DocumentChange(node: node, process: processes.process(ofOpener: thread)))
    }

    /// Whether a step of a thread that replaces or removes a file, or changes its size, may concern another program.
    func concerns(_ node: Node, by thread: Int32) -> Bool {
        thread > 0 && sightings.concerns(node) { processes.process(ofOpener: thread) }
            && node.needsClaim(flags: O_WRONLY | O_TRUNC)
    }

    /// Prepares a step after its review. Returns false if the step must not be taken. May block.
    ///
    /// `mayLink`: whether the file loses its name by the step, so that a link preserves it.
    ///
    /// `isPreserved`: whether the contents are preserved in any case, for a program that has the file open (D222).
    func prepare(
        _ review: ChangeReview, by subject: (any JournalSubject)?, thread: Int32, mayLink: Bool,
        isPreserved: Bool
    ) -> Bool {
        noteBase(review)
        guard review.view.isUnseen, !isPreserved || isRefused(review, thread) else { return true }
        return preserve(review, by: subject, thread: thread, mayLink: mayLink)
    }

    /// Whether the policy forbids the overwrite.
    private func isRefused(_ review: ChangeReview, _ thread: Int32) -> Bool {
        context.policy(of: .unseen, forFileAt: review.node.path, usedBy: thread) == .fail
    }

    private func noteBase(_ review: ChangeReview) {
        guard review.needsBase, let bytes = contents(of: review.node),
            let status = review.node.presentStatus
        else { return }
        // If a program has written since the review, these bytes are not those of the generation.
        let isDoubtful = context.isTimeRacy(status)
        sightings.change(review.node) { document, _ in
            guard document.generation == review.generation, document.stamp.hasSameContents(as: Stamp(status)),
                !isDoubtful || !document.hasWriters(besides: review.handle?.rawValue)
            else { return }
            document.noteBase(bytes)
        }
    }

    private func preserve(
        _ review: ChangeReview, by subject: (any JournalSubject)?, thread: Int32, mayLink: Bool
    ) -> Bool {
        let node = review.node
        let policy = context.policy(of: .unseen, forFileAt: node.path, usedBy: thread)
        guard policy != .off, let saver = review.opener?.anchor else { return true }
        if policy == .fail {
            engine.logAction(
                "was refused: it has not read the present contents", Attribution(of: saver, path: node.path))
            return false
        }
        do throws(StoreError) {
            guard let kept = try preserve(review, saver, subject?.requester, mayLink: mayLink) else {
                return true
            }
            engine.counters.suspected.count()
            let suspicion = Suspicion(
                kept, saver: saver, replaced: review.generation, base: review.base, written: review.written)
            sightings.change(node) { document, _ in document.suspicions.append(suspicion) }
            return true
        } catch {
            engine.logAction(
                "would replace contents that it has not read; they could not be preserved (\(error))",
                Attribution(of: saver, path: node.path))
            // A program that replaces a file by its name is not stopped, as for all other causes.
            return mayLink
        }
    }

    private func preserve(
        _ review: ChangeReview, _ saver: Anchor, _ user: UInt32?, mayLink: Bool
    ) throws(StoreError) -> VersionID? {
        let node = review.node
        let descriptor = try ContentPreserver.descriptor(of: node)
        let status = try ContentPreserver.status(of: descriptor)
        guard status.size > 0 else { return nil }
        guard let store = context.store else { throw .readOnly }
        let request = PreservationRequest(
            path: node.path, cause: .unseen, closed: ContentPreserver.closedDirectories(above: node),
            user: user, standing: .suspected, provenance: provenance(of: review, saver), durability: .deferred
        )
        if mayLink, status.linkCount == 1, handles.writers(on: node).isEmpty {
            do throws(StoreError) {
                let id = try store.preserveByLinking(descriptor.descriptor, for: request)
                let link = LinkedVersion(id, as: nil, writers: 0, mustStay: true)
                node.add(link)
                detachIfBeingOpened(link, to: node, in: store)
                return id
            } catch {
                // Perhaps only the link is impossible, for example on another file system.
                return try store.preserveByCopying(descriptor.descriptor, for: request)
            }
        }
        return try store.preserveByCopying(descriptor.descriptor, for: request)
    }

    /// Replaces a link by a copy if a program is just opening the file to write, because its writes would change the version.
    ///
    /// Such a program has looked for links before this one was added, and its handle is in no table yet. But its claim is
    /// granted.
    private func detachIfBeingOpened(_ link: LinkedVersion, to node: Node, in store: VersionStore) {
        let isWriter = { [engine] (claimant: any Claimant) in
            guard let handle = claimant as? Handle else { return false }
            return handle.node === node && (handle.mayWrite || handle.truncates)
                && engine.isGranted(handle.currentClaim)
        }
        let most = Self.mostClaimants
        let claimants = engine.claimants(on: node.item, atMost: most)
        guard claimants.count == most || claimants.contains(where: isWriter) else { return }
        do throws(StoreError) {
            try link.detach { () throws(StoreError) in try store.detach(link.id) }
            node.remove(link)
        } catch {
            engine.logDocument(
                node.path, "is preserved as \(link.id) by a link without contents of its own (\(error))")
        }
    }

    private func provenance(of review: ChangeReview, _ saver: Anchor) -> Provenance {
        var provenance = Provenance(
            author: review.author?.actor, saver: saver.actor,
            generation: sightings.outerForm(of: review.generation).description)
        if case .unseen(let seen) = review.view {
            provenance.readGeneration = sightings.outerForm(of: seen.number).description
            provenance.readTime = seen.time
        }
        return provenance
    }

    // MARK: After a step

    /// What the comparison needs of the contents after a save, read while no other program can change them.
    struct SavedContents: Sendable {
        /// The contents; nil if the file is too large.
        let bytes: [UInt8]?
        /// The versions that have the same contents, if the file is too large.
        let equal: Set<VersionID>
    }

    /// Reads the contents that a program has left. May block.
    func contents(of node: Node, for suspicions: [Suspicion]) -> SavedContents {
        if let bytes = contents(of: node) { return SavedContents(bytes: bytes, equal: []) }
        guard let store = context.store else { return SavedContents(bytes: nil, equal: []) }
        do throws(StoreError) {
            let descriptor = try ContentPreserver.descriptor(of: node)
            let equal = suspicions.map(\.version).filter { store.holds($0, descriptor.descriptor) }
            return SavedContents(bytes: nil, equal: Set(equal))
        } catch {
            return SavedContents(bytes: nil, equal: [])
        }
    }

    /// Compares the contents after a save with the replaced contents, and settles the versions. May block.
    func settle(_ suspicions: [Suspicion], by saved: SavedContents, at path: [UInt8]) {
        for suspicion in suspicions {
            settle(suspicion, as: isLoss(suspicion, by: saved) ? .conflict : .nothingLost, at: path)
        }
    }

    /// Makes conflicts of versions for which no comparison is possible any more. May block.
    func confirm(_ suspicions: [Suspicion], at path: [UInt8]) {
        for suspicion in suspicions { settle(suspicion, as: .conflict, at: path) }
    }

    /// Drops versions, because the step by which they would have been lost was not taken. May block.
    func drop(_ suspicions: [Suspicion]) {
        for suspicion in suspicions { settle(suspicion, as: .nothingLost, at: []) }
    }

    private func settle(_ suspicion: Suspicion, as verdict: Verdict, at path: [UInt8]) {
        guard let store = context.store else { return }
        let attribution = Attribution(of: suspicion.saver, path: path)
        do throws(StoreError) {
            guard try store.settle(suspicion.version, as: verdict) else { return }
            switch verdict {
            case .conflict:
                engine.counters.unseen.count()
                engine.counters.preserved.count()
                engine.journal.note(
                    .preserved, at: Engine.now, by: Saver(attribution), "\(suspicion.version)")
                engine.logAction(
                    "saved over contents that it had not read; they are preserved as \(suspicion.version) (unseen)",
                    attribution)
                if let version = store.record(of: suspicion.version) {
                    context.history.note(HistoryEvent(savedOver: version, at: path))
                }
            case .nothingLost: engine.counters.harmless.count()
            }
        } catch {
            // The version stays. After the next start of the daemon it is a conflict.
            engine.logAction("left the version \(suspicion.version) undecided (\(error))", attribution)
        }
    }

    private func isLoss(_ suspicion: Suspicion, by saved: SavedContents) -> Bool {
        guard let result = saved.bytes, let replaced = contents(of: suspicion.version) else {
            return !saved.equal.contains(suspicion.version)
        }
        return Loss.isLoss(of: replaced, from: suspicion.base, by: result)
    }

    /// Reads a file that is small enough to be compared. Returns nil if it is larger, or cannot be read.
    func contents(of node: Node) -> [UInt8]? {
        do throws(Errno) {
            let file = try node.descriptor()
            guard try file.descriptor.status().size <= Self.mostCompared else { return nil }
            return try file.descriptor.reopen(flags: O_RDONLY).contents(atMost: Int(Self.mostCompared))
        } catch {
            return nil
        }
    }

    func contents(of version: VersionID) -> [UInt8]? {
        guard let store = context.store else { return nil }
        do throws(StoreError) {
            var location = try store.find(version)
            guard location.entry.size <= Self.mostCompared else { return nil }
            let file = try store.open(&location)
            do throws(Errno) { return try file.contents(atMost: Int(Self.mostCompared)) } catch { return nil }
        } catch {
            return nil
        }
    }
}

/// The program that has saved over contents, in the journal.
private final class Saver: JournalSubject {
    let attribution: Attribution
    init(_ attribution: Attribution) { self.attribution = attribution }
}

extension Attribution {
    init(of anchor: Anchor, path: [UInt8]) {
        self.init(
            thread: 0, at: Engine.now, process: anchor.process?.number ?? 0, program: anchor.program,
            user: anchor.user
        ) { path }
    }
}

extension Anchor {
    /// The anchor as it is described in a version.
    var actor: VersionActor {
        let name = String(decoding: program, as: UTF8.self)
        if case .named(let actor) = identity {
            return VersionActor(program: name, user: user, run: actor.name)
        }
        return VersionActor(program: name, process: process?.number, user: user)
    }
}

extension OwnedDescriptor {
    /// Reads the whole file. Throws EFBIG if it has more bytes than `most`.
    borrowing func contents(atMost most: Int) throws(Errno) -> [UInt8] {
        let size = Int(try status().size)
        guard size <= most else { throw Errno(rawValue: EFBIG) }
        var bytes = [UInt8](repeating: 0, count: size)
        let result: Result<Int, Errno> = bytes.withUnsafeMutableBytes { buffer in
            do throws(Errno) { return .success(try read(into: buffer, at: 0)) } catch {
                return .failure(error)
            }
        }
        let count = try result.get()
        if count < size { bytes.removeLast(size - count) }
        return bytes
    }
}
