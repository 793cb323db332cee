// SPDX-License-Identifier: Apache-2.0
import ArbitrationSimulation
import Coordination
import Testing

/// A fault that a test plants in the arbiter, with the checker that must report the fault and the text of the report.
struct ArbiterFault: Sendable, CustomTestStringConvertible, CustomStringConvertible {
    let name: String
    let checker: String
    let problemText: String
    let injectFault: FaultInjection

    var description: String { name }
    var testDescription: String { "\(name): \(problemText)" }

    private init(
        _ name: String, _ checker: String, _ problemText: String, _ injectFault: @escaping FaultInjection
    ) {
        (self.name, self.checker, self.problemText, self.injectFault) = (
            name, checker, problemText, injectFault
        )
    }

    static let all = ofNotices + ofWaiting + ofGrants

    private static let ofNotices = [
        ArbiterFault("no presenter gets notices of subitems", "NameViewChecker", "does not know that") {
            if case .tell(let notice) = $0, notice.subitem != nil { [] } else { [$0] }
        },
        ArbiterFault("no presenter gets a notice of a subitem's deletion", "NameViewChecker", "believes that")
        {
            if case .tell(let notice) = $0, notice.kind == .subitemDidChange,
                notice.cause.access == .write(.forDeleting)
            {
                []
            } else {
                [$0]
            }
        },
        ArbiterFault(
            "no presenter gets a notice of a subitem's write", "NameViewChecker", "has other contents"
        ) {
            if case .tell(let notice) = $0, notice.kind == .subitemDidChange,
                notice.cause.access != .write(.forDeleting)
            {
                []
            } else {
                [$0]
            }
        },
        ArbiterFault(
            "a notice of a subitem is repeated for another item", "NameViewChecker", "where nothing happened"
        ) {
            effect in
            guard case .tell(let told) = effect, let subitem = told.subitem else { return [effect] }
            let other = Notice.Subitem(ItemID(subitem.item.rawValue + 1_000), at: subitem.place)
            return [
                effect,
                .tell(Notice(told.kind, of: other, to: told.presenter, in: told.accessSession, told.cause)),
            ]
        },
    ]

    private static let ofWaiting = [
        ArbiterFault("a claim whose wait runs out is not refused", "WaitChecker", "waits beyond its bound") {
            if case .refuse(_, .busy) = $0 { [] } else { [$0] }
        },
        ArbiterFault("a claim that has waited is never granted", "QueueChecker", "waits for nobody") {
            if case .grant(_, let grant) = $0, grant.basis == .waited { [] } else { [$0] }
        },
        ArbiterFault("a deadlock is reported in reverse order", "DeadlockChecker", "does not wait for") {
            effect in
            guard case .deadlock(let told) = effect else { return [effect] }
            return [.deadlock(Deadlock(cycle: told.cycle.reversed(), told.resolution, told.claim))]
        },
        ArbiterFault("no claim of a deadlock is refused", "DeadlockChecker", "a deadlock is left") {
            if case .refuse(_, .deadlock) = $0 { [] } else { [$0] }
        },
    ]

    private static let ofGrants = [
        ArbiterFault("a preempted claim is not listed", "GrantChecker", "does not list") { effect in
            guard case .grant(let claim, let grant) = effect else { return [effect] }
            return [.grant(claim, Grant(basis: grant.basis, unanswered: grant.unanswered))]
        },
        ArbiterFault("each waiting claim is granted at once", "GrantChecker", "stands in its way") { effect in
            guard case .identify(let claim) = effect else { return [effect] }
            return [effect, .grant(claim, Grant(basis: .waited))]
        },
    ]
}
