// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem

/// Creates new files, with the user and group of the caller.
final class Create: Sendable {
    private let context: MountContext
    private let sourceWatch: SourceWatch
    private let unseenOverwrites: UnseenOverwrites
    private let events: DocumentEvents
    private let saveLifecycle: SaveLifecycle
    private let coordinator: RetryCoordinator
    private let attributeReplies: AttributeReplies
    private let closer: HandleCloser
    private let claims: OpenClaims
    private let opener: HandleOpener
    private let nameRequests: NameRequests
    private let engine: Engine
    private let submounts: Submounts
    private let nodes: NodeTable

    init(
        _ context: MountContext, _ tree: FileTree, _ sourceWatch: SourceWatch,
        _ unseenOverwrites: UnseenOverwrites, _ events: DocumentEvents,
        _ saveLifecycle: SaveLifecycle, _ coordinator: RetryCoordinator,
        _ attributeReplies: AttributeReplies, _ closer: HandleCloser, _ claims: OpenClaims,
        _ opener: HandleOpener, _ nameRequests: NameRequests
    ) {
        self.context = context
        self.sourceWatch = sourceWatch
        self.unseenOverwrites = unseenOverwrites
        self.events = events
        self.saveLifecycle = saveLifecycle
        self.coordinator = coordinator
        self.attributeReplies = attributeReplies
        self.closer = closer
        self.claims = claims
        self.opener = opener
        self.nameRequests = nameRequests
        engine = context.engine
        submounts = context.submounts
        nodes = tree.nodes
    }

    func create(
        _ name: borrowing FileName, in parent: NodeID, mode: UInt32, flags: Int32, reply: consuming Reply
    ) {
        guard let directory = nodes[parent] else { return reply.fail(.stale) }
        guard !context.isPrivate(name, in: parent) else { return reply.fail(.notPermitted) }
        let change = NameChange(name.copy(), in: directory, caller: reply.caller)
        nameRequests.run(self, .making(change), reply: reply) { () throws(Errno) in
            Facts(change: change, mode: mode, flags: flags)
        }
    }

    /// Makes a file only if the name is free.
    ///
    /// Another program may have made a file under the name out of band. The daemon has neither checked that the caller
    /// may open that file, nor made a claim for it. So the answer is ESTALE, and the kernel looks up that file and
    /// opens it.
    private func makeFile(
        _ name: borrowing FileName, in directory: SharedDescriptor, flags: Int32, mode: UInt32
    ) throws(Errno) -> OwnedDescriptor {
        do throws(Errno) {
            let below = flags & (O_ACCMODE | O_SYNC | O_DSYNC) | O_EXCL
            return try directory.descriptor.create(name, flags: below, mode: mode)
        } catch {
            throw error == .exists && flags & O_EXCL == 0 ? .stale : error
        }
    }

    private func finishCreate(_ creation: NewFile, reply: consuming Reply) {
        let (handle, node) = (creation.handle, creation.handle.node)
        let isPresented = events.identifyWriter(of: handle)
        context.history.note(creation.isNew ? .created : .closed(nil), creation.change, by: handle.author)
        if creation.isNew {
            events.noteCreation(of: node, creation.change, under: handle.isClaimed ? handle.claim : nil)
        }
        do throws(Errno) {
            let route = try opener.begin(handle, creation, isPresented: isPresented, for: reply)
            let backing: BackingID?
            if case .backing(let id) = route { backing = id } else { backing = nil }
            let isOpen = reply.created(
                node.id, generation: node.generation, submounts.shown(creation.status),
                names: context.validity(of: node), attributes: attributeReplies.validity(of: node, to: 0),
                handle: handle.id,
                backing: backing, flushing: handle.hasErrorsAtClose)
            guard !isOpen else { return }
            closer.close(handle)
            nodes.forget(node.id, lookups: 1)
        } catch {
            if handle.isClaimed { engine.end(handle.claim) }
            nodes.forget(node.id, lookups: 1)
            reply.fail(error)
        }
    }
}

// The file is made before its claim. The kernel holds the directory's lock until the answer, so no other program can
// find the file without a claim. The request has already waited for earlier claims on the name.
//
// The steps come in this order: the claim on the file is made, the name's pending save ends, the claim on the name
// ends. So no program that waits for the name goes ahead of this request. And the name never seems to be missing while
// its pending save is open.
extension Create: NameOperation {
    struct Facts: NameFacts {
        let change: NameChange
        let mode: UInt32
        let flags: Int32
    }

    struct Outcome {
        fileprivate let file: NewFile
        let fill: FillOutcome?
        /// The engine's answer to the claim on the file. Nil if the file needs no claim.
        var admission: Engine.Admission?
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
        let created = try name.withName { (name) throws(Errno) in
            try makeFile(name, in: below, flags: facts.flags, mode: facts.mode)
        }
        let status = try created.status()
        saveLifecycle.noteArrival(of: name, in: directory, by: caller.thread)
        let node = nodes.introduce(status, as: name, in: directory)
        let recognised = saveLifecycle.recogniseCreation(of: node, as: name, in: directory, by: caller)
        _ = unseenOverwrites.noteArrival(of: node, as: name, in: directory, by: caller.thread, isSaved: false)
        let handle = claims.makeHandle(on: node, flags: facts.flags | O_CREAT, by: caller)
        if recognised.isDocument { handle.noteFilledName() }
        let file = NewFile(handle, of: facts.change, isNew: !recognised.isSave, status, file: created)
        engine.journal.note(.created, at: Engine.now, claim: handle.claim, by: handle)
        return Outcome(file: file, fill: recognised.fill)
    }

    func publish(_ outcome: inout Outcome, of facts: Facts, _ step: NameStep?) {
        let handle = outcome.file.handle
        if handle.isClaimed { outcome.admission = claims.claim(handle, AccessTable.creating) }
        if let fill = outcome.fill { saveLifecycle.closePendingSave(fill.pendingSave, because: .filled) }
    }

    func answer(_ outcome: Outcome, of facts: Facts, _ step: NameStep?, reply: consuming Reply) {
        let file = outcome.file
        guard case .waiting = outcome.admission else { return finishCreate(file, reply: reply) }
        // Another program has made the file out of band, and a claim on the file is held. The kernel holds the
        // directory's lock for this request, so the request may wait only briefly.
        engine.counters.parkedUnderLock.count()
        let parked = Parked(reply)
        engine.onDecision(file.handle.claim) { [self] _ in
            guard let reply = parked.take() else { return }
            context.resumeRequest(file.handle.node, reply, mayBlock: true) { [self] in
                finishCreate(file, reply: $0)
            }
        }
        // If the claim on the name went ahead of another claim, this request has already waited. It does not wait a
        // second time.
        let wait: TimeSpan = step?.isForced ?? false ? .zero : engine.bounds.lockwait
        engine.timers.schedule(at: (Engine.now + wait).nanoseconds) { [engine] in
            engine.force(file.handle.claim)
        }
    }

    func fail(_ reply: consuming Reply, _ error: Errno) { coordinator.failWithRetry(reply, error) }

    func finish(_ scope: Void, _ facts: Facts) { ThreadIdentity.becomeDaemon() }
}

/// A file that was just made, with the handle by which its program will use it.
final class NewFile: Sendable {
    let handle: Handle
    let change: NameChange
    /// Whether presenters are told of a new file. False if the file has the next contents of a document that is being
    /// saved.
    let isNew: Bool
    let status: FileStatus
    private let file: Parked<OwnedDescriptor>

    init(
        _ handle: Handle, of change: NameChange, isNew: Bool, _ status: FileStatus,
        file: consuming OwnedDescriptor
    ) {
        self.handle = handle
        self.change = change
        self.isNew = isNew
        self.status = status
        self.file = Parked(file)
    }

    func takeFile() -> OwnedDescriptor? { file.take() }
}
