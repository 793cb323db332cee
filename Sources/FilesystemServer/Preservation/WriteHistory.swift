// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import LinuxSystem
import Synchronization
import VersionStore

/// Preserves the contents that a document has before a run writes it, so that `truce undo` can take the run back (D258).
///
/// While no other program writes the document, only the first write of a run needs this. While there are no runs, a write costs
/// two looks at flags.
final class WriteHistory: Sendable {
    /// The most documents whose last run is remembered. For a forgotten document, contents are preserved once more.
    private static let mostDocuments = 65_536

    private let context: MountContext
    private let engine: Engine
    /// For each document the number of the run that has written it last, if no other program has written it since.
    private let lastRuns = Mutex<[ItemID: UInt64]>([:])
    private let hasLastRuns = Atomic(false)

    init(_ context: MountContext) {
        self.context = context
        engine = context.engine
    }

    /// Whether the contents of a file must be preserved before a program changes them. Also notes that the program is about to
    /// change them.
    @inline(__always)
    func isDue(_ node: Node, by author: @autoclosure () -> Author?) -> Bool {
        guard !engine.runs.isEmpty || hasLastRuns.load(ordering: .relaxed) else { return false }
        return isDue(node, byProgram: author())
    }

    private func isDue(_ node: Node, byProgram author: Author?) -> Bool {
        guard context.hasStore, node.itemClass != .private else { return false }
        let item = node.item
        return lastRuns.withLock { lastRuns in
            defer { hasLastRuns.store(!lastRuns.isEmpty, ordering: .relaxed) }
            if engine.runs.isEmpty { lastRuns = [:] }
            guard let run = author?.run else {
                lastRuns[item] = nil
                return false
            }
            return lastRuns[item] != run.number
        }
    }

    /// Preserves the contents of a file, and notes that the program's run has written it last. If the contents cannot be
    /// preserved, the daemon's log says so, and the program goes ahead. Can block.
    ///
    /// `losesName`: whether the next step of the program takes the file's name away, so that a link is enough.
    func preserve(_ node: Node, by author: Author?, user: UInt32?, losesName: Bool = false) {
        guard let author, let store = context.store else { return }
        defer { note(node.item, author) }
        do throws(StoreError) {
            let descriptor = try ContentPreserver.descriptor(of: node)
            let status = try ContentPreserver.status(of: descriptor)
            guard status.isRegularFile else { return }
            guard status.size > 0 else {
                return context.history.note(.foundEmpty, node, by: author, user: user)
            }
            let saver = VersionActor(
                program: String(decoding: author.program, as: UTF8.self), process: author.process, user: user,
                run: author.actor)
            let request = PreservationRequest(
                path: node.path, cause: .write, closed: ContentPreserver.closedDirectories(above: node),
                user: user,
                provenance: Provenance(saver: saver), durability: .deferred)
            let mayLink = losesName && status.linkCount == 1 && !node.isOpen
            let id =
                try mayLink
                ? Self.linkOrCopy(descriptor, to: store, for: request)
                : store.preserveByCopying(descriptor.descriptor, for: request)
            engine.counters.preserved.count()
            context.history.note(.preserved(id, .write), node, by: author, user: user)
        } catch {
            engine.logAction(
                "is about to write a document whose contents could not be preserved (\(error))",
                Attribution { node.path })
        }
    }

    private static func linkOrCopy(
        _ descriptor: SharedDescriptor, to store: VersionStore, for request: PreservationRequest
    ) throws(StoreError) -> VersionID {
        do throws(StoreError) {
            return try store.preserveByLinking(descriptor.descriptor, for: request)
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
