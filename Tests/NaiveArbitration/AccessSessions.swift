// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Ends access sessions and sends their notices (N3, N5, N8).
extension NaiveArbiter {
    /// Removes a claim from its access sessions.
    ///
    /// If a session then has no claim and no notices, it ends at once.
    mutating func leaveAccessSessions(_ index: Int, isOver: Bool = true) {
        let left = claims[index].accessSessions
        claims[index].accessSessions = []
        (claims[index].pendingQuestions, claims[index].overriddenPresenters) = ([], [])
        for id in left { forgetWants(of: id) }
        for id in left where members(of: id).isEmpty {
            guard let accessSession = accessSessions.first(where: { $0.id == id }), !isOwing(accessSession)
            else { continue }
            if !accessSession.hasUnreported {
                drop(id)
            } else if isOver, claims[index].isOfSocket, claims[index].suspension == nil {
                end(id)
            } else {
                trail(id)
            }
        }
    }

    /// P3: removes an access session's questions that are not needed any more: the presenter was not asked yet, and no claim
    /// waits for the answer.
    mutating func forgetWants(of id: AccessSessionID) {
        let isWanted = claims.filter { !$0.isHeld }.flatMap(\.pendingQuestions).filter {
            $0.accessSession == id
        }.map(\.ask)
        change(id) { accessSession in
            let wanted = isWanted + accessSession.owed.map(\.ask)
            accessSession.order.removeAll { !wanted.contains($0) }
            for ask in accessSession.causes.keys where !wanted.contains(ask) {
                accessSession.causes[ask] = nil
            }
            for pendingQuestion in accessSession.owed where !isWanted.contains(pendingQuestion.ask) {
                accessSession.causes[pendingQuestion.ask] = pendingQuestion.cause
            }
        }
    }

    /// Whether the access session has a question that is neither asked nor answered yet, and for which no claim waits.
    func isOwing(_ accessSession: NaiveAccessSession) -> Bool {
        accessSession.owed.contains { pendingQuestion in
            !accessSession.asked.contains(pendingQuestion.ask)
                || questions.contains {
                    $0.accessSession == accessSession.id && $0.request == pendingQuestion.ask.request
                        && $0.subitem == pendingQuestion.ask.subitem
                }
        }
    }

    mutating func trail(_ id: AccessSessionID) {
        // N10: a save takes several steps. So an access session with a notice of a new, moved or deleted name ends some time
        // after its last claim.
        change(id) { [now, bounds] accessSession in
            accessSession.end =
                now + (accessSession.hasSteps ? max(bounds.steps, bounds.trailing) : bounds.trailing)
        }
    }

    /// Ends an access session without claims, once the questions that no claim waits for are answered.
    mutating func leaveIfEmpty(_ id: AccessSessionID) {
        guard let accessSession = accessSessions.first(where: { $0.id == id }) else { return }
        if !questions.contains(where: { $0.accessSession == id }) {
            change(id) { $0.owed = [] }
            if members(of: id).isEmpty, accessSession.end == nil { trail(id) }
        }
    }

    /// N5: before a message to the presenter, ends the access sessions of other programs that have no claim left.
    mutating func endOthers(
        of presenter: PresenterID, besides party: Party,
        where isConcerned: (NaiveAccessSession) -> Bool = { _ in true }
    ) {
        let others = accessSessions.filter { accessSession in
            accessSession.presenter == presenter && accessSession.end != nil
                && !accessSession.program.isExempt(from: party)
                && isConcerned(accessSession)
        }
        for accessSession in others { end(accessSession.id) }
    }

    /// N3: ends an access session, and sends the presenter its notices and then the reacquire.
    mutating func end(_ id: AccessSessionID) {
        guard let accessSession = accessSessions.first(where: { $0.id == id }) else { return }
        drop(id)
        guard let presenter = presenters.first(where: { $0.id == accessSession.presenter }) else { return }
        if accessSession.hasAskedToRelinquish, presenter.implements(.reacquire) {
            tellOthers(besides: accessSession, presenter)
        }
        effects += notices(at: accessSession, presenter).map { .tell($0) }
    }

    /// N3: before the reacquire, sends the notices of the same program's access sessions that did not ask the presenter to
    /// relinquish.
    private mutating func tellOthers(besides accessSession: NaiveAccessSession, _ presenter: NaivePresenter) {
        for other in accessSessions
        where other.presenter == accessSession.presenter && !other.hasAskedToRelinquish {
            guard other.program.isExempt(from: accessSession.program) else { continue }
            effects += notices(at: other, presenter).map { .tell($0) }
            if other.end != nil {
                drop(other.id)
            } else {
                change(other.id) {
                    ($0.moves, $0.changed, $0.gone) = ([], nil, nil)
                    $0.discardReported()
                }
            }
        }
    }

    /// N5: sends the notices of an access session without ending the session. Notices of deletions are not sent, because the
    /// item may exist again later.
    mutating func tellNow(_ id: AccessSessionID) {
        guard let accessSession = accessSessions.first(where: { $0.id == id }), accessSession.gone == nil,
            let presenter = presenters.first(where: { $0.id == accessSession.presenter })
        else { return }
        let gone = accessSession.outcomes.gone
        effects += notices(at: accessSession, presenter, holdingBack: gone).filter { $0.kind != .reacquire }
            .map {
                .tell($0)
            }
        change(id) {
            ($0.moves, $0.changed) = ([], nil)
            $0.discardReported(but: gone)
        }
    }

    /// Removes an access session without sending its notices.
    mutating func drop(_ id: AccessSessionID) {
        accessSessions.removeAll { $0.id == id }
        for index in claims.indices {
            claims[index].accessSessions.removeAll { $0 == id }
            claims[index].pendingQuestions.removeAll { $0.accessSession == id }
        }
    }

    func notices(
        at accessSession: NaiveAccessSession, _ presenter: NaivePresenter,
        holdingBack heldBack: [NaiveName] = []
    ) -> [Notice] {
        var notices: [Notice] = []
        let nameNotices = accessSession.outcomes.notices.filter { !heldBack.contains($0.name) }
        let isGone =
            accessSession.gone != nil || nameNotices.contains { $0.item == presenter.item && $0.isEnd }
        if let cause = accessSession.moved, !isGone, presenter.implements(.didMove) {
            notices.append(Notice(.didMove, to: accessSession.presenter, in: accessSession.id, cause))
        }
        // N9: a deletion is not reported if the access session asked the presenter to agree, and the presenter neither refused
        // nor forfeited.
        let isAccommodated =
            !accessSession.isRefused && !accessSession.isForfeited
            && accessSession.asked.contains { $0.request == .accommodateDeletion }
        var standIn: Cause?
        let items = itemNotices(nameNotices, accessSession, presenter, isAccommodated, &standIn)
        let changed =
            accessSession.gone == nil
            ? accessSession.changed ?? standIn : isAccommodated ? nil : accessSession.gone
        if let changed, presenter.implements(.didChange) {
            notices.append(Notice(.didChange, to: accessSession.presenter, in: accessSession.id, changed))
        }
        notices += items
        if accessSession.hasAskedToRelinquish, presenter.implements(.reacquire) {
            notices.append(
                Notice(.reacquire, to: accessSession.presenter, in: accessSession.id, accessSession.cause))
        }
        return notices
    }

    /// N6: if a presenter of a package does not implement the exact notice, it is told that the package changed.
    func itemNotices(
        _ nameNotices: [NaiveNotice], _ accessSession: NaiveAccessSession, _ presenter: NaivePresenter,
        _ isAccommodated: Bool,
        _ standIn: inout Cause?
    ) -> [Notice] {
        var notices: [Notice] = []
        for one in nameNotices {
            if one.item == presenter.item, one.isEnd, isAccommodated { continue }
            if presenter.implements(one.kind) {
                let subitem = Notice.Subitem(one.item, at: one.place, from: one.former)
                notices.append(
                    Notice(
                        one.kind, of: subitem, to: accessSession.presenter, in: accessSession.id, one.cause))
            } else if let item = presenter.item, isPackage(item) {
                standIn = one.cause
            }
        }
        return notices
    }
}
