// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Compares the notices that the arbiter sends with the expected notices.
extension NoticeChecker {
    mutating func check(_ notice: Notice, _ model: WorldModel, _ report: inout ViolationReport) {
        guard let presenterModel = model.presenterModels[notice.presenter] else { return }
        if notice.kind == .reacquire { return checkReacquire(notice, model, &report) }
        let party = notice.cause.party
        if model.isOwn(party, presenterModel) {
            report.addViolation("\(notice.presenter) is told of its own \(notice.kind.rawValue)")
        }
        if notice.subitem != nil { return }
        let related = expectedNotices.indices.filter {
            expectedNotices[$0].presenter == notice.presenter && isRelated(expectedNotices[$0].party, party)
        }
        let kinds = Self.kinds(notice.kind)
        // N9: a notice names the last event of its kind as its cause, so no notice of that event was sent before.
        let matching = related.filter {
            kinds.contains(expectedNotices[$0].what) && expectedNotices[$0].party == party
        }
        // An event of the current moment may belong to the next session, so an earlier event is preferred.
        guard let cause = matching.last(where: { expectedNotices[$0].number < model.number }) ?? matching.last
        else {
            if isStandIn(notice, presenterModel) { return }
            return report.addViolation(
                "\(notice.presenter) is told \(notice.kind.rawValue) by \(CommandWriter.text(of: party)), "
                    + "which did not happen")
        }
        settle(notice, cause, related, model)
    }

    /// N6: whether the notice of a package that it changed replaces a notice that its presenter does not implement.
    private func isStandIn(_ notice: Notice, _ presenterModel: WorldModel.PresenterModel) -> Bool {
        let isComplete = [.subitemDidAppear, .subitemDidChange, .subitemDidMove].allSatisfy(
            presenterModel.implements)
        return notice.kind == .didChange && !isComplete
            && parties[notice.presenter]?[notice.cause.party] != nil
    }

    /// Removes the expected notices that a sent notice satisfies.
    private mutating func settle(_ notice: Notice, _ cause: Int, _ related: [Int], _ model: WorldModel) {
        let party = notice.cause.party
        let kinds = Self.kinds(notice.kind)
        // Two children of a program have a session each. A change of the program itself may be told in either session.
        let isSpread = open.contains {
            $0 != notice.accessSession && $1.question.presenter == notice.presenter
                && isRelated($1.question.cause.party, party)
        }
        let maySpread =
            isSpread || hasLasted(related.map { expectedNotices[$0] }, party, notice.presenter, model)
        var gone: Set<Int> = [cause]
        for index in related where kinds.contains(expectedNotices[index].what) {
            // An expected notice stays, but becomes optional, in these cases:
            // - A relative made the change. The change may have been told with this notice, or have its own session.
            // - The program has worked for `hold`, so that it may have several sessions.
            // - The event is of the current moment and may belong to the next session.
            // - The expected notice is optional, and a required notice is expected too.
            let isMatched =
                expectedNotices[index].isCertain || !related.contains { expectedNotices[$0].isCertain }
            if expectedNotices[index].party == party, expectedNotices[index].number < model.number,
                !maySpread, isMatched
            {
                gone.insert(index)
            } else {
                expectedNotices[index].isCertain = false
            }
        }
        expectedNotices = expectedNotices.indices.filter { !gone.contains($0) }.map { expectedNotices[$0] }
    }

    /// N3: checks that a program's changes are told before the presenter may reacquire.
    ///
    /// There is no check if the presenter has also relinquished in another session of the program.
    private mutating func checkReacquire(
        _ notice: Notice, _ model: WorldModel, _ report: inout ViolationReport
    ) {
        open[notice.accessSession] = nil
        let (id, party) = (notice.presenter, notice.cause.party)
        if open.values.contains(where: {
            $0.question.presenter == id && isRelated($0.question.cause.party, party)
        }) {
            return
        }
        let mine = expectedNotices.filter { $0.presenter == id && $0.isCertain && $0.number < model.number }
        // Two children of a program are not one program, but each is one with their parent. So the presenter may have a session
        // with each of them.
        let isFamily =
            expectedNotices.contains { $0.presenter == id && $0.party != party && isRelated($0.party, party) }
            || isAtWork(id, model) { $0 != party && isRelated($0, party) }
        if isFamily { return }
        for expected in mine where expected.party == party {
            report.addViolation("\(id) is let in before it is told: \(Self.text(expected))")
        }
    }

    /// N3, N10: checks that the changes of a program that has ended its accesses are told within `trailing` or `steps`.
    func checkPromptness(_ model: WorldModel, _ report: inout ViolationReport) {
        let trailing = max(model.bounds.trailing, model.bounds.steps)
        for expected in expectedNotices where expected.isCertain && expected.moment + trailing < model.now {
            let isAsked = open.values.contains {
                $0.question.presenter == expected.presenter && $0.last + trailing >= model.now
                    && isRelated($0.question.cause.party, expected.party)
            }
            let isFollowed = expectedNotices.contains {
                $0.presenter == expected.presenter && $0.moment + trailing >= model.now
                    && isRelated($0.party, expected.party)
            }
            let isFollowedBelow = (parties[expected.presenter] ?? [:]).contains {
                $0.value + trailing >= model.now && isRelated($0.key, expected.party)
            }
            // P9: the session may wait for a save that was asked for in another session.
            let isSaved = saveOwed[expected.presenter].map { $0 + trailing >= model.now } ?? false
            if isAsked || isSaved || isFollowed || isFollowedBelow
                || isAtWork(expected.presenter, model, { isRelated($0, expected.party) })
            {
                continue
            }
            report.addViolation("\(expected.presenter) is not told in time: \(Self.text(expected))")
        }
    }

    /// Whether a matching claim that concerns a presenter waits or is held, or ended a short time ago.
    private func isAtWork(_ id: PresenterID, _ model: WorldModel, _ isMeant: (Party) -> Bool) -> Bool {
        guard let presenterModel = model.presenterModels[id] else { return false }
        return recent.values.contains { known in
            known.last + max(model.bounds.trailing, model.bounds.steps) >= model.now
                && isMeant(known.entry.party ?? .nobody)
                && mayConcern(presenterModel, known.entry, model)
        }
    }

    private func mayConcern(
        _ presenterModel: WorldModel.PresenterModel, _ entry: WorldModel.ClaimModel, _ model: WorldModel
    ) -> Bool {
        model.lastStructuralChange >= entry.number || model.concerns(presenterModel, entry)
    }

    /// Whether a program has worked for so long that it may have several access sessions.
    private func hasLasted(
        _ expectedNotices: [ExpectedNotice], _ party: Party, _ id: PresenterID, _ model: WorldModel
    ) -> Bool {
        let isOld = { (moment: Instant) in moment + model.bounds.hold <= model.now }
        if expectedNotices.contains(where: { isOld($0.moment) }) { return true }
        let isTurnOld = open.values.contains {
            $0.question.presenter == id && isRelated($0.question.cause.party, party)
                && isOld($0.question.asked)
        }
        if isTurnOld { return true }
        guard let presenterModel = model.presenterModels[id] else { return false }
        // A purpose of the program may also have taken over a session, so that another session began.
        return recent.values.contains {
            (isOld($0.entry.arrived) || $0.entry.party?.purpose != nil)
                && isRelated($0.entry.party ?? .nobody, party)
                && mayConcern(presenterModel, $0.entry, model)
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

/// Groups parties that may share an access session: parties that are one program, or each one program with a third party.
///
/// To be one program is not transitive. Two children of one process are not one program, but each is one program with the
/// process.
struct ProgramFamilies: Sendable {
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
