// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization
import VersionStore

/// Opening is the moment of coordination: a claim is made here and ends with the handle.
///
/// The handle is the claim's number; under passthrough the data does not pass through the daemon.
///
/// An open that meets no other program takes these steps, on one thread:
/// 1. ``open(_:flags:reply:)``: the thread does not return to an earlier request.
/// 2. ``beginOpen(_:flags:isRetry:fileClaims:reply:)``: the handle is made, and its claim is granted at once.
/// 3. ``finishOpen(_:grant:reply:)``: the open would destroy no contents of other programs.
/// 4. `complete`: the data is made reachable (``DataPlane``), the handle enters the table, and the request is answered.
///
/// An open that must wait is parked as a ``PendingOpen``, and goes on with step 3 when its claim is granted.
final class Open: Sendable {
    /// Limits the log lines about users with too many waiting opens, which may be deliberate.
    let crowdLines = SharedLogRateLimiter(lines: 1)
    let openQueue: OpenQueue
    let context: MountContext
    let preserver: ContentPreserver
    let data: DataPlane
    let cleanWriters: CleanWriters
    let closePreserver: ClosePreserver
    let events: DocumentEvents
    let identity: DocumentIdentity
    let saveLifecycle: SaveLifecycle
    let coordinator: RetryCoordinator
    let unsavedStats: UnsavedStats
    let closer: HandleCloser
    let lockPoller: LockPoller
    let engine: Engine
    let connection: Connection
    let processes: ProcessResolver
    let submounts: Submounts
    let nodes: NodeTable
    let places: PlaceRegistry
    let expectedRetries: ExpectedRetries<PendingOpen>
    let pageCachePolicy: PageCachePolicy
    let parkedRequests: ParkedRequests
    let retries: RetryTable
    let statLedger: StatLedger

    init(
        _ context: MountContext, _ tree: FileTree, _ data: DataPlane, _ preserver: ContentPreserver,
        _ cleanWriters: CleanWriters, _ closePreserver: ClosePreserver, _ events: DocumentEvents,
        _ identity: DocumentIdentity, _ saveLifecycle: SaveLifecycle, _ coordinator: RetryCoordinator,
        _ unsavedStats: UnsavedStats, _ closer: HandleCloser, _ lockPoller: LockPoller
    ) {
        self.context = context
        self.preserver = preserver
        self.data = data
        self.cleanWriters = cleanWriters
        self.closePreserver = closePreserver
        self.events = events
        self.identity = identity
        self.saveLifecycle = saveLifecycle
        self.coordinator = coordinator
        self.unsavedStats = unsavedStats
        self.closer = closer
        self.lockPoller = lockPoller
        engine = context.engine
        connection = context.connection
        processes = context.processes
        submounts = context.submounts
        nodes = tree.nodes
        places = tree.places
        expectedRetries = coordinator.expectedRetries
        pageCachePolicy = data.pageCachePolicy
        parkedRequests = coordinator.parkedRequests
        retries = coordinator.retries
        statLedger = unsavedStats.statLedger
        openQueue = OpenQueue { [timers = context.engine.timers] body in
            timers.schedule(at: (Engine.now + .milliseconds(100)).nanoseconds, body)
        }
    }

    func open(_ id: NodeID, flags: Int32, reply: consuming Reply) {
        guard let node = nodes[id] else { return reply.fail(.stale) }
        let caller = reply.caller
        if !retries.isEmpty { retries.endLookup(by: caller.thread) }
        saveLifecycle.noteSaveActivity(by: caller.thread)
        let isChange = flags & O_ACCMODE != O_RDONLY || flags & O_TRUNC != 0
        saveLifecycle.noteUse(of: node, by: caller.thread, isChange: isChange)
        let isRetry = retries.takeRetryMark(caller.thread, at: Engine.now)
        if !expectedRetries.expectsNone, let open = expectedRetries.take(by: caller.thread) {
            return resume(open, on: node, flags: flags, isRetry: isRetry, reply: reply)
        }
        guard openQueue.isCrowded(reply.caller.user, in: parkedRequests) else {
            return beginOpen(node, flags: flags, isRetry: isRetry, reply: reply)
        }
        beginQueued(node, flags: flags, isRetry: isRetry, reply: reply)
    }

    /// Begins an open after earlier opens of the same user, so that requests of other users do not queue behind them.
    private func beginQueued(_ node: Node, flags: Int32, isRetry: Bool, reply: consuming Reply) {
        let user = reply.caller.user
        let parked = Parked(reply)
        openQueue.add(of: user, on: node.isDistant ? node.key.mount : 0) { [self] in
            guard let reply = parked.take() else { return }
            // The program will not use the file, so the file must not be truncated for it.
            guard !context.hasEnded else { return reply.fail(.notConnected) }
            guard !reply.isInterrupted || !ParkedRequests.isGone(reply.caller.thread) else {
                return reply.fail(.interrupted)
            }
            beginOpen(node, flags: flags, isRetry: isRetry, reply: reply)
        } by: { turn in
            node.threads(for: .opening).run(turn)
        }
    }

    /// The file that has the node's former name now, if the node lost its name during this open.
    private func successor(of node: Node) -> Node? {
        let (name, directory, hasName) = node.location
        guard !hasName, let directory else { return nil }
        do throws(Errno) {
            return nodes[FileKey(try directory.status(of: name))]
        } catch {
            return nil
        }
    }

    /// `isRetry` says that the kernel asks for the second time, and will not ask again.
    func beginOpen(
        _ node: Node, flags: Int32, isRetry: Bool, fileClaims: Int = 0, reply: consuming Reply
    ) {
        closer.closeLingering(on: node)
        let caller = reply.caller
        let handle = makeHandle(on: node, flags: flags, by: caller, isRetry: isRetry)
        guard handle.isClaimed else { return finishOpen(handle, grant: nil, reply: reply) }
        let part = ClaimRequest.Part(handle.item, handle.access, at: places.place(of: node))
        let request = ClaimRequest(handle.claim, .handle, part, accessPattern: data.accessPattern(of: handle))
        switch engine.claim(request, by: handle) {
        case .granted(let grant): admitAtOnce(handle, grant, isRetry: isRetry, reply: reply)
        case .waiting: park(handle, isRetry: isRetry, fileClaims: fileClaims, reply: reply)
        }
    }

    /// Opens a file with a claim granted at once, unless a rename or an unlink came before the claim.
    private func admitAtOnce(
        _ handle: Handle, _ grant: Grant, isRetry: Bool, reply: consuming Reply
    ) {
        let node = handle.node
        let (item, hasName) = node.document
        if !hasName, engine.hasAwareClients, !isRetry, handle.thread > 0,
            !ProcessInspection.isKernelThread(handle.thread), let successor = successor(of: node)
        {
            engine.end(handle.claim)
            let next = makeHandle(on: node, successor.item, flags: handle.flags, by: handle.caller)
            return retrySuccessor(next, reply: reply)
        }
        let admittance = OpenAdmission(
            basis: grant.basis, hasName: hasName, isSameDocument: item == handle.item,
            isChange: handle.mayWrite || handle.truncates)
        switch admittance {
        case .open: finishOpen(handle, grant: grant, reply: reply)
        case .claimAgain:
            engine.end(handle.claim)
            beginOpen(node, flags: handle.flags, isRetry: isRetry, reply: reply)
        case .lookUpAgain:
            let open = PendingOpen(
                handle, by: reply.caller.user, token: parkedRequests.makeToken(), isRetry: isRetry)
            admit(open, grant, reply: reply)
        }
    }

    func makeHandle(
        _ claim: ClaimID? = nil, on node: Node, _ item: ItemID? = nil, flags: Int32, by caller: Caller,
        isRetry: Bool = false
    ) -> Handle {
        Handle(
            claim ?? engine.makeClaimID(), on: node, item ?? node.item, flags: flags, by: caller,
            isClaimed: node.needsClaim(flags: flags),
            readsAsSaved: !statLedger.isEmpty
                && unsavedStats.readsAsSaved(item ?? node.item, flags: flags, by: caller.thread),
            isRetry: isRetry, processes: processes)
    }

    private func park(_ handle: Handle, isRetry: Bool, fileClaims: Int, reply: consuming Reply) {
        let token = parkedRequests.makeToken()
        let open = PendingOpen(
            handle, by: reply.caller.user, token: token, isRetry: isRetry, fileClaims: fileClaims)
        // Added at once: its wait may be over already, and its name must not be taken away.
        expectedRetries.addWaiting(open)
        if handle.node.detectDatabase() {
            expectedRetries.removeWaiting(open)
            engine.end(handle.claim)
            let plain = Handle(
                engine.makeClaimID(), on: handle.node, handle.item, flags: handle.flags, by: handle.caller,
                isClaimed: false, processes: processes)
            return finishOpen(plain, grant: nil, reply: reply)
        }
        reply.tellInterrupts(token)
        let parked = Parked(reply)
        open.park(parked)
        parkOpen(open)
        lockPoller.scheduleLockPoll(on: handle.node)
        engine.onDecision(open.claim) { [self] decision in endOpenWait(open, decision) }
        forceBeyondShare(open)
        // The kernel reports a signal only once, and may have done so while the request waited for something else.
        if fileClaims > 0 { parkedRequests.checkSignalsOnce(token) }
        if parkedRequests.isClosed { abandon(open, .unmounted) }
    }

    /// Opens a file with a granted claim, or without any.
    func finishOpen(_ handle: Handle, grant: Grant?, reply: consuming Reply) {
        if handle.mayWrite || handle.truncates, handle.node.hasLinksWithoutWriters {
            return detachLinks(for: handle, grant, reply: reply)
        }
        guard let grant else { return complete(handle, reply: reply) }
        let holdStores = cleanWriters.mayHoldDirtyPages(grant, on: handle.node)
        // A preempted handle without changes must be observed before the file is changed.
        let isUnseen = holdStores || grant.preempted.contains { $0.isClean }
        guard isUnseen || causeToPreserve(for: handle, grant) != nil else {
            return complete(handle, reply: reply)
        }
        let waiting = makeInterruptible(handle, reply: reply)
        guard isUnseen else { return preserveAndOpen(handle, grant, waiting) }
        handle.node.threads(for: holdStores ? .fileObservation : .processObservation).run { [self] in
            if holdStores { handle.node.writeBackStores() }
            // Of very many handles none is observed: each counts as having written when it ends.
            if !grant.preemptsMore {
                for writer in cleanWriters.writers(passedBy: grant) where cleanWriters.hasYieldedClean(writer)
                {
                    writer.recordObservedPosition()
                }
            }
            preserveAndOpen(handle, grant, waiting)
        }
    }

    /// Preserved contents that share the file must not change: each link in the store gets its own copy before the file is
    /// written.
    private func detachLinks(for handle: Handle, _ grant: Grant?, reply: consuming Reply) {
        let waiting = makeInterruptible(handle, reply: reply)
        context.work(on: handle.node, for: .preserving) { [self] in
            var isDetached = true
            do throws(StoreError) { try preserver.detachLinks(of: handle.node) } catch { isDetached = false }
            guard let reply = takeReply(waiting) else { return endUnopened(handle) }
            guard isDetached else {
                endUnopened(handle)
                return reply.fail(.busy)
            }
            finishOpen(handle, grant: grant, reply: reply)
        }
    }

    /// Ends a handle that was not opened: ends its claim and removes it from the writers of preserved links.
    private func endUnopened(_ handle: Handle) {
        handle.closeFile(forGood: true)
        guard !handle.linkedVersions.isEmpty else { return endClaim(of: handle) }
        context.work(on: handle.node, for: .preserving) { [self] in
            preserver.releaseFiles(ofUnopened: handle)
            endClaim(of: handle)
        }
    }

    private func endClaim(of handle: Handle) { if handle.isClaimed { engine.end(handle.claim) } }

    /// Preserves the contents of the preempted writer, which this open would destroy, and then opens.
    private func preserveAndOpen(_ handle: Handle, _ grant: Grant, _ waiting: InterruptibleReply) {
        let open: @Sendable () -> Void = { [self] in
            if let reply = takeReply(waiting) { complete(handle, reply: reply) } else { endUnopened(handle) }
        }
        context.work(on: handle.node, for: .preserving) { [self] in
            do throws(StoreError) {
                // An interrupted open preempts nothing.
                let cause = isReplyAwaited(waiting) ? causeToPreserve(for: handle, grant) : nil
                if let cause, !handle.onlyAppends {
                    try preserver.preserveContents(
                        of: handle.node, because: cause, by: handle, doubting: context.isTimeRacy,
                        before: open)
                } else {
                    if let cause {
                        try preserver.preserveContents(of: handle.node, because: cause, by: handle)
                    }
                    open()
                }
            } catch {
                endUnopened(handle)
                if let reply = takeReply(waiting) { reply.fail(.busy) }
            }
            preserver.letGoOfGrown(by: handle)
        }
    }

    /// Why the contents of a file are preserved before it is opened; nil if no program loses contents.
    private func causeToPreserve(for handle: Handle, _ grant: Grant) -> PreservationCause? {
        // A link of the store may hold a replaced file for its remaining writers. A waiter for the document is not told of them
        // (R1).
        let mayCut = handle.truncates || handle.mayWrite && !handle.onlyAppends
        if mayCut, handle.writesToOrphan { return .orphan }
        if handle.truncates, unsavedStats.hasUnreadSave(handle.item, by: handle.thread) { return .presenter }
        return cleanWriters.endangers(grant, by: handle.claim) ? grant.preservationCause : nil
    }

    private func complete(_ handle: Handle, reply: consuming Reply) {
        // The last other writer may have closed the file meanwhile.
        if handle.mayWrite || handle.truncates, !preserver.join(handle) {
            return detachLinks(for: handle, nil, reply: reply)
        }
        let hasInterestedPresenter = events.identifyWriter(of: handle)
        let caller = reply.caller
        let node = handle.node
        do throws(Errno) {
            // The kernel checks the option of this mount, not of the mount below.
            if handle.isForExecution, submounts.forbids(.noexec, on: node.key.mount) { throw .noAccess }
            let descriptor = try node.pin()
            let route: DataRoute
            do throws(Errno) {
                route = try data.beginData(of: handle, through: descriptor, for: reply)
            } catch {
                node.unpin()
                throw error
            }
            do throws(Errno) {
                // Last, because a failed open must not change the file.
                if handle.truncates { try data.truncate(handle, through: descriptor, for: caller) }
            } catch {
                handle.closeFile()
                data.leaveRoute(handle)
                node.unpin()
                throw error
            }
            identity.insert(handle)
            if hasInterestedPresenter { events.watch(handle) } else { events.watchIfHeard(handle) }
            node.noteOpened()
            let isOpen: Bool
            switch route {
            case .backing(let backing):
                isOpen = reply.opened(
                    handle.id, backing: backing, flushing: closePreserver.needsFlush(handle))
            case .daemon:
                let isMappable = !handle.isAppendOnly
                let keeps = data.mayReusePageCache(for: handle)
                if !keeps { data.invalidateSizeIfChanged(for: handle) }
                isOpen = reply.opened(
                    handle.id, backing: nil, isMappable: isMappable, keepingContents: keeps,
                    flushing: closePreserver.needsFlush(handle))
            }
            if !isOpen {
                // The kernel has not dropped its cached pages.
                pageCachePolicy.invalidate(node)
                closer.close(handle)
            } else if handle.isClaimed, handle.isForExecution {
                // ETXTBSY protects a running program; its claim need not block writers for hours.
                engine.end(handle.claim)
            }
        } catch {
            endUnopened(handle)
            if handle.isRetry {
                reply.fail(error)
            } else {
                coordinator.failWithRetry(reply, error)
            }
        }
    }
}
