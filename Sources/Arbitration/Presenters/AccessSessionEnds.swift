// SPDX-License-Identifier: Apache-2.0
import Coordination

/// How turns end.
extension Arbiter {
    /// A claim is over, or lets others pass: it belongs to no turn any more.
    ///
    /// N3: at once if whoever it was said so, else later, so that a save in several steps is one turn.
    mutating func leaveAccessSessions(_ id: ClaimID, atOnce: Bool, _ effects: inout [Effect]) {
        guard let consultation = registry.consultations.removeValue(forKey: id) else { return }
        for accessSession in consultation.accessSessions {
            guard let entry = registry.accessSessions.index(forKey: accessSession) else { continue }
            registry.accessSessions.values[entry].members.removeAll { $0 == id }
            registry.accessSessions.values[entry].stopAsking(for: id)
            guard registry.accessSessions.values[entry].members.isEmpty else { continue }
            let isOver = atOnce && !registry.accessSessions.values[entry].asksAboutLoss
            if isOver || !registry.accessSessions.values[entry].hasUnreported {
                endAccessSession(accessSession, &effects)
            } else {
                beginTrailing(accessSession)
            }
        }
    }

    mutating func beginTrailing(_ id: AccessSessionID) {
        guard let entry = registry.accessSessions.index(forKey: id) else { return }
        // An answer that is owed to nobody any more is not waited for, but for that to a deletion which has happened.
        if registry.accessSessions.values[entry].asksAboutLoss { return }
        // N10.
        let span =
            registry.accessSessions.values[entry].hasSteps
            ? max(bounds.steps, bounds.trailing) : bounds.trailing
        let end = now + span
        registry.accessSessions.values[entry].end = end
        timers.insert(TimerQueue.TimerEntry(moment: end, subject: .accessSession(id)))
    }

    /// N5: before a presenter hears of somebody else it is told what is over.
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

    /// N5: the last word about a name is the last that is told of it.
    ///
    /// All that is below a directory has its new path already. So other turns tell nothing before its move is told, which is the
    /// last word about both names.
    mutating func handOverNames(
        to itemEvent: ItemEvent, in own: AccessSessionID, at presenter: PresenterID, _ effects: inout [Effect]
    ) {
        for id in registry.records[presenter]?.accessSessions ?? [] where id != own {
            let isTold =
                !itemEvent.isToldAtOnce
                && registry.accessSessions[id]?.nameEvents.knows(anyOf: itemEvent.names) ?? false
            if isTold { reportNameEvents(of: id, &effects) }
            registry.accessSessions[id]?.nameEvents.forget(itemEvent.names)
        }
    }

    /// N5: before a presenter is asked anything it is told what was written, and let in.
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
        // What ends with the others may have told its news.
        reportExceptDeletions(of: asking.id, &effects)
    }

    /// N3: the turn in which an access of a party belongs, if there is one.
    ///
    /// A program that comes again and again would keep its presenters away for ever: a turn that has lasted `hold` takes
    /// nobody in any more, and is over as soon as nobody is in it.
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

    /// N3: what happened in the turn is told before its reacquire.
    mutating func endAccessSession(_ id: AccessSessionID, _ effects: inout [Effect]) {
        guard let accessSession = registry.accessSessions.removeValue(forKey: id),
            let record = registry.records[accessSession.presenter]
        else {
            return
        }
        registry.records[accessSession.presenter]?.accessSessions.removeAll { $0 == id }
        if accessSession.isRelinquished {
            reportSessionsWithoutRelinquishment(but: accessSession, record, &effects)
        }
        tell(of: accessSession, accessSession.nameEvents.notices, record, &effects)
        if accessSession.isRelinquished, record.presenter.messages.contains(.reacquire) {
            effects.append(
                .tell(Notice(.reacquire, to: accessSession.presenter, in: id, accessSession.cause)))
        }
    }

    /// N3: a presenter that is let in is told before of what the program did while it had relinquished to it for
    /// another access.
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

    /// N4: a writer that lets others pass is reported as far as it got.
    mutating func tellBeforeSuspension(of claim: Claim, _ effects: inout [Effect]) {
        let ownPresenters = registry.consultations[claim.id]?.ownPresenters ?? []
        switch contentions[claim.id]?.seen {
        case .dirty(let stamp): reportWritten(by: claim, stamp: stamp, &effects)
        case .emptied: reportWritten(by: claim, stamp: nil, &effects)
        case .clean, .unchanged, .atEnd, .atEndUnconfirmed, .reading, nil: break
        }
        leaveAccessSessions(claim.id, atOnce: false, &effects)
        // P6: what its handle still writes is no less the presenter's own.
        if !ownPresenters.isEmpty {
            registry.consultations[claim.id] = Consultation(ownPresenters: ownPresenters)
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
        claims[claim.id]?.reportedStamp = stamp
    }

    /// An episode goes on with the turn in which its name was vacated.
    mutating func joinAccessSessions(_ claim: Claim, _ party: Party) {
        guard !registry.isEmpty, registry.consultations[claim.id] == nil else { return }
        var (consultation, known): (Consultation, Set<AccessSessionID>) = (Consultation(), [])
        claim.forEachPart { part in
            var concerned: [PresenterID] = []
            forEachConcerned(by: part, of: claim) { id, relation in
                if relation == .item || relation == .package { concerned.append(id) }
            }
            for id in concerned.sorted() {
                guard let record = registry.records[id],
                    let accessSession = registry.accessSession(of: party, isWrite: true, at: record),
                    let entry = registry.accessSessions.index(forKey: accessSession),
                    known.insert(accessSession).inserted
                else { continue }
                registry.accessSessions.values[entry].members.append(claim.id)
                registry.accessSessions.values[entry].end = nil
                consultation.accessSessions.append(accessSession)
            }
        }
        if !consultation.accessSessions.isEmpty { registry.consultations[claim.id] = consultation }
    }
}
