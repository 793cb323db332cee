// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem

/// Closes handles, after the kernel's RELEASE.
///
/// RELEASE comes when the program closes its descriptor. If the program has mapped the file, it may still store to the
/// mapping. So a handle that may have mapped its file is closed only when no program can store to the file any more
/// (``LingeringHandles``).
final class HandleCloser: Sendable {
    private let context: MountContext
    private let sourceWatch: SourceWatch
    private let preserver: ContentPreserver
    private let data: DataPlane
    private let cleanWriters: CleanWriters
    private let closePreserver: ClosePreserver
    private let events: DocumentEvents
    private let saveLifecycle: SaveLifecycle
    private let engine: Engine
    private let handles: HandleTable
    private let saves: SaveTracker
    private let lingeringHandles: LingeringHandles

    init(
        _ context: MountContext, _ tree: FileTree, _ sourceWatch: SourceWatch, _ data: DataPlane,
        _ preserver: ContentPreserver, _ saves: SaveTracker, _ cleanWriters: CleanWriters,
        _ closePreserver: ClosePreserver, _ events: DocumentEvents, _ saveLifecycle: SaveLifecycle
    ) {
        self.context = context
        self.sourceWatch = sourceWatch
        self.preserver = preserver
        self.data = data
        self.cleanWriters = cleanWriters
        self.closePreserver = closePreserver
        self.events = events
        self.saveLifecycle = saveLifecycle
        engine = context.engine
        handles = tree.handles
        self.saves = saves
        lingeringHandles = data.lingeringHandles
    }

    func release(_ id: NodeID, handle: HandleID, reply: consuming Reply) {
        reply.succeed()
        guard let handle = handles[handle] else { return }
        closeUnlessMapped(handle)
    }

    /// The pauses before each check of a lingering handle, in nanoseconds. The last pause repeats.
    private static let pauses: [UInt64] = [200_000, 1_000_000, 5_000_000, 25_000_000, 100_000_000]

    /// Closes a handle after its RELEASE, or leaves it open as long as a program may store to a mapping of the file.
    ///
    /// If several handles may have mapped the file, only the last of them stays open. While others are open, mappings
    /// cannot be detected.
    func closeUnlessMapped(_ handle: Handle) {
        guard handle.mayOutlive, data.isAlone(handle) else { return close(handle) }
        // The daemon's descriptor is closed first, because the daemon would otherwise count as a program that has the
        // file open to write.
        handle.closeFile()
        guard data.isWritten(handle.node) else { return close(handle) }
        handle.beginLingering()
        lingeringHandles.add(handle)
        context.work(on: handle.node) { [self] in pollMapping(at: handle, after: 0) }
    }

    /// Closes the lingering handle of a file if no program can store to the file any more. Each access to the file calls
    /// this first.
    func closeLingering(on node: Node) {
        guard !lingeringHandles.isEmpty, let handle = lingeringHandles.handle(on: node), data.isAlone(handle),
            !data.isWritten(node),
            lingeringHandles.remove(handle)
        else { return }
        close(handle)
    }

    private func pollMapping(at handle: Handle, after looks: Int) {
        closeLingering(on: handle.node)
        guard !context.hasEnded, lingeringHandles.handle(on: handle.node) === handle else { return }
        let pause = Self.pauses[min(looks, Self.pauses.count - 1)]
        engine.timers.schedule(at: Engine.now.nanoseconds + pause) { [self] in
            context.work(on: handle.node) { [self] in pollMapping(at: handle, after: looks + 1) }
        }
    }

    /// Closes a handle in this order: its data, the contents to preserve, the events to presenters, and its claim.
    func close(_ handle: Handle) {
        let unchanged = handle.mayWrite ? cleanWriters.unchangedWriters(of: handle.node, besides: handle) : []
        guard !unchanged.isEmpty else { return leave(handle) }
        // The handle counts as a writer of the file until this is done, so that its writes do not count as those of other
        // writers.
        handle.node.threads(for: .processObservation).run { [self] in
            if handle.isPreservedAtClose { return leave(handle) }
            let hasChanged = handle.truncates || cleanWriters.mayHaveWritten(handle)
            let still = hasChanged ? unchanged.filter(cleanWriters.isStillUnchanged) : []
            guard !still.isEmpty else { return leave(handle) }
            context.work(on: handle.node, for: .preserving) { [self] in
                cleanWriters.rebaseline(handle.node, to: still, by: handle)
                leave(handle)
            }
        }
    }

    private func leave(_ handle: Handle) {
        saveLifecycle.noteUse(by: handle)
        let change = handle.mayWrite ? sourceWatch.noteOwn(handle.node, .contents) : nil
        guard handles.remove(handle.id) != nil else { return }
        if handle.mayWrite { cleanWriters.discardProvisionalCopy(beside: handle) }
        data.noteEnd(ofLocksBy: handle)
        data.endPageCaching(of: handle)
        if handle.mayWrite { saves.closedFile(NodeNumber(handle.node.id.rawValue)) }
        // The journal may refer to the handle for long. The file of the handle must not stay open as long.
        handle.closeFile(forGood: true)
        data.leaveRoute(handle)
        sourceWatch.finishOwnChange(handle.node, change)
        let hasMore = handle.hasPreservedFile
        guard handle.mayWrite || handle.truncates, hasMore || cleanWriters.mayBeOverwrittenUnseen(handle)
        else {
            return end(handle)
        }
        // This is checked now, because the program may set the file's times back after close(2), before a worker runs.
        let mayHaveWritten = cleanWriters.mayHaveWritten(handle)
        if mayHaveWritten { handle.markWritten() }
        context.work(on: handle.node, for: .preserving) { [self] in
            preserver.releaseFiles(of: handle)
            if handle.writesToOrphan { preserver.preserveOrphanWrites(by: handle) }
            if mayHaveWritten, cleanWriters.mayBeOverwrittenUnseen(handle) {
                closePreserver.preserveVersion(leftBy: handle, atEnd: true)
            }
            end(handle)
            preserver.letGoOfGrown(by: handle)
        }
    }

    /// Preserves contents at the end of the connection, after which the kernel reports no closes of handles.
    ///
    /// The claims of the handles do not end, and no waiting claim is granted. A program with passthrough may go on
    /// writing.
    func preserveAtUnmount() {
        for handle in handles.all {
            // The program of the handle may still write, so its provisional copy is preserved in any case.
            if handle.writesPassthrough {
                cleanWriters.preserveProvisionalCopy(beside: handle)
            } else {
                cleanWriters.discardProvisionalCopy(beside: handle)
            }
        }
        let isOrphans: @Sendable (Handle) -> Bool = { handle in handle.writesToOrphan }
        let left = handles.all.filter { handle in
            (handle.mayWrite || handle.truncates)
                && (isOrphans(handle) || cleanWriters.mayBeOverwrittenUnseen(handle))
        }
        let files = Dictionary(grouping: left) { ObjectIdentifier($0.node) }
        // Files without a name are preserved first, because their contents are found nowhere else.
        for writers in files.values.sorted(by: { isOrphans($0[0]) && !isOrphans($1[0]) }) {
            context.work(on: writers[0].node, for: .preserving) { [self] in
                // One copy of a file has the writes of all its handles.
                guard let handle = writers.first(where: \.mayHaveWritten) else { return }
                if isOrphans(handle) {
                    preserver.preserveOrphanWrites(by: handle)
                } else {
                    closePreserver.preserveVersion(leftBy: handle, atEnd: true)
                    preserver.letGoOfGrown(by: handle)
                }
            }
        }
    }

    private func end(_ handle: Handle) {
        events.noteChange(by: handle)
        handle.settleVersions()
        if handle.hasClaim { engine.end(handle.currentClaim) }
        handle.node.unpin()
    }
}
