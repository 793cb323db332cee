// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Nobody is granted whose presenters were not asked, and who did not agree is listed (P1, P2, P12, P16 to P18).
struct ConsentChecker: Checker {
    private struct Known {
        let presenter: PresenterID
        /// The event that began it.
        let number: Int
        var isWrite: Bool
        var causes: [Party] = []
        var asked: Set<PresenterRequest> = []
        /// Somebody refused or forfeited.
        var isUnanswered = false
        /// P9: it may have waited for a save that another asked for.
        var mayBeUnanswered = false
        var isOver = false
    }

    private var turns: [TurnID: Known] = [:]
    /// Open and closed requests to save: when each was last open.
    private var saves: [PresenterID: Instant] = [:]
    private var turnOf: [QuestionID: TurnID] = [:]
    /// A relinquishment cannot be refused.
    private var refusable: Set<QuestionID> = []
    private var saving: Set<QuestionID> = []
    /// Whoever has a purpose.
    private var purposeful: Set<Party> = []
    /// Which event made a presenter refuse or forfeit last.
    private var refused: [PresenterID: Int] = [:]
    /// P15: claims that were made within others at some time, and who has relinquished to those.
    private var covered: [ClaimID: Set<PresenterID>] = [:]
    /// P15: what those others might move.
    private var moving: [ClaimID: Set<ItemID>] = [:]
    /// P12: items for which somebody was listed since it answered last; excused ones need not be listed again.
    private var listed: [PresenterID: Set<ItemID>] = [:]

    mutating func hear(_ event: Event, _ ledger: Ledger, _ report: inout Report) {
        switch event {
        case .removed(let id):
            turns = turns.filter { $1.presenter != id }
            saves[id] = nil
        case .identified(_, let party): if party.purpose != nil { purposeful.insert(party) }
        case .answered(let id, let presenter, let answer):
            listed[presenter] = nil
            if answer == .failed, saving.contains(id) { spread(presenter) }
            guard let turn = turnOf[id], turns[turn]?.presenter == presenter else { return }
            turnOf[id] = nil
            if answer == .failed, refusable.contains(id) {
                turns[turn]?.isUnanswered = true
                refused[presenter] = ledger.number
            }
        default: break
        }
        noteCovers(ledger)
        for question in ledger.questions.values where question.request == .save {
            saves[question.presenter] = ledger.now
        }
    }

    /// A turn that a process began without a purpose may have become that of one of its purposes, and what a parent began
    /// takes in all of its children (Terms).
    private func mayShareTurn(_ cause: Party, _ party: Party) -> Bool {
        Ledger.areOneProgram(cause, party)
            || !Set(cause.ancestors).isDisjoint(with: party.ancestors)
            || purposeful.contains { $0.purpose == party.purpose && Ledger.areOneProgram(cause, $0) }
    }

    private mutating func spread(_ presenter: PresenterID) {
        for (id, turn) in turns where turn.presenter == presenter { turns[id]?.mayBeUnanswered = true }
    }

    private mutating func noteCovers(_ ledger: Ledger) {
        covered = covered.filter { ledger.claims[$0.key] != nil }
        moving = moving.filter { ledger.claims[$0.key] != nil }
        let outer = ledger.claims.values.filter { $0.isHeld && $0.nature == .aware && $0.party != nil }
        if outer.isEmpty { return }
        for claim in ledger.claims.values where !claim.isHeld {
            for cover in outer where ledger.areExempt(cover, claim) {
                let relinquished = turns.values.filter { turn in
                    turn.asked.contains(where: \.isRelinquishment)
                        && turn.causes.contains { Ledger.areOneProgram($0, cover.party ?? .nobody) }
                }
                covered[claim.id, default: []].formUnion(relinquished.map(\.presenter))
                let moves: [Access] = [.write(.updating), .write(.forMerging), .write(.forMoving)]
                let moved = cover.parts.filter { moves.contains($0.access) }
                moving[claim.id, default: []].formUnion(moved.map(\.item))
            }
        }
    }

    mutating func see(_ effect: Effect, of event: Event, _ ledger: Ledger, _ report: inout Report) {
        switch effect {
        case .ask(let question):
            var turn =
                turns[question.turn]
                ?? Known(
                    presenter: question.presenter, number: ledger.number,
                    isWrite: question.cause.access.isWrite)
            turn.causes.append(question.cause.party)
            turn.asked.insert(question.request)
            turns[question.turn] = turn
            turnOf[question.id] = question.turn
            if !question.request.isRelinquishment { refusable.insert(question.id) }
            if question.request == .save {
                saves[question.presenter] = ledger.now
                saving.insert(question.id)
            }
        case .forfeit(let question, _):
            turns[question.turn]?.isUnanswered = true
            if question.request == .save { spread(question.presenter) }
            refused[question.presenter] = ledger.number
            turnOf[question.id] = nil
        case .tell(let notice):
            if notice.kind == .reacquire { turns[notice.turn] = nil } else { break }
        case .grant(let id, let grant):
            guard let claim = ledger.claims[id], !claim.isHeld else { return }
            checkConsent(claim, grant, ledger, &report)
            checkList(claim, grant, ledger, &report)
            for presenter in grant.unanswered {
                listed[presenter, default: []].formUnion(claim.parts.map(\.item))
            }
        default: break
        }
    }

    private func checkConsent(
        _ claim: Ledger.Entry, _ grant: Grant, _ ledger: Ledger, _ report: inout Report
    ) {
        guard grant.basis != .proceeded, claim.nature != .episode else { return }
        for (id, showing) in ledger.showings.sorted(by: { $0.key < $1.key }) {
            // One that came in the middle need not be asked.
            // Nor one that is concerned only since something was moved.
            guard showing.number < claim.number, ledger.upheaval < claim.number,
                !showing.hasEverForfeited
            else { continue }
            for part in claim.parts {
                let wanted = Self.wanted(claim, part, showing, ledger).filter(showing.implements)
                if wanted.isEmpty { continue }
                guard let party = claim.party else {
                    report.blame("\(claim.id) is granted, nobody knows to whom, and \(id) was not asked")
                    continue
                }
                if ledger.isOwn(party, showing) || party.works(for: showing.party) { continue }
                // P15: what was relinquished to an access that this is made within counts as well.
                let parties =
                    [party]
                    + ledger.claims.values.compactMap {
                        $0.isHeld && $0.nature == .aware && ledger.areExempt($0, claim) ? $0.party : nil
                    }
                let present = turns.values.filter { turn in
                    turn.presenter == id
                        && turn.causes.contains { cause in
                            parties.contains { mayShareTurn(cause, $0) }
                        }
                }
                for request in wanted where !present.contains(where: { $0.asked.contains(request) }) {
                    if isCovered(claim, request, id, ledger) { continue }
                    if request.isDeletion, isMovedInstead(part, of: claim) { continue }
                    // P26.
                    if request == .accommodateSubitemDeletion, ledger.newcomers.contains(part.item) {
                        continue
                    }
                    // P9: it waits for a save that somebody else asked for.
                    if request == .save, let saved = saves[id], saved >= claim.arrived { continue }
                    if request == .save, isSparedSaving(claim, part, showing, ledger) { continue }
                    // P22.
                    if request == .relinquishToReader,
                        present.contains(where: { $0.asked.contains(.relinquishToWriter) })
                    {
                        continue
                    }
                    report.blame("\(claim.id) is granted, and \(id) was not asked \(request.rawValue)")
                }
            }
        }
    }

    /// P23, P24: another write goes on in one of its turns, or it cannot have heard of one.
    private func isSparedSaving(
        _ claim: Ledger.Entry, _ part: Request.Part, _ showing: Ledger.Showing, _ ledger: Ledger
    ) -> Bool {
        if !showing.implements(.didChange), !showing.implements(.subitemDidChange) { return true }
        return ledger.claims.values.contains { other in
            other.id != claim.id && !other.onlyReads && other.arrived <= ledger.now
                && other.parts.contains { ledger.position(of: showing, to: $0.item, $0.place) != nil }
        }
    }

    /// What the presenter must surely be asked for a part (P2, P16 to P19).
    private static func wanted(
        _ claim: Ledger.Entry, _ part: Request.Part, _ showing: Ledger.Showing, _ ledger: Ledger
    ) -> [PresenterRequest] {
        let position = ledger.position(of: showing, to: part.item, part.place)
        switch (position, part.access) {
        case (nil, _): return []
        case (.plainAbove, _), (.below, .read): return []
        case (.below, .write(let option)):
            // Links of what is below may have their own mind; the directory is what is moved.
            guard option.isStructural, claim.nature != .handle else { return [] }
            return option == .forMoving ? [.relinquishToWriter] : [.relinquishToWriter, .accommodateDeletion]
        case (_, .read): return [.relinquishToReader]
        case (_, .write(.forMerging)): return [.relinquishToWriter, .save]
        case (_, .write(.updating)), (_, .write(.contentIndependentMetadataOnly)):
            return [.relinquishToWriter]
        case (let position, .write(let option)):
            guard claim.nature != .handle || option != .forReplacing else { return [] }
            // P19.
            guard position != .of || (part.place.link == nil && showing.place.link == nil) else { return [] }
            if option == .forMoving { return [.relinquishToWriter] }
            let request: PresenterRequest =
                position == .of ? .accommodateDeletion : .accommodateSubitemDeletion
            return [.relinquishToWriter, request]
        }
    }

    /// P15: within another access nobody is asked to save, nor to relinquish again.
    private func isCovered(
        _ claim: Ledger.Entry, _ request: PresenterRequest, _ id: PresenterID, _ ledger: Ledger
    ) -> Bool {
        if request == .save, covered[claim.id] != nil { return true }
        let isAware = claim.nature == .aware || claim.isBatch
        if request.isRelinquishment, !isAware, covered[claim.id]?.contains(id) ?? false { return true }
        return ledger.claims.values.contains {
            $0.isHeld && $0.nature == .aware && ledger.areExempt($0, claim)
                && (request == .save || $0.suspension != nil)
        }
    }

    /// P15: it is deleted within an access that may move it.
    private func isMovedInstead(_ part: Request.Part, of claim: Ledger.Entry) -> Bool {
        part.access == .write(.forDeleting) && claim.nature != .aware && !claim.isBatch
            && moving[claim.id]?.contains(part.item) ?? false
    }

    /// P12.
    private func checkList(
        _ claim: Ledger.Entry, _ grant: Grant, _ ledger: Ledger, _ report: inout Report
    ) {
        if grant.unanswered != Array(Set(grant.unanswered)).sorted() {
            report.blame("\(claim.id) lists \(grant.unanswered), not in order")
        }
        let isAware = claim.nature == .aware || claim.isBatch
        if claim.onlyReads, !isAware, !grant.unanswered.isEmpty {
            report.blame("\(claim.id) reads, and lists \(grant.unanswered)")
        }
        for id in grant.unanswered {
            guard let showing = ledger.showings[id] else {
                report.blame("\(claim.id) lists \(id), who is gone")
                continue
            }
            let isOpen = ledger.questions.values.contains { $0.presenter == id }
            let hasRefused =
                turns.values.contains {
                    $0.presenter == id && ($0.isUnanswered || $0.mayBeUnanswered)
                }
                || refused[id].map { $0 >= claim.number } ?? false
            // P12: who let time run out is listed for each item, turn or not.
            if !isOpen, !hasRefused, !showing.hasEverForfeited, grant.basis != .proceeded {
                report.blame("\(claim.id) lists \(id), who refused nothing")
            }
            if let party = claim.party, ledger.isOwn(party, showing) {
                report.blame("\(claim.id) lists its own presenter \(id)")
            }
        }
        guard !claim.onlyReads, let party = claim.party, claim.nature != .episode else { return }
        for turn in turns.values
        where turn.isUnanswered && turn.isWrite && turn.causes.contains(party) && turn.number >= claim.number
        {
            guard let showing = ledger.showings[turn.presenter], !grant.unanswered.contains(turn.presenter),
                !claim.parts.contains(where: { listed[turn.presenter]?.contains($0.item) ?? false }),
                claim.parts.contains(where: {
                    $0.item == showing.item && $0.access.isWrite && !$0.access.isStructural
                }), !isCovered(claim, .save, turn.presenter, ledger), showing.number < claim.number,
                ledger.upheaval < claim.number
            else { continue }
            report.blame("\(claim.id) does not list \(turn.presenter), who did not agree")
        }
    }
}
