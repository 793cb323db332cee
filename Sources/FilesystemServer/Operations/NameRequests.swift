// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization
import VersionStore

/// The steps that requests for names have in common: the claim of a free name, and the contents that a step endangers.
final class NameRequests: Sendable {
    /// Makes files as the requester, if the current thread cannot.
    let makers: WorkerPool
    private let context: MountContext
    private let preserver: ContentPreserver
    private let coordinator: RetryCoordinator
    private let unsavedStats: UnsavedStats
    private let engine: Engine
    private let processes: ProcessResolver
    private let handles: HandleTable
    private let places: PlaceRegistry
    private let documents: DocumentTable

    init(
        _ context: MountContext, _ tree: FileTree, _ preserver: ContentPreserver, _ events: DocumentEvents,
        _ coordinator: RetryCoordinator, _ unsavedStats: UnsavedStats
    ) throws(Errno) {
        self.context = context
        self.preserver = preserver
        self.coordinator = coordinator
        self.unsavedStats = unsavedStats
        engine = context.engine
        processes = context.processes
        handles = tree.handles
        places = tree.places
        documents = events.documents
        makers = try WorkerPool(threads: 1) { [engine = context.engine] in
            // Without this the thread makes no files; it never makes them as another user.
            do { try ThreadIdentity.prepare() } catch { engine.log("a thread cannot make files: \(error)") }
        }
    }

    /// The step that makes a new name. It receives the claim to end, if any, and whether that claim was granted over another.
    typealias NameStep = @Sendable (ClaimID?, Bool, consuming Reply) -> Void

    /// Waits for claims on a name that does not exist yet, or on the package around it.
    ///
    /// The kernel retries a request that was answered ESTALE, and may then find something else under the name. So its claim
    /// ends when it is granted. The retried request makes its step under a new claim, which is granted at once.
    func whenNameIsFree(_ change: NameChange, reply: consuming Reply, then step: @escaping NameStep) {
        let former = coordinator.takeRetriedRequest(.making(change), by: change.caller)
        guard let part = awaitedNamePart(by: change) ?? changeOfPackage(by: change) else {
            coordinator.giveUp(former)
            return step(nil, false, reply)
        }
        let request = ClaimedRequest(
            .making(change), ClaimRequest(engine.makeClaimID(), .nameChange, part), by: change.caller.thread,
            processes: processes)
        coordinator.coordinate(request, after: former, reply: reply) { [self] request, grant, reply in
            asRequester(under: request.claim, in: change.directory, reply) { reply in
                step(request.claim, grant.basis == .proceeded, reply)
            }
        }
    }

    /// The claim for a name under which a program awaits or already has a document.
    ///
    /// Its presenters are asked only to admit a writer: a missing document cannot be deleted.
    func awaitedNamePart(by change: NameChange) -> ClaimRequest.Part? {
        guard engine.hasAwareClients, let document = documents.awaiting(change.name, in: change.directory)
        else {
            return nil
        }
        return ClaimRequest.Part(document, AccessTable.filling, at: places.place(in: change.directory))
    }

    /// The claim for a new name in a package that another program may use as a whole.
    func changeOfPackage(by change: NameChange) -> ClaimRequest.Part? {
        guard places.isInPackage(change.directory), !change.isPrivate else { return nil }
        let directory = change.directory
        return ClaimRequest.Part(
            directory.item, AccessTable.makingInPackage, at: places.place(of: directory))
    }

    /// A request that waited under a lock continues on the thread that decided it. That thread may be unable to make files with
    /// another identity.
    private func asRequester(
        under claim: ClaimID, in directory: Node, _ reply: consuming Reply,
        _ step: @escaping @Sendable (consuming Reply) -> Void
    ) {
        if ThreadIdentity.isPrepared { return step(reply) }
        let parked = Parked(reply)
        let make: @Sendable () -> Void = { [engine] in
            guard let reply = parked.take() else { return }
            guard ThreadIdentity.isPrepared else {
                engine.end(claim)
                return reply.fail(.io)
            }
            step(reply)
        }
        if directory.isDistant { directory.threads(for: .making).run(make) } else { makers.run(make) }
    }

    func impersonate(_ caller: Caller) {
        ThreadIdentity.become(user: caller.user, group: caller.group, umask: caller.umask)
    }

    /// Takes a step that changes names, and ends its claim unless the step did. Contents that the step would destroy are
    /// preserved first: those of a file that others write to, or that its presenters did not relinquish. Files that are only
    /// put aside lose nothing yet, since their writers go on with them.
    func preserveThenApply(
        _ request: ClaimedRequest, _ grant: Grant, endangering node: Node?, puttingAside others: [Node] = [],
        reply: consuming Reply, _ step: @escaping @Sendable (consuming Reply) -> Void
    ) {
        let (writers, hasUnseen) = strangers(writingTo: node, passedBy: request, grant)
        let isUnanswered = !grant.unanswered.isEmpty
        let isSavedForLook = node.map { unsavedStats.hasUnreadSave($0.item, by: request.thread) } ?? false
        let isLost = !writers.isEmpty || hasUnseen || isUnanswered || isSavedForLook
        let lost = node.flatMap { $0.kind == S_IFREG && isLost ? $0 : nil }
        let aside = others.filter { node in
            guard node.kind == S_IFREG else { return false }
            // Of two exchanged files one may be the new contents, which no other program uses.
            let isShown = others.count < 2 || request.isInPackage || engine.isPresented(node.item)
            return (isUnanswered && isShown) || strangers(writingTo: node, passedBy: request, grant).hasUnseen
        }
        guard let first = lost ?? aside.first else {
            step(reply)
            return engine.end(request.claim)
        }
        let parked = Parked(reply)
        context.work(on: first, for: .preserving) { [self] in
            for node in aside {
                preserver.preserveSetAside(node, because: grant.preservationCause, by: request)
            }
            // Contents that a presenter did not relinquish are lost even without a writer. Contents written in an unfinished
            // access are lost, too, because their writer is unknown.
            let mustStay = hasUnseen || isUnanswered || isSavedForLook
            if let lost {
                preserveFile(
                    lost, for: writers, mustStay: mustStay, because: grant.preservationCause, by: request)
            }
            if let reply = parked.take() { step(reply) }
            engine.end(request.claim)
        }
    }

    /// The writers of other programs that a granted name change preempts. The flag says whether it also preempts an access
    /// without a handle, in which other programs' handles may write (G5).
    private func strangers(
        writingTo node: Node?, passedBy request: ClaimedRequest, _ grant: Grant
    ) -> (writers: [Handle], hasUnseen: Bool) {
        guard let node else { return ([], false) }
        let unclaimed = writersWithoutTurns(on: node)
        // Writers of a renamed file continue with it.
        let listed = grant.preempted.compactMap { engine.claimant(of: $0.claim) }
            .filter { ($0 as? Handle)?.node ?? node === node }
        let met = grant.preemptsMore ? listed.filter { !($0 is Handle) } + handles.writers(on: node) : listed
        guard !met.isEmpty || !unclaimed.isEmpty else { return ([], false) }
        let party = request.identify()
        let isStranger = { (claimant: any Claimant) in !claimant.identify().isExempt(from: party) }
        let preempted = met.filter(isStranger)
        return (
            preempted.compactMap { $0 as? Handle } + unclaimed.filter(isStranger),
            preempted.contains { !($0 is Handle) && $0.mayWrite(node.path) }
        )
    }

    /// Writers without coordination (``Handle/writesUncoordinated``), if the file is about to lose its last name. The programs
    /// of PostgreSQL are left out, since they remove each other's files.
    private func writersWithoutTurns(on node: Node) -> [Handle] {
        guard node.isOpen else { return [] }
        let writers = handles.writers(on: node).filter(\.writesUncoordinated)
        guard !writers.isEmpty, !node.isInCluster else { return [] }
        do throws(Errno) {
            return try node.descriptor().descriptor.status().linkCount > 1 ? [] : writers
        } catch {
            return writers
        }
    }

    /// Preserves a file that others write to. A writer that was closed meanwhile is checked again for written data.
    private func preserveFile(
        _ node: Node, for writers: [Handle], mustStay: Bool, because cause: PreservationCause,
        by subject: any JournalSubject
    ) {
        let others = handles.writers(on: node).filter { handle in !writers.contains { $0 === handle } }
        preserver.preserveFile(
            node, for: writers, and: others, mustStay: mustStay, because: cause, by: subject)
        // Not by the handle table, which lacks a handle that is being opened.
        for writer in writers + others where writer.isClosed {
            preserver.releaseFiles(of: writer)
        }
    }
}

extension Claimant {
    /// Whether one of its accesses writes to a path or to a directory above it.
    fileprivate func mayWrite(_ path: [UInt8]) -> Bool {
        intents.contains { intent in
            guard intent.access.isWrite else { return false }
            let own = intent.path()
            return own.isEmpty || path == own || path.starts(with: own + [UInt8(ascii: "/")])
        }
    }
}
