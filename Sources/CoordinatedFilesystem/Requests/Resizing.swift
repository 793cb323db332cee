// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization
import VersionStore

/// `truncate(2)`: a change of size without a handle, which waits like an open.
///
/// The kernel holds the file's lock meanwhile, so the wait is a bounce.
extension CoordinatedFilesystem {
    func resize(_ node: Node, _ change: AttributeChange, reply: consuming Reply) {
        let thread = reply.caller.thread
        if let bounce = bounces.finish(by: thread, where: { $0.isResizing(node.id) }),
            case .resizing(_, let claim) = bounce.cause
        {
            return resume(claim, isSettled: bounce.isSettled, node, change, reply: reply)
        }
        let claim = engine.makeClaimID()
        let resizer = Resizer(claim, node, thread: thread, processes: processes)
        let access = AccessTable.resizing(to: change.size ?? 0)
        let request = Request(claim, .request, Request.Part(node.item, access))
        switch engine.claim(request, by: resizer) {
        case .granted(let grant): carryOut(change, on: node, claim, grant, reply: reply)
        case .waiting:
            guard thread > 0, let parent = node.state.withLock({ $0.parent }) else {
                return parkUnderLock(claim, node, change, reply: reply)
            }
            sendBack(claim, resizer, below: parent, reply: reply)
        }
    }

    private func sendBack(_ claim: ClaimID, _ resizer: Resizer, below parent: Node, reply: consuming Reply) {
        let thread = reply.caller.thread
        let serial = beginBounce(.resizing(resizer.node.id, claim), in: parent.id, by: thread)
        noteBounce(by: resizer, claim)
        resizer.expectOutcome()
        engine.whenSettled(claim) { [self] decision in
            resizer.decide(decision)
            answerQuestion(of: serial, by: thread, about: parent.id)
            expire(serial, of: thread) { [engine] in
                if case .granted = decision { engine.end(claim) }
            }
        }
        connection.invalidateAttributes(of: parent.id)
        reply.fail(.stale)
    }

    /// The request came back: carried out if its turn came, else it waits where it is, for a moment.
    private func resume(
        _ claim: ClaimID, isSettled: Bool, _ node: Node, _ change: AttributeChange, reply: consuming Reply
    ) {
        guard let resizer = engine.claimant(of: claim) as? Resizer else { return reply.fail(.busy) }
        guard isSettled, let decision = resizer.decision else {
            return parkUnderLock(claim, node, change, reply: reply)
        }
        switch decision {
        case .granted(let grant): carryOut(change, on: node, claim, grant, reply: reply)
        case .refused: reply.fail(.busy)
        }
    }

    /// The last resort: the kernel holds the file's lock, so this wait is short and then goes ahead.
    private func parkUnderLock(
        _ claim: ClaimID, _ node: Node, _ change: AttributeChange, reply: consuming Reply
    ) {
        engine.counters.parkedUnderLock.count()
        let parked = Parked(reply)
        let conclude: Engine.Outcome = { [self] decision in
            guard let reply = parked.take() else { return }
            switch decision {
            case .granted(let grant): carryOut(change, on: node, claim, grant, reply: reply)
            case .refused: reply.fail(.busy)
            }
        }
        if let resizer = engine.claimant(of: claim) as? Resizer, resizer.isTold {
            resizer.whenDecided(conclude)
        } else {
            engine.whenSettled(claim, tell: conclude)
        }
        engine.timers.schedule(at: (Engine.now + engine.bounds.lockwait).nanoseconds) { [engine] in
            engine.force(claim)
        }
    }

    private func carryOut(
        _ change: AttributeChange, on node: Node, _ claim: ClaimID, _ grant: Grant, reply: consuming Reply
    ) {
        let isEndangering = endangers(grant)
        guard isEndangering || engine.suspendedWriter(beside: claim) != nil else {
            apply(change, to: node, reply: reply)
            return engine.end(claim)
        }
        let parked = Parked(reply)
        engine.workers.run { [self] in
            guard let reply = parked.take() else { return }
            defer { engine.end(claim) }
            let claimant = engine.claimant(of: claim)
            do throws(StoreError) {
                if isEndangering { try keeper.keepContents(of: node, because: .claim, by: claimant) }
            } catch {
                return reply.fail(.busy)
            }
            apply(change, to: node, reply: reply)
            if engine.suspendedWriter(beside: claim) != nil { keeper.keepLeft(in: node, by: claimant) }
        }
    }
}

/// Who changes a size without a handle.
final class Resizer: Claimant {
    private struct State {
        var decision: Engine.Decision?
        var outcome: Engine.Outcome?
    }

    let claim: ClaimID
    let node: Node
    let thread: Int32
    private let opened = Engine.now
    private unowned let processes: Processes
    private let state = Mutex(State())
    private let told = Atomic<Bool>(false)

    init(_ claim: ClaimID, _ node: Node, thread: Int32, processes: Processes) {
        self.claim = claim
        self.node = node
        self.thread = thread
        self.processes = processes
    }

    var account: Account { Account(thread: thread) { [node] in node.path } }
    var access: Access { .write(.updating) }
    func identify() -> Party { processes.party(ofThread: thread, notAfter: opened) }
    /// Never asked: a request is bounded without being looked at.
    func observe() -> Observation { .untouched }

    var decision: Engine.Decision? { state.withLock { $0.decision } }
    /// Whether the engine's outcome comes here.
    var isTold: Bool { told.load(ordering: .acquiring) }

    func expectOutcome() { told.store(true, ordering: .releasing) }

    func decide(_ decision: Engine.Decision) {
        let outcome: Engine.Outcome? = state.withLock { state in
            state.decision = decision
            return state.outcome.take()
        }
        outcome?(decision)
    }

    func whenDecided(_ outcome: @escaping Engine.Outcome) {
        let decision: Engine.Decision? = state.withLock { state in
            if state.decision == nil { state.outcome = outcome }
            return state.decision
        }
        if let decision { outcome(decision) }
    }
}

extension Bounces.Cause {
    fileprivate func isResizing(_ node: NodeID) -> Bool {
        if case .resizing(node, _) = self { true } else { false }
    }
}
