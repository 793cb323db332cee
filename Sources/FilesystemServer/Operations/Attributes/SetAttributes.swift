// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import VersionStore

/// Changes the mode, owner, times and size of files.
///
/// For a change of size by a path, a claim is made. A change of size through a handle needs none, because the handle
/// has a claim.
final class SetAttributes: Sendable {
    let context: MountContext
    let sourceWatch: SourceWatch
    let preserver: ContentPreserver
    let data: DataPlane
    let shownAttributes: ShownAttributes
    let cleanWriters: CleanWriters
    let unseenOverwrites: UnseenOverwrites
    let events: DocumentEvents
    let saveLifecycle: SaveLifecycle
    let coordinator: RetryCoordinator
    let attributeReplies: AttributeReplies
    let unsavedStats: UnsavedStats
    let writeHistory: WriteHistory
    let closer: HandleCloser
    let engine: Engine
    let processes: ProcessResolver
    let nodes: NodeTable
    let handles: HandleTable
    let places: PlaceRegistry

    init(
        _ context: MountContext, _ tree: FileTree, _ sourceWatch: SourceWatch, _ data: DataPlane,
        _ shownAttributes: ShownAttributes, _ preserver: ContentPreserver, _ cleanWriters: CleanWriters,
        _ unseenOverwrites: UnseenOverwrites, _ events: DocumentEvents, _ saveLifecycle: SaveLifecycle,
        _ coordinator: RetryCoordinator,
        _ attributeReplies: AttributeReplies, _ unsavedStats: UnsavedStats, _ writeHistory: WriteHistory,
        _ closer: HandleCloser
    ) {
        self.context = context
        self.sourceWatch = sourceWatch
        self.preserver = preserver
        self.data = data
        self.shownAttributes = shownAttributes
        self.cleanWriters = cleanWriters
        self.unseenOverwrites = unseenOverwrites
        self.events = events
        self.saveLifecycle = saveLifecycle
        self.coordinator = coordinator
        self.attributeReplies = attributeReplies
        self.unsavedStats = unsavedStats
        self.writeHistory = writeHistory
        self.closer = closer
        engine = context.engine
        processes = context.processes
        nodes = tree.nodes
        handles = tree.handles
        places = tree.places
    }

    func setAttributes(
        of id: NodeID, to change: AttributeChange, handle: HandleID?, reply: consuming Reply
    ) {
        guard let node = nodes[id] else { return reply.fail(.stale) }
        if change.size != nil {
            closer.closeLingering(on: node)
            saveLifecycle.noteUse(of: node, by: reply.caller.thread)
        }
        let caller = reply.caller
        guard
            let reply = coordinator.retryIfRenamedOutOfBand(
                caller, fromFile: node, unless: handle != nil, reply)
        else {
            return
        }
        let handle = handle.flatMap { handles[$0] }
        guard change.size != nil, node.needsClaim(flags: O_WRONLY | O_TRUNC) else {
            return apply(change, to: node, through: handle, reply: reply)
        }
        guard let handle else { return resize(node, change, reply: reply) }
        if handle.awaitsFirstAccess {
            let parked = Parked(reply)
            return context.work(on: node, for: .preserving) { [self] in
                guard unseenOverwrites.prepareWrite(by: handle) else { return refuse(parked) }
                if let reply = parked.take() { resize(handle, change, reply: reply) }
            }
        }
        resize(handle, change, reply: reply)
    }

    /// Changes the size of a file through a handle.
    private func resize(_ handle: Handle, _ change: AttributeChange, reply: consuming Reply) {
        let node = handle.node
        guard handle.hasClaim else { return apply(change, to: node, through: handle, reply: reply) }
        let claim = handle.currentClaim
        if engine.hasYieldedClean(claim) || cutsBesideOthers(handle) {
            return renewClaim(of: handle, then: change, reply: reply)
        }
        // After this claim was granted, a suspended or preempted writer may have written contents. They are not
        // preserved yet.
        let isOverSomebody =
            engine.isSuperseded(claim)
            || cleanWriters.hasChangedSuspendedWriter(claim) { $0.observeWriting() != .clean }
        cut(handle, change, isOverSomebody ? .contents(.claim) : .nothing, reply: reply)
    }

    /// Returns whether a handle was opened only to append, and so was granted beside other writers. Returns false if
    /// its claim was renewed.
    private func cutsBesideOthers(_ handle: Handle) -> Bool {
        handle.onlyAppends && handle.node.isOpen(besides: 1) && !handle.isReclaimed
    }

    /// Changes the attributes, sends the event to presenters, and answers the request.
    ///
    /// For a change of only the size through a handle, the event is sent when the handle is closed.
    func apply(
        _ change: AttributeChange, to node: Node, through handle: Handle? = nil, under claim: ClaimID? = nil,
        reply: consuming Reply
    ) {
        if handle == nil { coordinator.clearRetryMark(reply.caller) }
        let own = sourceWatch.noteOwn(
            node, change.size != nil || change.changesTimes ? .contents : .attributes)
        do throws(Errno) {
            let descriptor = try node.descriptor()
            let caller = reply.caller
            if let size = change.size {
                // A program that has the file open to write may truncate it through its handle, whatever the file's
                // mode is now.
                if let file = try handle?.openFile() {
                    try file.file.truncateOpenFile(to: size)
                } else {
                    let former = handle == nil ? nil : try descriptor.descriptor.status()
                    try descriptor.descriptor.truncate(to: size)
                    if let former, former.size == size {
                        data.moveTime(of: descriptor, from: former.modified)
                    }
                }
                try data.stripPrivileges(of: node, writtenBy: caller)
            }
            if change.mode != nil || change.user != nil || change.group != nil {
                try reopenDescriptors(of: node)
            }
            // A chown(2) that changes neither user nor group still sets the file's change time, and removes
            // set-user-ID. The kernel sends the same request at the first write to a file with privileges.
            if change.isEmpty { try data.stripPrivileges(of: node, touchedBy: caller) }
            if change.user != nil || change.group != nil || change.isEmpty {
                try descriptor.descriptor.changeOwner(user: change.user, group: change.group)
                if change.user != nil { node.noteOwnerChange() }
            }
            if let mode = change.mode {
                let group = try descriptor.descriptor.status().group
                try descriptor.descriptor.changeMode(
                    to: data.permitted(mode & 0o7777, group: group, to: caller))
                reconsiderBypass(of: node)
            }
            if change.changesTimes {
                noteWrites(to: node, before: change)
                unseenOverwrites.sightings.noteTimes(of: node, areSet: false)
                defer { unseenOverwrites.sightings.noteTimes(of: node, areSet: true) }
                try cleanWriters.refreshBaselines(of: node) { () throws(Errno) in
                    try descriptor.descriptor.changeTimes(
                        accessed: change.accessed, modified: change.modified)
                }
            }
            if change.changesMore { cleanWriters.refreshBaselines(of: node) }
            if handle == nil || change.changesMore {
                let access =
                    change.size.map { AccessTable.resizing(to: $0) } ?? AccessTable.changingAttributes
                events.noteChange(of: node, access, under: claim, byThread: caller.thread)
                if change.size != nil { noteResizeInHistory(of: node, by: caller) }
            }
            sourceWatch.finishOwnChange(node, own)
            let valid = attributeReplies.validity(of: node, to: caller.thread)
            reply.attributes(
                shownAttributes.shown(try descriptor.descriptor.status(), of: node), valid: valid)
        } catch {
            if handle == nil { coordinator.failWithRetry(reply, error) } else { reply.fail(error) }
        }
    }

    private func noteResizeInHistory(of node: Node, by caller: Caller) {
        guard context.history.isRecording else { return }
        context.history.note(
            .closed(nil), node, by: context.processes.author(ofThread: caller.thread), user: caller.user)
    }

    /// Called when a program is about to set the modification time of a file. Notes this in the handle of each writer
    /// of the file.
    ///
    /// Some tools write to a file and then set its old times again. These times would hide the writes.
    private func noteWrites(to node: Node, before change: AttributeChange) {
        guard case .set(let time) = change.modified, node.isOpen else { return }
        for handle in handles.writers(on: node) { handle.noteTimeChange(time) }
    }

    /// Called before the file's rights change. Opens the descriptors of the file's handles again.
    ///
    /// Open handles must stay usable after the change. But without root's rights, the daemon might then be unable to
    /// open the file for them.
    func reopenDescriptors(of node: Node) throws(Errno) {
        guard geteuid() != 0, node.isOpen else { return }
        for handle in handles.all(on: node) { try handle.reopenDescriptor() }
    }

    /// Called when the privileges of a file have changed. Forgets whether passthrough is possible for the file.
    func reconsiderBypass(of node: Node) {
        node.setMayBypass(nil)
    }
}

extension AttributeChange {
    /// Whether the change sets more than the size.
    fileprivate var changesMore: Bool { mode != nil || user != nil || group != nil || changesTimes }

    fileprivate var isEmpty: Bool { size == nil && !changesMore }

    fileprivate var changesTimes: Bool {
        if case .omit = accessed, case .omit = modified { return false }
        return true
    }
}
