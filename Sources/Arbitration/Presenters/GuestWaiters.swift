// SPDX-License-Identifier: Apache-2.0
public import Coordination

/// The claims that wait for answers of the presenters of one guest.
///
/// Several times a second, the daemon reads which users wait for the guest's answers. So each claim is stored under its
/// user when it begins to wait, because a search through thousands of claims would take too long.
struct GuestWaiters: Sendable {
    /// The number of questions that the guest's presenters have not answered.
    var open = 0
    private var users: [UInt32?: FIFOQueue<ClaimID>] = [:]
    private var noted: Set<ClaimID> = []

    /// Stores a claim that begins to wait for a question.
    mutating func note(_ claim: ClaimID, of user: UInt32?) {
        if noted.insert(claim).inserted { users[user, default: FIFOQueue()].append(claim) }
    }

    /// For each user, returns the first claim that still waits. Removes the claims that were stored before this claim,
    /// because they no longer wait.
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
    /// Whether any presenter of a guest has not answered a question.
    public func owesAnswers(_ guest: UInt32) -> Bool { registry.guestWaiters[guest] != nil }

    /// Returns the users that wait for a guest's presenters. For each user, also returns one waiting claim, and the
    /// moment at which the claim's question was asked.
    public mutating func waiting(
        forGuest guest: UInt32
    ) -> [(user: UInt32?, claim: ClaimID, asked: Instant)] {
        // The value is removed and stored again, so that it is not copied.
        guard var waitersOfGuest = registry.takeGuestWaiters(of: guest) else { return [] }
        let found = waitersOfGuest.waiting { claim in
            waits.contains(claim) ? registry.firstQuestion(to: guest, for: claim)?.asked : nil
        }
        registry.setGuestWaiters(waitersOfGuest, of: guest)
        return found
    }

    /// The open questions to a guest's presenters for which the first `limit` claims of a user wait.
    public func questions(to guest: UInt32, awaitedBy user: UInt32?, atMost limit: Int) -> [Question] {
        var found: [QuestionID: Question] = [:]
        for claim in registry.guestWaiters[guest]?.claims(of: user, atMost: limit) ?? []
        where waits.contains(claim) {
            for accessSession in registry.consultations[claim]?.accessSessions ?? [] {
                guard let question = registry.question(in: accessSession, to: guest) else { continue }
                found[question.id] = question
            }
        }
        return found.values.sorted { $0.id < $1.id }
    }

    /// Stores that claims wait for the open question of an access session. Does nothing if the session's presenter
    /// belongs to no guest.
    mutating func noteGuestWaiters(in id: AccessSessionID, by claims: [ClaimID]) {
        guard let accessSession = registry.accessSessions[id], accessSession.question != nil,
            let guest = registry.records[accessSession.presenter]?.presenter.guest
        else { return }
        for claim in claims {
            registry.noteGuestWaiter(claim, of: families.party(of: claim)?.user, for: guest)
        }
    }
}

extension PresenterRegistry {
    fileprivate func question(in accessSession: AccessSessionID, to guest: UInt32) -> Question? {
        guard let accessSession = accessSessions[accessSession], let question = accessSession.question,
            records[accessSession.presenter]?.presenter.guest == guest
        else { return nil }
        return questions[question]
    }

    /// The first open question to a guest for which a claim waits. The search begins at the access session for which
    /// the claim last waited.
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
