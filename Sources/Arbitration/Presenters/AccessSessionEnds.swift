// SPDX-License-Identifier: Apache-2.0
import Coordination

/// How access sessions end.
extension Arbiter {
    /// Removes a claim that has ended or is suspended from its sessions.
    ///
    /// N3: An emptied session ends at once after an aware claim, otherwise later, so that a save of several steps is one
    /// session.
    mutating func leaveAccessSessions(_ id: ClaimID, atOnce: Bool, _ effects: inout [Effect]) {
        guard let consultation = registry.removeConsultation(of: id) else { return }
        for accessSession in consultation.accessSessions {
            guard registry.removeMember(id, from: accessSession),
                let emptied = registry.accessSessions[accessSession]
            else { continue }
            if atOnce && !emptied.asksAboutLoss || !emptied.hasUnreported {
                endAccessSession(accessSession, &effects)
            } else {
                beginTrailing(accessSession)
            }
        }
    }

    mutating func beginTrailing(_ id: AccessSessionID) {
        // With no claim waiting, an open question does not delay the end, except one about a deletion that has happened.
        guard let accessSession = registry.accessSessions[id], !accessSession.asksAboutLoss else { return }
        // N10.
        let span = accessSession.hasSteps ? max(bounds.steps, bounds.trailing) : bounds.trailing
        let end = now + span
        registry.updateAccessSession(id) { $0.end = end }
        clock.setTimer(for: .accessSession(id), at: end)
    }

    /// N5: Ends the trailing sessions of other programs before a presenter is told of a party.
    mutating func endTrailingSessions(
        of record: PresenterRecord, but party: Party, _ effects: inout [Effect],
        where isConcerned: (AccessSession) -> Bool = { _ in true }
    ) {
        for id in record.accessSessions {
            guard let accessSession = registry.accessSessions[id], accessSession.end != nil,
                !accessSession.party.isOneProgram(with: party),
                isConcerned(accessSession)
            else { continue }
            endAccessSession(id, &effects)
        }
    }

    /// N5: Leaves names to the session with the latest event, so that the last notice of each is true.
    ///
    /// After the move of a directory all items below have new paths. So other sessions tell nothing before that move, which
    /// replaces their events of both names.
    mutating func handOverNames(
        to itemEvent: ItemEvent, in own: AccessSessionID, at presenter: PresenterID, _ effects: inout [Effect]
    ) {
        for id in registry.records[presenter]?.accessSessions ?? [] where id != own {
            let isTold =
                !itemEvent.isToldAtOnce
                && registry.accessSessions[id]?.nameEvents.knows(anyOf: itemEvent.names) ?? false
            if isTold { reportNameEvents(of: id, &effects) }
            registry.updateAccessSession(id) { $0.nameEvents.forget(itemEvent.names) }
        }
    }

    /// N5: Tells a presenter what was written, and lets it reacquire, before it is asked a question.
    mutating func tellBeforeAsking(in asking: AccessSession, _ effects: inout [Effect]) {
        guard let record = registry.records[asking.presenter] else { return }
        for id in record.accessSessions where id != asking.id {
            guard let accessSession = registry.accessSessions[id] else { continue }
            if accessSession.isWrite, accessSession.end != nil {
                endAccessSession(id, &effects)
            } else {
                reportExceptDeletions(of: id, &effects)
            }
        }
        // The ends of the other sessions may have told this session's events.
        reportExceptDeletions(of: asking.id, &effects)
    }

    /// N3: The session to which an access of a party belongs, if there is one.
    ///
    /// A program that comes again and again would keep its presenters waiting forever. So a session older than `hold`
    /// accepts no new claims, and ends when its last member leaves.
    mutating func currentAccessSession(
        of party: Party, isWrite: Bool, at record: PresenterRecord, _ effects: inout [Effect]
    ) -> AccessSessionID? {
        let (now, hold) = (now, bounds.hold)
        let hasLasted = { (accessSession: AccessSession) in
            accessSession.isSettled && accessSession.began + hold <= now
        }
        if let id = registry.accessSession(of: party, isWrite: isWrite, at: record, where: { !hasLasted($0) })
        {
            return id
        }
        for id in record.accessSessions {
            guard let accessSession = registry.accessSessions[id], accessSession.isWrite == isWrite,
                accessSession.end != nil,
                accessSession.party.isOneProgram(with: party)
            else { continue }
            endAccessSession(id, &effects)
        }
        return nil
    }

    /// N3: Ends a session, and tells its events before its reacquire.
    mutating func endAccessSession(_ id: AccessSessionID, _ effects: inout [Effect]) {
        guard let accessSession = registry.removeAccessSession(id),
            let record = registry.records[accessSession.presenter]
        else {
            return
        }
        if accessSession.isRelinquished {
            reportSessionsWithoutRelinquishment(but: accessSession, record, &effects)
        }
        tell(of: accessSession, accessSession.nameEvents.notices, record, &effects)
        if accessSession.isRelinquished, record.presenter.messages.contains(.reacquire) {
            effects.append(
                .tell(Notice(.reacquire, to: accessSession.presenter, in: id, accessSession.cause)))
        }
    }

    /// N3: Tells a presenter, before its reacquire, what the same program did in sessions without a relinquishment.
    private mutating func reportSessionsWithoutRelinquishment(
        but accessSession: AccessSession, _ record: PresenterRecord, _ effects: inout [Effect]
    ) {
        for id in record.accessSessions where id != accessSession.id {
            guard let other = registry.accessSessions[id], !other.isRelinquished,
                other.party.isOneProgram(with: accessSession.party)
            else { continue }
            if other.end == nil { reportNameEvents(of: id, &effects) } else { endAccessSession(id, &effects) }
        }
    }

    /// N4: Tells presenters of the changes of a writer that is being suspended.
    mutating func tellBeforeSuspension(of claim: Claim, _ effects: inout [Effect]) {
        let ownPresenters = registry.consultations[claim.id]?.ownPresenters ?? []
        switch contentions[claim.id]?.seen {
        case .dirty(let stamp): reportWritten(by: claim, stamp: stamp, &effects)
        case .emptied: reportWritten(by: claim, stamp: nil, &effects)
        case .clean, .unchanged, .atEnd, .atEndUnconfirmed, .reading, nil: break
        }
        leaveAccessSessions(claim.id, atOnce: false, &effects)
        // P6: later writes of its handle are the presenter's own, too.
        if !ownPresenters.isEmpty {
            registry.beginConsultation(of: claim.id, Consultation(ownPresenters: ownPresenters))
        }
    }

    private mutating func reportWritten(by claim: Claim, stamp: UInt64?, _ effects: inout [Effect]) {
        if registry.isEmpty { return }
        claim.forEachPart { part in
            guard part.access.isWrite else { return }
            noteChange(
                of: part.item, at: part.place, Cause(.nobody, part.access), under: claim.id,
                stamp: stamp ?? 0,
                &effects)
        }
        claims.update(claim.id) { $0.reportedStamp = stamp }
    }

    /// Adds a pending save to the sessions in which its name was vacated.
    mutating func joinAccessSessions(_ claim: Claim, _ party: Party) {
        guard !registry.isEmpty, registry.consultations[claim.id] == nil else { return }
        var (joined, known): ([AccessSessionID], Set<AccessSessionID>) = ([], [])
        claim.forEachPart { part in
            var concerned: [PresenterID] = []
            forEachConcerned(by: part, of: claim) { id, relation in
                if relation == .item || relation == .package { concerned.append(id) }
            }
            for id in concerned.sorted() {
                guard let record = registry.records[id],
                    let accessSession = registry.accessSession(of: party, isWrite: true, at: record),
                    known.insert(accessSession).inserted
                else { continue }
                joined.append(accessSession)
            }
        }
        if joined.isEmpty { return }
        registry.beginConsultation(of: claim.id)
        for accessSession in joined { registry.addMember(claim.id, to: accessSession) }
    }
}
