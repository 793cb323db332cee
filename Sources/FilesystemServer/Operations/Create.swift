// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// New files, made with the identity of the caller.
final class Create: Sendable {
    private let context: MountContext
    private let sourceWatch: SourceWatch
    private let data: DataPlane
    private let events: DocumentEvents
    private let identity: DocumentIdentity
    private let saveLifecycle: SaveLifecycle
    private let coordinator: RetryCoordinator
    private let attributeReplies: AttributeReplies
    private let closer: HandleCloser
    private let opens: Open
    private let nameRequests: NameRequests
    private let engine: Engine
    private let submounts: Submounts
    private let nodes: NodeTable
    private let places: PlaceRegistry

    init(
        _ context: MountContext, _ tree: FileTree, _ sourceWatch: SourceWatch, _ data: DataPlane,
        _ events: DocumentEvents, _ identity: DocumentIdentity, _ saveLifecycle: SaveLifecycle,
        _ coordinator: RetryCoordinator, _ attributeReplies: AttributeReplies, _ closer: HandleCloser,
        _ opens: Open, _ nameRequests: NameRequests
    ) {
        self.context = context
        self.sourceWatch = sourceWatch
        self.data = data
        self.events = events
        self.identity = identity
        self.saveLifecycle = saveLifecycle
        self.coordinator = coordinator
        self.attributeReplies = attributeReplies
        self.closer = closer
        self.opens = opens
        self.nameRequests = nameRequests
        engine = context.engine
        submounts = context.submounts
        nodes = tree.nodes
        places = tree.places
    }

    func create(
        _ name: borrowing FileName, in parent: NodeID, mode: UInt32, flags: Int32, reply: consuming Reply
    ) {
        guard let directory = nodes[parent] else { return reply.fail(.stale) }
        guard !context.isPrivate(name, in: parent) else { return reply.fail(.notPermitted) }
        let change = NameChange(name.copy(), in: directory, caller: reply.caller)
        guard let reply = coordinator.retryIfRenamedOutOfBand(change.caller, from: directory, reply) else {
            return
        }
        nameRequests.whenNameIsFree(change, reply: reply) { [self] claim, isForced, reply in
            create(change, mode: mode, flags: flags, after: claim, isForced: isForced, reply: reply)
        }
    }

    /// Creates first and claims afterwards. The kernel holds the directory's lock, so no other program can find or claim the
    /// file in between. Claims on its name were waited for.
    private func create(
        _ change: NameChange, mode: UInt32, flags: Int32, after nameClaim: ClaimID?, isForced: Bool,
        reply: consuming Reply
    ) {
        let (name, directory, caller) = (change.name, change.directory, change.caller)
        coordinator.clearRetryMark(caller)
        defer { ThreadIdentity.becomeDaemon() }
        do throws(Errno) {
            nameRequests.impersonate(caller)
            sourceWatch.noteOwn(name, in: directory)
            let below = try directory.descriptor()
            let created = try name.withName { (name) throws(Errno) in
                try makeFile(name, in: below, flags: flags, mode: mode)
            }
            let status = try created.status()
            saveLifecycle.noteArrival(of: name, in: directory, by: caller.thread)
            let node = nodes.introduce(status, as: name, in: directory)
            let outcome = saveLifecycle.recogniseCreation(of: node, as: name, in: directory, by: caller)
            let handle = opens.makeHandle(on: node, flags: flags | O_CREAT, by: caller)
            if outcome.isDocument { handle.noteFilledName() }
            let creation = NewFile(handle, of: change, isNew: !outcome.isSave, status, file: created)
            engine.journal.note(.created, at: Engine.now, claim: handle.claim, by: handle)
            claim(creation, outcome.fill, after: nameClaim, isForced: isForced, reply: reply)
        } catch {
            if let nameClaim { engine.end(nameClaim) }
            coordinator.failWithRetry(reply, error)
        }
    }

    /// Makes only a new file: a file that appeared out of band was neither claimed nor checked for the caller. The kernel looks
    /// that file up and opens it instead.
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

    /// Claims the new file, then ends the pending save of its name, then answers. In this order no waiter for the name gets in
    /// between, and the name is not vacated again before the pending save has ended.
    private func claim(
        _ creation: NewFile, _ fill: FillOutcome?, after nameClaim: ClaimID?, isForced: Bool,
        reply: consuming Reply
    ) {
        let handle = creation.handle
        let part = ClaimRequest.Part(handle.item, AccessTable.creating, at: places.place(of: handle.node))
        let request = ClaimRequest(handle.claim, .handle, part, accessPattern: data.accessPattern(of: handle))
        let admission = handle.isClaimed ? engine.claim(request, by: handle) : nil
        if let fill { saveLifecycle.closePendingSave(fill.pendingSave, because: .filled) }
        if let nameClaim { engine.end(nameClaim) }
        switch admission {
        case nil: finishCreate(creation, reply: reply)
        case .granted: finishCreate(creation, reply: reply)
        case .waiting:
            // The file was made out of band, and another claim is held. The kernel holds the directory's lock for this request,
            // so the wait is short.
            engine.counters.parkedUnderLock.count()
            let parked = Parked(reply)
            engine.onDecision(handle.claim) { [self] _ in
                guard let reply = parked.take() else { return }
                context.resumeRequest(handle.node, reply, mayBlock: true) { [self] in
                    finishCreate(creation, reply: $0)
                }
            }
            // A request that proceeded over another claim on the name has waited already.
            let wait: TimeSpan = isForced ? .zero : engine.bounds.lockwait
            engine.timers.schedule(at: (Engine.now + wait).nanoseconds) { [engine] in
                engine.force(handle.claim)
            }
        }
    }

    private func finishCreate(_ creation: NewFile, reply: consuming Reply) {
        let (handle, node) = (creation.handle, creation.handle.node)
        let hasInterestedPresenter = events.identifyWriter(of: handle)
        if creation.isNew {
            events.noteCreation(of: node, creation.change, under: handle.isClaimed ? handle.claim : nil)
        }
        do throws(Errno) {
            let descriptor = try node.pin()
            let route: DataRoute
            do throws(Errno) {
                route = try data.beginData(
                    of: handle, through: descriptor, created: creation.takeFile(), looking: creation.status,
                    for: reply)
            } catch {
                node.unpin()
                throw error
            }
            identity.insert(handle)
            if hasInterestedPresenter { events.watch(handle) } else { events.watchIfHeard(handle) }
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

/// A file that was just made and is about to be open.
private final class NewFile: Sendable {
    let handle: Handle
    let change: NameChange
    /// Whether it is not a step of a save.
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
