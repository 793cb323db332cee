// SPDX-License-Identifier: Apache-2.0
import Coordination

/// How access sessions end.
extension Arbiter {
    /// Removes a claim that has ended or is suspended from its access sessions.
    ///
    /// N3: If the claim was the last member of a session, the session ends: immediately after an aware claim, and later
    /// after any other claim. So a save of several steps is one session.
    mutating func leaveAccessSessions(_ id: ClaimID, atOnce: Bool, _ effects: inout [Effect]) {
        guard let consultation = registry.removeConsultation(of: id) else { return }
        for accessSession in consultation.accessSessions {
            guard registry.removeMember(id, from: accessSession),
                let emptied = registry.accessSessions[accessSession]
            else { continue }
            // P2: A session that asks about a deletion goes on, even if the presenter was told of the deletion already.
            if !emptied.asksAboutLoss, atOnce || !emptied.hasUnreported {
                endAccessSession(accessSession, &effects)
            } else {
                beginTrailing(accessSession)
            }
        }
    }

    mutating func beginTrailing(_ id: AccessSessionID) {
        // An open question delays the end of the access session only if it is about a deletion that has happened
        // already.
        guard let accessSession = registry.accessSessions[id], !accessSession.asksAboutLoss else { return }
        // N10: An access session in which names have changed goes on longer, because the save perhaps changes more
        // names.
        let span = accessSession.hasSteps ? max(bounds.steps, bounds.trailing) : bounds.trailing
        let end = now + span
        registry.updateAccessSession(id) { $0.end = end }
        clock.setTimer(for: .accessSession(id), at: end)
    }

    /// N5: Called before a presenter is told of a party's access. If an access session of another program has no claims
    /// any more, ends the session now.
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

    /// N5: Called for a new event. The events that other access sessions have of the same names are sent now, or are
    /// dropped. So the last notice about each name is true.
    ///
    /// If a directory was moved, events of the directory's old name and new name are dropped, because the notice of the
    /// move replaces them.
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

    /// N5: Called before a presenter is asked a question. Tells the presenter of all earlier writes, and sends the
    /// reacquires of ended access sessions.
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
        // When another access session ended, events of this session may have been reported. So the state of this
        // session is read only now.
        reportExceptDeletions(of: asking.id, &effects)
    }

    /// N3: The access session to which an access of a party is added; nil if the access begins a session.
    ///
    /// A session that is older than `hold` accepts no new claims. If it did, a program with frequent accesses could
    /// delay the reacquire for ever.
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

    /// N3: Ends an access session. The presenter is told of the session's events before it receives the reacquire.
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

    /// N3: Called before a presenter receives a reacquire. The same program can have further access sessions for which
    /// the presenter has not relinquished its item. The presenter is told of their events, too.
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

    /// N4: Called when a writer is about to be suspended: tells the item's presenters of the changes that were
    /// observed.
    mutating func tellBeforeSuspension(of claim: Claim, _ effects: inout [Effect]) {
        let ownPresenters = registry.consultations[claim.id]?.ownPresenters ?? []
        switch contentions[claim.id]?.seen {
        case .dirty(let stamp): reportWritten(by: claim, stamp: stamp, &effects)
        case .emptied: reportWritten(by: claim, stamp: nil, &effects)
        case .clean, .unchanged, .atEnd, .atEndUnconfirmed, .reading, nil: break
        }
        leaveAccessSessions(claim.id, atOnce: false, &effects)
        // P6: If the suspended program writes later by this handle, its writes are still treated as writes of these
        // presenters.
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

    /// Adds a pending save to the write sessions of its program, so that these sessions go on until the save is
    /// complete.
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
