// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem

/// Makes directories, links and special files, as the user and group of the caller.
///
/// Usually this needs no claim, because no program can use an item before it exists. There are two exceptions: a name
/// at which a document waits for a file, and a name in a package.
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
        // The kernel does not retry bind(2), which creates a socket, after ESTALE.
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
        // The request may wait, and the bytes at `target` are valid only until this call returns. So they are copied,
        // with the zero at the end.
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
        // A helper file may get a second name that makes it a document. Files of other classes, such as logs and
        // databases, keep their class.
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

    typealias Maker = @Sendable (borrowing OwnedDescriptor, borrowing FileName) throws(Errno) -> Void

    private func make(
        _ name: borrowing FileName, in parent: NodeID, canRetry: Bool = true, reply: consuming Reply,
        _ maker: @escaping Maker
    ) {
        guard let directory = nodes[parent] else { return reply.fail(.stale) }
        guard !context.isPrivate(name, in: parent) else { return reply.fail(.notPermitted) }
        let change = NameChange(name.copy(), in: directory, caller: reply.caller)
        nameRequests.run(self, .making(change), mayRetry: canRetry, reply: reply) { () throws(Errno) in
            Facts(change: change, maker: maker)
        }
    }
}

extension MakeNode: NameOperation {
    struct Facts: NameFacts {
        let change: NameChange
        let maker: Maker
    }

    struct Outcome {
        let node: Node
        let status: FileStatus
        let recognised: CreationOutcome
    }

    static var makesFile: Bool { true }

    func lockRequest(for facts: Facts, after former: ClaimedRequest?) -> ClaimedRequest? {
        nameRequests.lockRequest(for: facts.change)
    }

    func begin(_ facts: Facts, _ step: NameStep?) {
        nameRequests.impersonate(facts.change.caller)
        sourceWatch.noteOwn(facts.change.name, in: facts.change.directory)
    }

    func apply(_ facts: Facts) throws(Errno) -> Outcome {
        let (name, directory, caller) = (facts.change.name, facts.change.directory, facts.change.caller)
        let below = try directory.descriptor()
        let status = try name.withName { (name) throws(Errno) in
            try facts.maker(below.descriptor, name)
            return try below.descriptor.status(of: name)
        }
        saveLifecycle.noteArrival(of: name, in: directory, by: caller.thread)
        let node = nodes.introduce(status, as: name, in: directory)
        if status.linkCount > 1 {
            cleanWriters.refreshBaselines(of: node)
            node.noteOtherName(name, in: directory)
            events.noteNames(of: node)
        }
        let recognised = saveLifecycle.recogniseCreation(of: node, as: name, in: directory, by: caller)
        return Outcome(node: node, status: status, recognised: recognised)
    }

    func publish(_ outcome: inout Outcome, of facts: Facts, _ step: NameStep?) {
        let (node, recognised, thread) = (outcome.node, outcome.recognised, facts.change.caller.thread)
        if !recognised.isSave { events.noteCreation(of: node, facts.change, under: step?.claim) }
        if recognised.isDocument { events.noteChange(of: node, .write(.updating), byThread: thread) }
        if let fill = recognised.fill { saveLifecycle.closePendingSave(fill.pendingSave, because: .filled) }
        engine.journal.note(.created, at: Engine.now, by: facts.change.subject)
        if outcome.status.isRegularFile || outcome.status.isDirectory {
            context.history.note(
                recognised.isSave ? .closed(nil) : .created, facts.change,
                by: context.processes.author(ofThread: thread))
        }
    }

    func answer(_ outcome: Outcome, of facts: Facts, _ step: NameStep?, reply: consuming Reply) {
        let validity = attributeReplies.validity(of: outcome.node, to: facts.change.caller.thread)
        lookups.answer(outcome.node, outcome.status, attributes: validity, reply: reply)
    }

    func finish(_ scope: Void, _ facts: Facts) { ThreadIdentity.becomeDaemon() }
}
