// SPDX-License-Identifier: Apache-2.0
import Coordination

/// What is told, against what is due.
extension NoticeChecker {
    mutating func check(_ notice: Notice, _ ledger: Ledger, _ report: inout Report) {
        guard let showing = ledger.showings[notice.presenter] else { return }
        if notice.kind == .reacquire { return checkReacquire(notice, ledger, &report) }
        let party = notice.cause.party
        if ledger.isOwn(party, showing) {
            report.blame("\(notice.presenter) is told of its own \(notice.kind.rawValue)")
        }
        if notice.subitem != nil { return }
        let related = dues.indices.filter {
            dues[$0].presenter == notice.presenter && isRelated(dues[$0].party, party)
        }
        let kinds = Self.kinds(notice.kind)
        // N9: the cause is the last thing of its kind that happened, so it is one that nobody was told of yet.
        let matching = related.filter { kinds.contains(dues[$0].what) && dues[$0].party == party }
        // What happened just now may belong in the next turn.
        guard let cause = matching.last(where: { dues[$0].number < ledger.number }) ?? matching.last else {
            if isStandIn(notice, showing) { return }
            return report.blame(
                "\(notice.presenter) is told \(notice.kind.rawValue) by \(Command.text(of: party)), "
                    + "which did not happen")
        }
        settle(notice, cause, related, ledger)
    }

    /// N6.
    private func isStandIn(_ notice: Notice, _ showing: Ledger.Showing) -> Bool {
        let isComplete = [.subitemDidAppear, .subitemDidChange, .subitemDidMove].allSatisfy(
            showing.implements)
        return notice.kind == .didChange && !isComplete
            && parties[notice.presenter]?[notice.cause.party] != nil
    }

    /// What was told is due no more.
    private mutating func settle(_ notice: Notice, _ cause: Int, _ related: [Int], _ ledger: Ledger) {
        let party = notice.cause.party
        let kinds = Self.kinds(notice.kind)
        // Two children of a program have a turn each, and what the program itself does may belong in either.
        let isSpread = open.contains {
            $0 != notice.turn && $1.question.presenter == notice.presenter
                && isRelated($1.question.cause.party, party)
        }
        let maySpread = isSpread || hasLasted(related.map { dues[$0] }, party, notice.presenter, ledger)
        var gone: Set<Int> = [cause]
        for index in related where kinds.contains(dues[index].what) {
            // A relative's may have been told with it, or have a turn of its own; and of a program that has been at
            // it for `hold` there are several.
            // What happened just now may belong in the next turn.
            // What may be told is told apart from what must be, if it is.
            let isMatched = dues[index].isCertain || !related.contains { dues[$0].isCertain }
            if dues[index].party == party, dues[index].number < ledger.number, !maySpread, isMatched {
                gone.insert(index)
            } else {
                dues[index].isCertain = false
            }
        }
        dues = dues.indices.filter { !gone.contains($0) }.map { dues[$0] }
    }

    /// N3: what the program did is told before the presenter is let in again, unless it has relinquished in another turn
    /// of it as well.
    private mutating func checkReacquire(_ notice: Notice, _ ledger: Ledger, _ report: inout Report) {
        open[notice.turn] = nil
        let (id, party) = (notice.presenter, notice.cause.party)
        if open.values.contains(where: {
            $0.question.presenter == id && isRelated($0.question.cause.party, party)
        }) {
            return
        }
        let mine = dues.filter { $0.presenter == id && $0.isCertain && $0.number < ledger.number }
        // A program and two of its children are not all one program: it may have turns with both.
        let isFamily =
            dues.contains { $0.presenter == id && $0.party != party && isRelated($0.party, party) }
            || isAtWork(id, ledger) { $0 != party && isRelated($0, party) }
        if isFamily { return }
        for due in mine where due.party == party {
            report.blame("\(id) is let in before it is told: \(Self.text(due))")
        }
    }

    /// N3, N10: who is done is told of within `trailing`, or `steps`.
    func checkPromptness(_ ledger: Ledger, _ report: inout Report) {
        let trailing = max(ledger.bounds.trailing, ledger.bounds.steps)
        for due in dues where due.isCertain && due.moment + trailing < ledger.now {
            let isAsked = open.values.contains {
                $0.question.presenter == due.presenter && $0.last + trailing >= ledger.now
                    && isRelated($0.question.cause.party, due.party)
            }
            let isFollowed = dues.contains {
                $0.presenter == due.presenter && $0.moment + trailing >= ledger.now
                    && isRelated($0.party, due.party)
            }
            let isFollowedBelow = (parties[due.presenter] ?? [:]).contains {
                $0.value + trailing >= ledger.now && isRelated($0.key, due.party)
            }
            // P9: it may wait for a save that somebody else asked for.
            let isSaved = saveOwed[due.presenter].map { $0 + trailing >= ledger.now } ?? false
            if isAsked || isSaved || isFollowed || isFollowedBelow
                || isAtWork(due.presenter, ledger, { isRelated($0, due.party) })
            {
                continue
            }
            report.blame("\(due.presenter) is not told in time: \(Self.text(due))")
        }
    }

    /// Whether somebody has or wants, or had not long ago, what concerns a presenter.
    private func isAtWork(_ id: PresenterID, _ ledger: Ledger, _ isMeant: (Party) -> Bool) -> Bool {
        guard let showing = ledger.showings[id] else { return false }
        return recent.values.contains { known in
            known.last + max(ledger.bounds.trailing, ledger.bounds.steps) >= ledger.now
                && isMeant(known.entry.party ?? .nobody)
                && mayConcern(showing, known.entry, ledger)
        }
    }

    private func mayConcern(_ showing: Ledger.Showing, _ entry: Ledger.Entry, _ ledger: Ledger) -> Bool {
        ledger.upheaval >= entry.number || ledger.concerns(showing, entry)
    }

    /// Whether a program has been at it for so long that it may have several turns.
    private func hasLasted(_ dues: [Due], _ party: Party, _ id: PresenterID, _ ledger: Ledger) -> Bool {
        let isOld = { (moment: Instant) in moment + ledger.bounds.hold <= ledger.now }
        if dues.contains(where: { isOld($0.moment) }) { return true }
        let isTurnOld = open.values.contains {
            $0.question.presenter == id && isRelated($0.question.cause.party, party)
                && isOld($0.question.asked)
        }
        if isTurnOld { return true }
        guard let showing = ledger.showings[id] else { return false }
        // Or one of its purposes has made a turn its own.
        return recent.values.contains {
            (isOld($0.entry.arrived) || $0.entry.party?.purpose != nil)
                && isRelated($0.entry.party ?? .nobody, party)
                && mayConcern(showing, $0.entry, ledger)
        }
    }

    private static func kinds(_ notice: PresenterNotice) -> Set<What> {
        switch notice {
        case .didMove: [.moved]
        case .didChange: [.changed, .deleted]
        case .subitemDidAppear, .subitemDidChange, .subitemDidMove, .reacquire: []
        }
    }
}

/// Parties that may be in one turn: one program with each other, or with one that is one program with both.
///
/// To be one program is not transitive: two children of one process are not, but each is with that.
struct Families: Sendable {
    private enum Trait: Hashable {
        case process(ProcessID)
        case purpose(Purpose)
        case nobody
    }

    private var family: [Trait: Int] = [:]

    private static func traits(_ party: Party) -> [Trait] {
        let processes = (party.process.map { [$0] } ?? []) + party.ancestors
        let purposes = party.purpose.map { [Trait.purpose($0)] } ?? []
        return processes.isEmpty && purposes.isEmpty
            ? [.nobody] : purposes + processes.map { .process($0) }
    }

    mutating func note(_ party: Party) {
        let traits = Self.traits(party)
        let known = Set(traits.compactMap { family[$0] })
        if known.count == 1, traits.allSatisfy({ family[$0] != nil }) { return }
        let one = known.min() ?? family.count
        for (trait, old) in family where known.contains(old) { family[trait] = one }
        for trait in traits { family[trait] = one }
    }

    func areRelated(_ one: Party, _ other: Party) -> Bool {
        if one == other { return true }
        guard let first = Self.traits(one).first.flatMap({ family[$0] }),
            let second = Self.traits(other).first.flatMap({ family[$0] })
        else { return !Set(Self.traits(one)).isDisjoint(with: Self.traits(other)) }
        return first == second
    }
}
