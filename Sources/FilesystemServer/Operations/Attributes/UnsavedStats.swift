// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem

/// Answers requests for the attributes of a document while a presenter has unsaved changes of it (D168).
///
/// A program may get a file's size by stat(2), and then read just that many bytes. So a stat of a path first causes a
/// save of the document. All other calls are answered without a save, because the kernel may hold a lock during the
/// request.
final class UnsavedStats: Sendable {
    let statLedger: StatLedger
    private let context: MountContext
    private let shownAttributes: ShownAttributes
    private let attributeReplies: AttributeReplies
    private let engine: Engine
    private let processes: ProcessResolver
    private let nodes: NodeTable
    private let handles: HandleTable
    private let places: PlaceRegistry
    private let parkedRequests: ParkedRequests
    private let retries: RetryTable

    init(
        _ context: MountContext, _ tree: FileTree, _ shownAttributes: ShownAttributes,
        _ coordinator: RetryCoordinator, _ attributeReplies: AttributeReplies
    ) {
        self.context = context
        self.shownAttributes = shownAttributes
        self.attributeReplies = attributeReplies
        engine = context.engine
        processes = context.processes
        nodes = tree.nodes
        handles = tree.handles
        places = tree.places
        parkedRequests = coordinator.parkedRequests
        retries = coordinator.retries
        statLedger = StatLedger(askAgain: context.engine.bounds.askAgainStat)
    }

    /// How many times at most the daemon checks whether a thread sleeps in its system call. The next constant is the
    /// time between two checks.
    private static let mostAttempts = 20
    private static let timeBetweenLooks = TimeSpan.milliseconds(1)

    func attributesOnceSaved(of node: Node, reply: consuming Reply) {
        let thread = reply.caller.thread
        guard node.kind == S_IFREG, thread > 0, engine.isUnsaved(node.item) else {
            return attributeReplies.attributesNow(of: node, reply: reply)
        }
        observeCall(at: node, by: thread, looks: 1, reply: reply)
    }

    /// Checks which system call a thread makes. If the thread does not sleep in the call yet, repeats the check.
    private func observeCall(at node: Node, by thread: Int32, looks: Int, reply: consuming Reply) {
        switch ProcessInspection.attributeCall(ofThread: thread) {
        case .byPath: askForSave(of: node, by: thread, reply: reply)
        case .notSeenYet where looks < Self.mostAttempts:
            let parked = Parked(reply)
            engine.timers.schedule(at: (Engine.now + Self.timeBetweenLooks).nanoseconds) { [self] in
                guard let reply = parked.take() else { return }
                observeCall(at: node, by: thread, looks: looks + 1, reply: reply)
            }
        case .notSeenYet, .other: attributeReplies.attributesNow(of: node, reply: reply)
        }
    }

    private func askForSave(of node: Node, by thread: Int32, reply: consuming Reply) {
        let (now, item) = (Engine.now, node.item)
        let isBack = statLedger.takeRetry(of: thread, to: item, at: now)
        let isRetry = retries.takeRetryMark(thread, at: now) || isBack
        let party = processes.currentParty(ofThread: thread)
        guard let process = party.process, party.programClass == .ordinary,
            mayAsk(party, process, by: thread, about: node)
        else { return attributeReplies.attributesNow(of: node, reply: reply) }
        let command = StatLedger.Command(
            ProcessInspection.commandLineHash(ofProcess: process.number), of: party.session)
        guard !isBack, statLedger.mayAsk(command, for: item, at: now),
            let end = statLedger.beginWait(of: process, at: now)
        else {
            noteTold(process, of: item)
            return attributeReplies.attributesNow(of: node, reply: reply)
        }
        let save = PendingStat(
            engine.makeClaimID(), of: node, item, by: thread, party, process, isRetry: isRetry,
            token: parkedRequests.makeToken())
        claim(save, by: command, until: end, reply: reply)
    }

    /// Returns whether a program's stat may cause a question to a presenter to save. These programs cause no question:
    ///
    /// - the presenter itself, programs that work for the presenter, and programs that started the presenter;
    /// - programs that have the file open, because the presenter might have to wait for them.
    private func mayAsk(_ party: Party, _ process: ProcessID, by thread: Int32, about node: Node) -> Bool {
        let presenters = engine.partiesWithUnsaved(node.item)
        guard presenters.contains(where: { !party.works(for: $0) && !party.includes($0) }) else {
            return false
        }
        return !handles.all(on: node).contains { $0.process == process.number || $0.thread == thread }
    }

    /// Makes a claim to read the document. Because of the claim, the presenter saves the document. The claim ends as
    /// soon as it is granted.
    private func claim(
        _ save: PendingStat, by command: StatLedger.Command, until end: Instant, reply: consuming Reply
    ) {
        let part = ClaimRequest.Part(save.item, .read(), at: places.place(of: save.node))
        guard case .waiting = engine.claim(ClaimRequest(save.claim, .handleless, part), by: save) else {
            engine.end(save.claim)
            return answer(save, reply: reply)
        }
        statLedger.noteAsked(command, for: save.item, at: Engine.now)
        statLedger.noteSaved(save.item, for: save.process, at: Engine.now)
        tidyLater()
        reply.tellInterrupts(save.token)
        save.wait(with: reply)
        parkedRequests.enter(
            save.token,
            ParkedRequests.ParkedRequest(thread: save.thread) { [self] way in
                switch way {
                case .abandoned(.unmounted): giveUp(save, .notConnected)
                case .abandoned(.interrupted), .abandoned(.gone):
                    engine.counters.interrupted.count()
                    giveUp(save)
                case .forced, .overdue: giveUp(save)
                }
            })
        engine.onDecision(save.claim) { [self] decision in endStatWait(save, decision) }
        engine.timers.schedule(at: end.nanoseconds) { [self] in giveUp(save) }
        // A signal may have come while the request was not parked yet.
        parkedRequests.checkSignalsOnce(save.token)
        if parkedRequests.isClosed { giveUp(save, .notConnected) }
    }

    private func endStatWait(_ save: PendingStat, _ decision: Engine.Decision) {
        // The request was already answered, because its wait was given up. The claim was withdrawn then.
        guard let reply = save.takeReply() else { return }
        parkedRequests.leave(save.token)
        if case .granted = decision { engine.end(save.claim) }
        answer(save, reply: reply)
    }

    /// Ends a wait before the save has ended, because the save takes too long or the program got a signal.
    private func giveUp(_ save: PendingStat, _ error: Errno? = nil) {
        guard let reply = save.takeReply() else { return }
        parkedRequests.leave(save.token)
        engine.withdraw(save.claim)
        guard let error else { return answer(save, reply: reply) }
        statLedger.endWait(of: save.process, at: Engine.now)
        reply.fail(error)
    }

    private func answer(_ save: PendingStat, reply: consuming Reply) {
        statLedger.endWait(of: save.process, at: Engine.now)
        if engine.isUnsaved(save.item) {
            noteTold(save.process, of: save.item)
        } else {
            statLedger.forgetTold(save.process, of: save.item)
        }
        context.resumeRequest(save.node, reply) { [self] reply in
            if isSavedElsewhere(save), !save.isRetry, !context.hasEnded {
                return requestRetry(save, reply: reply)
            }
            shownAttributes.answerAttributes(of: save.node.id, valid: .none, reply: reply)
        }
    }

    /// Returns whether the save has given the document another file.
    private func isSavedElsewhere(_ save: PendingStat) -> Bool {
        guard let node = nodes[save.item], node !== save.node else { return false }
        return node.hasName
    }

    /// Answers ESTALE. The kernel then looks the name up a second time and finds the new file. The program sees no
    /// error.
    private func requestRetry(_ save: PendingStat, reply: consuming Reply) {
        let now = Engine.now
        engine.counters.stale.count()
        engine.journal.note(.stale, at: now, claim: save.claim, by: save)
        retries.noteRetryRequest(reply.caller, at: now)
        statLedger.noteRetryRequest(save.thread, to: save.item, at: now)
        reply.fail(.stale)
    }

    /// Called when a thread's lookup has found a document. Ends the retry of the thread's stat, if there is one.
    func endStatRetry(of thread: Int32, finding status: FileStatus) {
        guard let item = nodes[FileKey(status)]?.item,
            statLedger.isRetrying(thread, to: item, at: Engine.now)
        else { return }
        _ = retries.takeRetryMark(thread, at: Engine.now)
    }
}

// These functions are for a program that got a document's attributes without its unsaved changes. They decide which
// contents the program reads (D169).
extension UnsavedStats {
    private func noteTold(_ process: ProcessID, of item: ItemID) {
        statLedger.noteTold(process, of: item, at: Engine.now)
        tidyLater()
    }

    private func tidyLater() {
        guard let moment = statLedger.nextTidying(after: Engine.now) else { return }
        engine.timers.schedule(at: moment.nanoseconds) { [self] in
            statLedger.tidy(at: Engine.now)
            tidyLater()
        }
    }

    /// Returns whether an open must read the saved contents and not the unsaved changes. This is so if the program has
    /// got the size of the saved contents before.
    func readsAsSaved(_ item: ItemID, flags: Int32, by thread: Int32) -> Bool {
        guard statLedger.knows(item), thread > 0 else { return false }
        let party = processes.currentParty(ofThread: thread)
        // A presenter saves the document only for other programs, and not for programs that work for the presenter.
        guard !engine.partiesPresenting(item).contains(where: party.works(for:)) else { return false }
        statLedger.noteOpened(item, by: party.session)
        guard let process = party.process, AccessTable.opening(flags, of: .document) == .read() else {
            return false
        }
        statLedger.forgetSaved(item, for: process)
        return engine.isUnsaved(item) && statLedger.wasTold(process, of: item, at: Engine.now)
    }

    /// Returns whether a program is about to destroy contents that were saved because of its own stat, and that it has
    /// not read (D168).
    ///
    /// Without that stat, the presenter would still have these contents as unsaved changes.
    func hasUnreadSave(_ item: ItemID, by thread: Int32) -> Bool {
        guard statLedger.knows(item), thread > 0 else { return false }
        let party = processes.currentParty(ofThread: thread)
        guard let process = party.process else { return false }
        return statLedger.wasSaved(item, for: [process] + party.ancestors, at: Engine.now)
    }
}
