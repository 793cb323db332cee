// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine

/// The engine's census in the words of the wire: a mirror image, with no decision in it but where to cut.
extension CensusForm {
    init(_ census: Census, at now: Instant) {
        let limit = ProtocolLimits.listEntries
        self.init(
            claims: census.claims.prefix(limit).map { ClaimForm($0, at: now) },
            presenters: census.presenters.prefix(limit).map { PresenterForm($0, at: now) },
            isTruncated: census.claims.count > limit || census.presenters.count > limit)
    }
}

extension ClaimForm {
    init(_ claim: ClaimReport, at now: Instant) {
        let (state, suspension): (String, String?) =
            switch claim.standing {
            case .held: ("held", nil)
            case .suspended(let suspension): ("suspended", suspension.rawValue)
            case .waiting: ("waiting", nil)
            }
        self.init(
            claim: claim.claim.rawValue, actor: ActorForm(claim.actor), access: claim.access.name,
            path: claim.path, state: state, suspension: suspension,
            age: now.since(claim.since).milliseconds, reasons: claim.reasons)
    }
}

extension PresenterForm {
    init(_ presenter: PresenterReport, at now: Instant) {
        self.init(
            presenter: presenter.presenter.rawValue, actor: ActorForm(presenter.actor),
            path: presenter.path, messages: presenter.messages.names,
            owed: presenter.owed.map { OwedForm($0, at: now) }, isDemoted: presenter.isDemoted)
    }
}

extension OwedForm {
    init(_ owed: PresenterReport.Owed, at now: Instant) {
        self.init(
            request: owed.request.rawValue, age: now.since(owed.asked).milliseconds,
            left: owed.deadline.since(now).milliseconds, actor: ActorForm(owed.actor))
    }
}
