// SPDX-License-Identifier: Apache-2.0
public import Coordination

/// The claims that wait for answers of one share's presenters.
///
/// It is asked several times a second for whom a guest's answers are waited for. The presenters may be a thousand, and so may the claims:
/// so each claim is noted once when it comes to wait, by its user, and is not looked for afterwards.
struct GuestWaiters: Sendable {
    /// Questions that are not answered yet.
    var open = 0
    private var users: [UInt32?: FIFOQueue<ClaimID>] = [:]
    private var noted: Set<ClaimID> = []

    /// A claim comes to wait for an answer that is owed already.
    mutating func note(_ claim: ClaimID, of user: UInt32?) {
        if noted.insert(claim).inserted { users[user, default: FIFOQueue()].append(claim) }
    }

    /// Of each user the first claim that still waits. Those before it are forgotten.
    mutating func waiting(since: (ClaimID) -> Instant?) -> [(user: UInt32?, claim: ClaimID, asked: Instant)] {
        var found: [(user: UInt32?, claim: ClaimID, asked: Instant)] = []
        for user in Array(users.keys) {
            while let claim = users[user]?.first {
                if let asked = since(claim) {
                    found.append((user, claim, asked))
                    break
                }
                _ = users[user]?.popFirst()
                noted.remove(claim)
            }
            if users[user]?.isEmpty ?? true { users[user] = nil }
        }
        return found
    }

    func claims(of user: UInt32?, atMost limit: Int) -> [ClaimID] { users[user]?.prefix(limit) ?? [] }
}

extension Arbiter {
    /// Whether a presenter of a share owes any answer.
    public func owesAnswers(_ guest: UInt32) -> Bool { registry.guestWaiters[guest] != nil }

    /// The users that wait for answers of a share's presenters: one claim of each, and when its answer was asked for.
    public mutating func waiting(
        forGuest guest: UInt32
    ) -> [(user: UInt32?, claim: ClaimID, asked: Instant)] {
        // Taken out, so that it is not copied.
        guard var waitersOfGuest = registry.guestWaiters.removeValue(forKey: guest) else { return [] }
        let found = waitersOfGuest.waiting { claim in
            waits[claim] != nil ? registry.firstQuestion(to: guest, for: claim)?.asked : nil
        }
        registry.guestWaiters[guest] = waitersOfGuest
        return found
    }

    /// The answers of a share's presenters that the first so many claims of a user wait for.
    public func questions(to guest: UInt32, awaitedBy user: UInt32?, atMost limit: Int) -> [Question] {
        var found: [QuestionID: Question] = [:]
        for claim in registry.guestWaiters[guest]?.claims(of: user, atMost: limit) ?? []
        where waits[claim] != nil {
            for accessSession in registry.consultations[claim]?.accessSessions ?? [] {
                guard let question = registry.question(in: accessSession, to: guest) else { continue }
                found[question.id] = question
            }
        }
        return found.values.sorted { $0.id < $1.id }
    }

    /// Claims wait for what is asked in a turn.
    mutating func noteGuestWaiters(in id: AccessSessionID, by claims: [ClaimID]) {
        guard let accessSession = registry.accessSessions[id], accessSession.question != nil,
            let guest = registry.records[accessSession.presenter]?.presenter.guest
        else { return }
        for claim in claims { registry.guestWaiters[guest]?.note(claim, of: parties[claim]?.user) }
    }
}

extension PresenterRegistry {
    fileprivate func question(in accessSession: AccessSessionID, to guest: UInt32) -> Question? {
        guard let accessSession = accessSessions[accessSession], let question = accessSession.question,
            records[accessSession.presenter]?.presenter.guest == guest
        else { return nil }
        return questions[question]
    }

    /// The turn that a claim was found to wait for is looked at first: there may be very many.
    fileprivate func firstQuestion(to guest: UInt32, for claim: ClaimID) -> Question? {
        guard let consultation = consultations[claim] else { return nil }
        let accessSessions = consultation.accessSessions
        let start = min(consultation.awaited, accessSessions.count)
        for index in [start..<accessSessions.count, 0..<start].joined() {
            if let question = question(in: accessSessions[index], to: guest) { return question }
        }
        return nil
    }
}
