// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine

/// Converts the engine's list of claims and presenters to the form of the protocol. The only decision here is how many entries
/// are sent.
extension CoordinationSnapshotForm {
    init(of item: ItemID?, in engine: Engine) throws {
        let limit = ProtocolLimits.listEntries
        // The engine is asked for one entry more than the reply contains. If that entry exists, the list is cut.
        let snapshot = engine.snapshot(of: item, atMost: limit + 1)
        let now = Engine.now
        var budget = ReplyBudget()
        let claims = try budget.half(of: snapshot.claims.prefix(limit).lazy.map { ClaimForm($0, at: now) })
        let presenters = try budget.fill(
            with: snapshot.presenters.prefix(limit).lazy.map { PresenterForm($0, at: now) })
        self.init(
            claims: claims, presenters: presenters,
            isTruncated: claims.count < snapshot.claims.count || presenters.count < snapshot.presenters.count,
            delays: snapshot.delays.map { $0.map { DelayForm($0, at: now) } })
    }
}

extension ClaimForm {
    init(_ claim: ClaimReport, at now: Instant) {
        let (state, suspension): (String, String?) =
            switch claim.state {
            case .held: ("held", nil)
            case .suspended(let suspension): ("suspended", suspension.rawValue)
            case .waiting: ("waiting", nil)
            }
        self.init(
            claim: claim.claim.rawValue, actor: ProcessDescriptionForm(claim.actor),
            intents: claim.intents.map { IntentForm($0.path, $0.access) }, state: state,
            suspension: suspension, exceeded: claim.exceeded.map { DelayForm($0, at: now) },
            age: now.since(claim.since).milliseconds, reasons: claim.reasons)
    }
}

extension PresenterForm {
    init(_ presenter: PresenterReport, at now: Instant) {
        self.init(
            presenter: presenter.presenter.rawValue, actor: ProcessDescriptionForm(presenter.actor),
            path: presenter.path, messages: presenter.messages.names,
            owed: presenter.unansweredQuestions.map { UnansweredQuestionForm($0, at: now) },
            isDemoted: presenter.isDemoted,
            isUnsaved: presenter.isUnsaved)
    }
}

extension UnansweredQuestionForm {
    init(_ owed: PresenterReport.UnansweredQuestion, at now: Instant) {
        self.init(
            request: owed.request.rawValue, age: now.since(owed.asked).milliseconds,
            left: owed.deadline.since(now).milliseconds, actor: ProcessDescriptionForm(owed.actor))
    }
}
