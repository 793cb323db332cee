// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem

/// Closes handles after the kernel's RELEASE request.
///
/// RELEASE comes when the program closes its descriptor. If the program has mapped the file, it may still write to the
/// mapping after that. So such a handle is closed only when no program can write to the file any more
/// (``LingeringHandles``).
final class HandleCloser: Sendable {
    private let context: MountContext
    private let sourceWatch: SourceWatch
    private let preserver: ContentPreserver
    private let data: DataPlane
    private let cleanWriters: CleanWriters
    private let closePreserver: ClosePreserver
    private let conflictCopies: ConflictCopies
    private let events: DocumentEvents
    private let saveLifecycle: SaveLifecycle
    private let engine: Engine
    private let handles: HandleTable
    private let nodes: NodeTable
    private let saves: SaveTracker
    private let lingeringHandles: LingeringHandles
    private let unseenOverwrites: UnseenOverwrites
    private let merger: SaveMerger

    init(
        _ context: MountContext, _ tree: FileTree, _ sourceWatch: SourceWatch, _ data: DataPlane,
        _ preserver: ContentPreserver, _ saves: SaveTracker, _ cleanWriters: CleanWriters,
        _ closePreserver: ClosePreserver, _ conflictCopies: ConflictCopies,
        _ unseenOverwrites: UnseenOverwrites, _ merger: SaveMerger, _ events: DocumentEvents,
        _ saveLifecycle: SaveLifecycle
    ) {
        self.unseenOverwrites = unseenOverwrites
        self.merger = merger
        self.context = context
        self.sourceWatch = sourceWatch
        self.preserver = preserver
        self.data = data
        self.cleanWriters = cleanWriters
        self.closePreserver = closePreserver
        self.conflictCopies = conflictCopies
        self.events = events
        self.saveLifecycle = saveLifecycle
        engine = context.engine
        handles = tree.handles
        nodes = tree.nodes
        self.saves = saves
        lingeringHandles = data.lingeringHandles
    }

    func release(_ id: NodeID, handle: HandleID, reply: consuming Reply) {
        guard let handle = handles[handle] else { return reply.succeed() }
        // After the reply, the kernel may forget the node.
        if handle.mayWrite, handle.hasPreservedFile { handle.retainNode(in: nodes) }
        reply.succeed()
        closeUnlessMapped(handle)
    }

    /// The pauses before the checks of a lingering handle, in nanoseconds. After the last pause in the list, that pause
    /// is repeated.
    private static let pauses: [UInt64] = [200_000, 1_000_000, 5_000_000, 25_000_000, 100_000_000]

    /// Called after the RELEASE of a handle. Closes the handle, unless a program may still write to a mapping of the
    /// file.
    ///
    /// While several handles of a file are open, the daemon cannot find out whether the file is mapped. So only the
    /// last handle of the file may stay open.
    func closeUnlessMapped(_ handle: Handle) {
        guard handle.mayOutlive, data.isAlone(handle) else { return close(handle) }
        // The daemon closes its own descriptor before the check. With this descriptor open, the file would count as open to
        // write.
        handle.closeFile()
        guard data.isWritten(handle.node) else { return close(handle) }
        handle.beginLingering()
        lingeringHandles.add(handle)
        context.work(on: handle.node) { [self] in pollMapping(at: handle, after: 0) }
    }

    /// Closes the lingering handle of a file if no program can write to the file any more. This is called before each
    /// access to the file.
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

    /// Closes a handle in this order: its file is closed, contents are preserved, presenters get their events, the
    /// claim ends.
    func close(_ handle: Handle) {
        let unchanged = handle.mayWrite ? cleanWriters.unchangedWriters(of: handle.node, besides: handle) : []
        guard !unchanged.isEmpty else { return leave(handle) }
        noteClose(handle)
        // The handle stays in the table of writers until the other writers have new baselines. Otherwise this handle's
        // writes would count as writes of the other writers.
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
        context.history.noteClose(handle)
        if handle.mayWrite { cleanWriters.discardProvisionalCopy(beside: handle) }
        data.noteEnd(ofLocksBy: handle)
        data.endPageCaching(of: handle)
        if handle.mayWrite {
            saves.closedFile(NodeNumber(handle.node.id.rawValue))
        }
        // The journal may refer to the handle for a long time. So the file is closed now, and not when the handle
        // object is freed.
        handle.closeFile(forGood: true)
        data.leaveRoute(handle)
        sourceWatch.finishOwnChange(handle.node, change)
        let suspicions = handle.mayWrite || handle.truncates ? merger.noteClosed(handle) : []
        if suspicions.isEmpty { finishLeaving(handle) } else { settle(suspicions, of: handle) }
    }

    /// Reads the contents that the program has left, before another program can change them, and perhaps merges them. Compares
    /// them afterwards.
    private func settle(_ suspicions: [Suspicion], of handle: Handle) {
        let node = handle.node
        noteClose(handle)
        merger.merge(suspicions, into: node) { [self] saved in
            finishLeaving(handle, isMerged: saved == nil)
            guard let saved else { return }
            unseenOverwrites.settle(suspicions, by: saved, at: node.path)
        }
    }

    private func finishLeaving(_ handle: Handle, isMerged: Bool = false) {
        guard handle.mayWrite || handle.truncates,
            handle.hasPreservedFile || cleanWriters.mayBeOverwrittenUnseen(handle)
        else { return end(handle, isMerged: isMerged) }
        // Whether the program has written is checked now, and not later on the worker. Before the worker runs, the program may
        // set the file's times back and so hide its writes.
        let mayHaveWritten = cleanWriters.mayHaveWritten(handle)
        if mayHaveWritten { handle.markWritten() }
        noteClose(handle)
        context.work(on: handle.node, for: .preserving) { [self] in
            preserver.releaseFiles(of: handle)
            if handle.writesToOrphan { preserver.preserveOrphanWrites(by: handle) }
            if mayHaveWritten, cleanWriters.mayBeOverwrittenUnseen(handle) {
                closePreserver.preserveVersion(leftBy: handle, atEnd: true)
            }
            end(handle, isMerged: isMerged)
            handle.releaseNode()
            preserver.letGoOfGrown(by: handle)
        }
    }

    /// Preserves contents when the connection to the kernel has ended. After that, the kernel reports no closes of
    /// handles.
    ///
    /// The handles' claims do not end, so no waiting claim is granted. A program with passthrough may still write.
    func preserveAtUnmount() {
        for handle in handles.all {
            // With passthrough, this program may still write to the file. So its provisional copy becomes a version in
            // any case.
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
        // Files without a name are preserved before the others: the daemon's end would destroy their contents.
        for writers in files.values.sorted(by: { isOrphans($0[0]) && !isOrphans($1[0]) }) {
            context.work(on: writers[0].node, for: .preserving) { [self] in
                // A single copy of a file contains what all its writers have written.
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

    /// Called before other threads do work of the close. While they work, the program may already wait for another file.
    /// Rule D1: this is no deadlock.
    private func noteClose(_ handle: Handle) {
        if handle.hasClaim { engine.noteClose(of: handle.currentClaim) }
    }

    private func end(_ handle: Handle, isMerged: Bool) {
        events.noteChange(by: handle)
        if isMerged { events.noteMerge(of: handle.node) }
        handle.settleVersions()
        if handle.hasClaim { engine.end(handle.currentClaim) }
        if handle.mayWrite { conflictCopies.noteArrival(ofFileOf: handle) }
        handle.node.unpin()
    }
}
