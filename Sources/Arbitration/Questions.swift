// SPDX-License-Identifier: Apache-2.0
public import Coordination

/// What people and the engine ask the arbiter about. Nothing here changes anything.
extension Arbiter {
    /// Whether anybody presents an item or claimed one over the control socket.
    public var isAttended: Bool { !desk.isEmpty || !aware.isEmpty }

    public func isPresented(_ item: ItemID) -> Bool { desk.presented[item] != nil }

    /// Whether a party works for a presenter of an item that owes somebody an answer (P6).
    public func owesAnswer(_ party: Party, about item: ItemID) -> Bool {
        guard desk.isDebtor(party) else { return false }
        return (desk.presented[item] ?? []).contains { id in
            guard let record = desk.records[id] else { return false }
            return desk.owesAnything(id) && party.works(for: record.presenter.party)
        }
    }

    /// Every live claim on an item, waiting ones included, in the order of their numbers.
    public func claims(on item: ItemID) -> [ClaimID] {
        everybody(at: .item(item))
    }

    public func presenters(of item: ItemID) -> [PresenterID] { desk.presented[item] ?? [] }

    /// The requests a waiting claim waits to be answered, the oldest first.
    public func openQuestions(for claim: ClaimID) -> [Question] {
        let turns = desk.inquiries[claim]?.turns ?? []
        return turns.compactMap { desk.turns[$0]?.question.flatMap { desk.questions[$0] } }.sorted {
            $0.id < $1.id
        }
    }

    /// What a presenter has not answered yet, the oldest first.
    public func openQuestions(of presenter: PresenterID) -> [Question] {
        desk.records[presenter]?.questions.compactMap { desk.questions[$0] } ?? []
    }

    public func isDemoted(_ presenter: PresenterID) -> Bool { desk.records[presenter]?.isDemoted ?? false }

    public func suspension(of claim: ClaimID) -> Suspension? { claims[claim]?.suspension }
}

extension Arbiter {
    /// Whether nothing is remembered of any claim, question or turn: so it is when all are over.
    public var isAtRest: Bool {
        claims.isEmpty && dockets.isEmpty && waits.isEmpty && contests.isEmpty && parties.isEmpty
            && desk.turns.isEmpty && desk.questions.isEmpty && desk.inquiries.isEmpty && desk.debtors.isEmpty
            && watchers.isEmpty && nested.isEmpty && disputed.isEmpty && aware.isEmpty
    }

    /// How many records it keeps of anything, directories and presenters included.
    public var recordCount: Int {
        claims.count + dockets.count + waits.count + watchers.count + contests.count + parties.count
            + alarms.count
            + nested.count + disputed.count + tree.count + desk.records.count + desk.presented.count
            + desk.turns.count + desk.questions.count + desk.inquiries.count
    }

    /// What a live claim is on, its parts in the order in which they were given.
    public func items(of claim: ClaimID) -> [ItemID] {
        var items: [ItemID] = []
        claims[claim]?.forEachPart { items.append($0.item) }
        return items
    }
}
