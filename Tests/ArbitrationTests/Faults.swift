// SPDX-License-Identifier: Apache-2.0
import ArbitrationSimulation
import Coordination
import Testing

/// What an arbiter with a fault would say, and which checker must complain of it, in which words.
struct Fault: Sendable, CustomTestStringConvertible, CustomStringConvertible {
    let name: String
    let checker: String
    let complaint: String
    let distort: Distortion

    var description: String { name }
    var testDescription: String { "\(name): \(complaint)" }

    private init(_ name: String, _ checker: String, _ complaint: String, _ distort: @escaping Distortion) {
        (self.name, self.checker, self.complaint, self.distort) = (name, checker, complaint, distort)
    }

    static let all = ofNotices + ofPresenters + ofWaiting + ofGrants

    private static let ofNotices = [
        Fault("nobody hears of changes", "NoticeChecker", "is let in before it is told") {
            if case .tell(let notice) = $0, notice.kind == .didChange { [] } else { [$0] }
        },
        Fault("nobody hears of what is in a folder", "BeliefChecker", "does not know that") {
            if case .tell(let notice) = $0, notice.subitem != nil { [] } else { [$0] }
        },
        Fault("nobody hears that something in a folder is gone", "BeliefChecker", "believes that") {
            if case .tell(let notice) = $0, notice.kind == .subitemDidChange,
                notice.cause.access == .write(.forDeleting)
            {
                []
            } else {
                [$0]
            }
        },
        Fault("nobody hears that something in a folder has changed", "BeliefChecker", "has other contents") {
            if case .tell(let notice) = $0, notice.kind == .subitemDidChange,
                notice.cause.access != .write(.forDeleting)
            {
                []
            } else {
                [$0]
            }
        },
        Fault("what is in a folder is told of again", "BeliefChecker", "where nothing happened") { effect in
            guard case .tell(let told) = effect, let subitem = told.subitem else { return [effect] }
            let other = Notice.Subitem(ItemID(subitem.item.rawValue + 1_000), at: subitem.place)
            return [
                effect, .tell(Notice(told.kind, of: other, to: told.presenter, in: told.turn, told.cause)),
            ]
        },
        Fault("nobody hears of moves", "NoticeChecker", "is let in before it is told: moved") {
            if case .tell(let notice) = $0, notice.kind == .didMove { [] } else { [$0] }
        },
        Fault("a change is told of again and again", "NoticeChecker", "which did not happen") {
            if case .tell = $0 { [$0, $0] } else { [$0] }
        },
        Fault("somebody else is named as the cause", "NoticeChecker", "which did not happen") { effect in
            guard case .tell(let told) = effect, told.kind != .reacquire else { return [effect] }
            let cause = Cause(.nobody, told.cause.access)
            return [.tell(Notice(told.kind, of: told.subitem, to: told.presenter, in: told.turn, cause))]
        },
        Fault("all is told twice", "TurnChecker", "is told twice in") {
            if case .tell = $0 { [$0, $0] } else { [$0] }
        },
        Fault("nobody is let in again", "TurnChecker", "was never let in again") {
            if case .tell(let notice) = $0, notice.kind == .reacquire { [] } else { [$0] }
        },
    ]

    private static let ofPresenters = [
        Fault("questions are not forfeited", "QuestionChecker", "is open beyond its deadline") {
            if case .forfeit = $0 { [] } else { [$0] }
        },
        Fault("all is asked twice", "QuestionChecker", "twice for") { effect in
            guard case .ask(let question) = effect else { return [effect] }
            let again = Question(
                id: QuestionID(question.id.rawValue + 1_000_000), presenter: question.presenter,
                turn: TurnID(question.turn.rawValue + 1_000_000), request: question.request,
                subitem: question.subitem, cause: question.cause, asked: question.asked,
                deadline: question.deadline)
            return [effect, .ask(again)]
        },
        Fault("whoever is asked about is granted unasked", "ConsentChecker", "was not asked") { effect in
            guard case .identify(let claim) = effect else { return [effect] }
            return [effect, .grant(claim, Grant(basis: .waited))]
        },
        Fault("who did not agree is not listed", "ConsentChecker", "does not list") { effect in
            guard case .grant(let claim, let grant) = effect else { return [effect] }
            return [.grant(claim, Grant(basis: grant.basis, passed: grant.passed))]
        },
    ]

    private static let ofWaiting = [
        Fault("waits do not run out", "WaitChecker", "waits beyond its bound") {
            if case .refuse(_, .busy) = $0 { [] } else { [$0] }
        },
        Fault("those who wait are forgotten", "QueueChecker", "waits for nobody") {
            if case .grant(_, let grant) = $0, grant.basis == .waited { [] } else { [$0] }
        },
        Fault("nobody is suspended by time", "LookChecker", "keeps others out for longer") {
            if case .suspend(_, .held) = $0 { [] } else { [$0] }
        },
        Fault("everybody is asked about twice", "LookChecker", "is asked about twice") {
            if case .identify = $0 { [$0, $0] } else { [$0] }
        },
        Fault("cycles are told backwards", "DeadlockChecker", "does not wait for") { effect in
            guard case .deadlock(let told) = effect else { return [effect] }
            return [.deadlock(Deadlock(cycle: told.cycle.reversed(), told.way, told.claim))]
        },
        Fault("nothing is done about cycles", "DeadlockChecker", "a deadlock is left") {
            if case .refuse(_, .deadlock) = $0 { [] } else { [$0] }
        },
    ]

    private static let ofGrants = [
        Fault("who is gone over is not listed", "GrantChecker", "does not list") { effect in
            guard case .grant(let claim, let grant) = effect else { return [effect] }
            return [.grant(claim, Grant(basis: grant.basis, unanswered: grant.unanswered))]
        },
        Fault("whoever waits is granted", "GrantChecker", "stands in its way") { effect in
            guard case .identify(let claim) = effect else { return [effect] }
            return [effect, .grant(claim, Grant(basis: .waited))]
        },
    ]
}
