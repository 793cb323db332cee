// SPDX-License-Identifier: Apache-2.0
public import Coordination

/// The claims that wait for answers of one share's presenters.
///
/// It is asked several times a second for whom a guest's answers are waited for. The presenters may be a thousand, and so may the claims:
/// so each claim is noted once when it comes to wait, by its user, and is not looked for afterwards.
struct Debt: Sendable {
    /// Questions that are not answered yet.
    var open = 0
    private var users: [UInt32?: Row<ClaimID>] = [:]
    private var noted: Set<ClaimID> = []

    /// A claim comes to wait for an answer that is owed already.
    mutating func note(_ claim: ClaimID, of user: UInt32?) {
        if noted.insert(claim).inserted { users[user, default: Row()].append(claim) }
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
    public func owesAnswers(_ share: UInt32) -> Bool { desk.debts[share] != nil }

    /// The users that wait for answers of a share's presenters: one claim of each, and when its answer was asked for.
    public mutating func waiting(
        forShare share: UInt32
    ) -> [(user: UInt32?, claim: ClaimID, asked: Instant)] {
        // Taken out, so that it is not copied.
        guard var debt = desk.debts.removeValue(forKey: share) else { return [] }
        let found = debt.waiting { claim in
            waits[claim] != nil ? desk.firstQuestion(to: share, for: claim)?.asked : nil
        }
        desk.debts[share] = debt
        return found
    }

    /// The answers of a share's presenters that the first so many claims of a user wait for.
    public func questions(to share: UInt32, awaitedBy user: UInt32?, atMost limit: Int) -> [Question] {
        var found: [QuestionID: Question] = [:]
        for claim in desk.debts[share]?.claims(of: user, atMost: limit) ?? [] where waits[claim] != nil {
            for turn in desk.inquiries[claim]?.turns ?? [] {
                guard let question = desk.question(in: turn, to: share) else { continue }
                found[question.id] = question
            }
        }
        return found.values.sorted { $0.id < $1.id }
    }

    /// Claims wait for what is asked in a turn.
    mutating func noteDebt(in id: TurnID, by claims: [ClaimID]) {
        guard let turn = desk.turns[id], turn.question != nil,
            let share = desk.records[turn.presenter]?.presenter.share
        else { return }
        for claim in claims { desk.debts[share]?.note(claim, of: parties[claim]?.user) }
    }
}

extension PresenterDesk {
    fileprivate func question(in turn: TurnID, to share: UInt32) -> Question? {
        guard let turn = turns[turn], let question = turn.question,
            records[turn.presenter]?.presenter.share == share
        else { return nil }
        return questions[question]
    }

    /// The turn that a claim was found to wait for is looked at first: there may be very many.
    fileprivate func firstQuestion(to share: UInt32, for claim: ClaimID) -> Question? {
        guard let inquiry = inquiries[claim] else { return nil }
        let turns = inquiry.turns
        let start = min(inquiry.awaited, turns.count)
        for index in [start..<turns.count, 0..<start].joined() {
            if let question = question(in: turns[index], to: share) { return question }
        }
        return nil
    }
}
