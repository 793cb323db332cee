// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem

/// New directories, links and nodes, made with the identity of the caller.
///
/// They need no claim, because no program uses a node that does not exist. There are two exceptions: names that a program waits
/// for, and packages, which their users see as a single file.
final class MakeNode: Sendable {
    private let context: MountContext
    private let sourceWatch: SourceWatch
    private let cleanWriters: CleanWriters
    private let events: DocumentEvents
    private let identity: DocumentIdentity
    private let saveLifecycle: SaveLifecycle
    private let coordinator: RetryCoordinator
    private let attributeReplies: AttributeReplies
    private let lookups: Lookup
    private let nameRequests: NameRequests
    private let engine: Engine
    private let nodes: NodeTable

    init(
        _ context: MountContext, _ tree: FileTree, _ sourceWatch: SourceWatch, _ cleanWriters: CleanWriters,
        _ events: DocumentEvents, _ identity: DocumentIdentity, _ saveLifecycle: SaveLifecycle,
        _ coordinator: RetryCoordinator, _ attributeReplies: AttributeReplies, _ lookups: Lookup,
        _ nameRequests: NameRequests
    ) {
        self.context = context
        self.sourceWatch = sourceWatch
        self.cleanWriters = cleanWriters
        self.events = events
        self.identity = identity
        self.saveLifecycle = saveLifecycle
        self.coordinator = coordinator
        self.attributeReplies = attributeReplies
        self.lookups = lookups
        self.nameRequests = nameRequests
        engine = context.engine
        nodes = tree.nodes
    }

    func makeNode(
        _ name: borrowing FileName, in parent: NodeID, mode: UInt32, device: UInt64, reply: consuming Reply
    ) {
        // The kernel does not retry the creation of a socket.
        make(name, in: parent, canRetry: mode & S_IFMT != S_IFSOCK, reply: reply) {
            (directory, name) throws(Errno) in
            try directory.makeNode(name, mode: mode, device: device)
        }
    }

    func makeDirectory(_ name: borrowing FileName, in parent: NodeID, mode: UInt32, reply: consuming Reply) {
        make(name, in: parent, reply: reply) { (directory, name) throws(Errno) in
            try directory.makeDirectory(name, mode: mode)
        }
    }

    func makeSymbolicLink(
        _ name: borrowing FileName, in parent: NodeID, to target: UnsafePointer<CChar>,
        reply: consuming Reply
    ) {
        // Includes the terminating zero. The request may wait longer than its bytes are valid.
        let target = Array(UnsafeBufferPointer(start: target, count: strlen(target) + 1))
        make(name, in: parent, reply: reply) { (directory, name) throws(Errno) in
            try directory.makeSymbolicLink(name, to: target)
        }
    }

    func link(_ id: NodeID, as name: borrowing FileName, in parent: NodeID, reply: consuming Reply) {
        guard let node = nodes[id] else { return reply.fail(.stale) }
        let file: SharedDescriptor
        do throws(Errno) { file = try node.descriptor() } catch {
            return coordinator.failWithRetry(reply, error)
        }
        // A log or a database keeps its class under a second name.
        if node.itemClass == .private, let directory = nodes[parent] {
            identity.claimForWriters(
                of: node, named: NameChange(name.copy(), in: directory, caller: reply.caller))
        }
        make(name, in: parent, reply: reply) { [self] (directory, name) throws(Errno) in
            do throws(Errno) {
                try directory.link(file.descriptor, as: name)
            } catch {
                identity.giveUpClaims(of: node)
                throw error
            }
        }
    }

    private typealias Maker = @Sendable (borrowing OwnedDescriptor, borrowing FileName) throws(Errno) -> Void

    private func make(
        _ name: borrowing FileName, in parent: NodeID, canRetry: Bool = true, reply: consuming Reply,
        _ maker: @escaping Maker
    ) {
        guard let directory = nodes[parent] else { return reply.fail(.stale) }
        guard !context.isPrivate(name, in: parent) else { return reply.fail(.notPermitted) }
        let change = NameChange(name.copy(), in: directory, caller: reply.caller)
        guard
            let reply = coordinator.retryIfRenamedOutOfBand(
                change.caller, from: directory, unless: !canRetry, reply)
        else { return }
        nameRequests.whenNameIsFree(change, reply: reply) { [self] claim, _, reply in
            make(change, under: claim, reply: reply, maker)
        }
    }

    /// Makes the node, sends the events and ends the claim before it answers. A request that follows the answer must find them
    /// done.
    private func make(
        _ change: NameChange, under claim: ClaimID?, reply: consuming Reply, _ maker: Maker
    ) {
        let (directory, name, caller) = (change.directory, change.name, change.caller)
        coordinator.clearRetryMark(caller)
        defer { ThreadIdentity.becomeDaemon() }
        do throws(Errno) {
            nameRequests.impersonate(caller)
            sourceWatch.noteOwn(name, in: directory)
            let below = try directory.descriptor()
            let status = try name.withName { (name) throws(Errno) in
                try maker(below.descriptor, name)
                return try below.descriptor.status(of: name)
            }
            saveLifecycle.noteArrival(of: name, in: directory, by: caller.thread)
            let node = nodes.introduce(status, as: name, in: directory)
            if status.linkCount > 1 {
                cleanWriters.refreshBaselines(of: node)
                node.noteOtherName(name, in: directory)
                events.noteNames(of: node)
            }
            let outcome = saveLifecycle.recogniseCreation(of: node, as: name, in: directory, by: caller)
            if !outcome.isSave { events.noteCreation(of: node, change, under: claim) }
            if outcome.isDocument { events.noteChange(of: node, .write(.updating), byThread: caller.thread) }
            if let fill = outcome.fill { saveLifecycle.closePendingSave(fill.pendingSave, because: .filled) }
            engine.journal.note(.created, at: Engine.now, by: change.subject)
            if let claim { engine.end(claim) }
            lookups.answer(
                node, status, attributes: attributeReplies.validity(of: node, to: caller.thread), reply: reply
            )
        } catch {
            if let claim { engine.end(claim) }
            reply.fail(error)
        }
    }
}
