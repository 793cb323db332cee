// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import LinuxSystem
import Synchronization
import VersionStore

/// Preserves the contents that a document has before a write: if a run writes it, so that `truce undo` can take the run back
/// (D258), or if a rule `keep = "writes"` asks for it (D264).
///
/// While no other program writes the document, only the first write of a run needs this. While there are no runs and no such
/// rules, a write costs three looks at flags.
final class WriteHistory: Sendable {
    /// The most documents that are remembered. For a forgotten document, contents are preserved once more.
    private static let mostDocuments = 65_536

    private let context: MountContext
    private let sightings: Sightings
    private let handles: HandleTable
    private let engine: Engine
    /// For each document the state in which a rule has preserved it last. The same contents are not preserved again.
    private let lastStamps = Mutex<[ItemID: Stamp]>([:])
    /// For each document the number of the run that has written it last, if no other program has written it since.
    private let lastRuns = Mutex<[ItemID: UInt64]>([:])
    private let hasLastRuns = Atomic(false)

    init(_ context: MountContext, _ tree: FileTree, _ sightings: Sightings) {
        self.context = context
        handles = tree.handles
        self.sightings = sightings
        engine = context.engine
    }

    /// Whether a write may be due at all: there are runs, rules, or documents that a run has written last.
    @inline(__always)
    var isNeeded: Bool { context.keepsHistory || hasLastRuns.load(ordering: .relaxed) }

    /// Whether the contents of a file must be preserved before the program of a handle changes them.
    @inline(__always)
    func isDue(_ handle: Handle) -> Bool {
        guard isNeeded, !handle.isHistoryKept.load(ordering: .relaxed) else { return false }
        return isDue(handle.node, byProgram: handle.author, thread: handle.thread)
    }

    /// Whether the contents of a file must be preserved before a program changes them. Also notes that the program is about to
    /// change them.
    @inline(__always)
    func isDue(_ node: Node, by author: @autoclosure () -> Author?, thread: Int32) -> Bool {
        isNeeded && isDue(node, byProgram: author(), thread: thread)
    }

    private func isDue(_ node: Node, byProgram author: Author?, thread: Int32) -> Bool {
        guard context.hasStore, node.itemClass != .private else { return false }
        if isDueToRun(node.item, author), !Node.isInGitDirectory(node.parent) { return true }
        return isDueToRule(node, thread)
    }

    private func isDueToRule(_ node: Node, _ thread: Int32) -> Bool {
        context.policies.hasWriteRules
            && context.policy(of: .keep, forFileAt: node.path, usedBy: thread) == .writes
    }

    private func isDueToRun(_ item: ItemID, _ author: Author?) -> Bool {
        lastRuns.withLock { lastRuns in
            defer { hasLastRuns.store(!lastRuns.isEmpty, ordering: .relaxed) }
            if engine.runs.isEmpty { lastRuns = [:] }
            guard let run = author?.run else {
                lastRuns[item] = nil
                return false
            }
            return lastRuns[item] != run.number
        }
    }

    /// Preserves the contents of a handle's file. Can block.
    func preserve(for handle: Handle) {
        preserve(handle.node, by: handle.author, user: handle.user)
        handle.isHistoryKept.store(true, ordering: .relaxed)
    }

    /// Preserves the contents of a file, and notes that the program's run has written it last. If the contents cannot be
    /// preserved, the daemon's log says so, and the program goes ahead. Can block.
    ///
    /// `losesName`: whether the next step of the program takes the file's name away, so that a link is enough.
    func preserve(_ node: Node, by known: Author?, user: UInt32?, losesName: Bool = false) {
        guard let store = context.store else { return }
        let author = known ?? Author(program: [], process: 0)
        let isOfRun = isDueToRun(node.item, author) && !Node.isInGitDirectory(node.parent)
        defer { note(node.item, author) }
        do throws(StoreError) {
            let descriptor = try ContentPreserver.descriptor(of: node)
            let status = try ContentPreserver.status(of: descriptor)
            guard status.isRegularFile else { return }
            guard status.size > 0 else {
                if isOfRun { context.history.note(.foundEmpty, node, by: author, user: user) }
                return
            }
            guard isOfRun || !isPreserved(node.item, status) else { return }
            let request = PreservationRequest(
                path: node.path, cause: .write, closed: ContentPreserver.closedDirectories(above: node),
                user: user, provenance: provenance(of: node, status, author, user), durability: .deferred)
            let mayLink = losesName && status.linkCount == 1 && handles.writers(on: node).isEmpty
            let id =
                try mayLink
                ? linkOrCopy(descriptor, of: node, to: store, for: request)
                : store.preserveByCopying(descriptor.descriptor, for: request)
            context.history.note(.preserved(id, .write), node, by: author, user: user)
            note(node.item, Stamp(status))
        } catch {
            engine.logAction(
                "is about to write a document whose contents could not be preserved (\(error))",
                Attribution { node.path })
        }
    }

    /// Whether the present contents are the ones that were preserved last.
    private func isPreserved(_ item: ItemID, _ status: FileStatus) -> Bool {
        guard !context.isTimeRacy(status) else { return false }
        return lastStamps.withLock { $0[item]?.hasSameContents(as: Stamp(status)) ?? false }
    }

    private func note(_ item: ItemID, _ stamp: Stamp) {
        guard context.policies.hasWriteRules else { return lastStamps.withLock { $0 = [:] } }
        lastStamps.withLock { lastStamps in
            if lastStamps.count >= Self.mostDocuments { lastStamps = [:] }
            lastStamps[item] = stamp
        }
    }

    /// The program that replaces the contents, the one that wrote them, and the generation that the first one had read.
    private func provenance(
        of node: Node, _ status: FileStatus, _ author: Author, _ user: UInt32?
    ) -> Provenance {
        let saver = VersionActor(
            program: String(decoding: author.program, as: UTF8.self),
            process: author.process == 0 ? nil : author.process, user: user, run: author.actor)
        var provenance = Provenance(saver: saver, generation: Generation(token: status).description)
        let opener = sightings.openers.opener(process: author.process)
        let known = sightings.change(node) { document, next in
            document.refresh(Stamp(status), next)
            let view = opener.map { document.view(of: $0, at: Engine.now) }
            return (author: document.author, number: document.generation, view: view)
        }
        guard let known else { return provenance }
        provenance.author = known.author?.actor
        provenance.generation = sightings.outerForm(of: known.number).description
        switch known.view {
        case .seen: provenance.readGeneration = provenance.generation
        case .unseen(let seen):
            provenance.readGeneration = sightings.outerForm(of: seen.number).description
            provenance.readTime = seen.time
        case .stranger, nil: break
        }
        return provenance
    }

    private func linkOrCopy(
        _ descriptor: SharedDescriptor, of node: Node, to store: VersionStore,
        for request: PreservationRequest
    ) throws(StoreError) -> VersionID {
        do throws(StoreError) {
            let id = try store.preserveByLinking(descriptor.descriptor, for: request)
            // If the step fails, the file keeps its name. Then the link is replaced before a program writes to the file.
            node.add(LinkedVersion(id, as: nil, writers: 0, mustStay: true))
            return id
        } catch {
            // The file system may allow no second link. If the copy fails as well, its error is reported.
            return try store.preserveByCopying(descriptor.descriptor, for: request)
        }
    }

    private func note(_ item: ItemID, _ author: Author) {
        guard let run = author.run else { return }
        lastRuns.withLock { lastRuns in
            if lastRuns.count >= Self.mostDocuments { lastRuns = [:] }
            lastRuns[item] = run.number
            hasLastRuns.store(true, ordering: .relaxed)
        }
    }
}
