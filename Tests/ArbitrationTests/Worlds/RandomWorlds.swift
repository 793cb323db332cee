// SPDX-License-Identifier: Apache-2.0
import ArbitrationSimulation
import Coordination
import NaiveArbitration

/// A long run of a simulation in which very many kinds of events are possible. The run depends only on a seed.
struct RandomWorld {
    private var chance: SeededRandom
    private let menu: Menu
    private var run: ComparisonRun
    /// The steps that the run has taken.
    private var taken: [WorldStep]

    init(seed: UInt64, limits: WorkLimits = WorkLimits()) {
        chance = SeededRandom(seed)
        var menu = Menu.large(&chance)
        menu.limits = limits
        self.menu = menu
        run = ComparisonRun(menu)
        taken = menu.setup.map { .event($0) }
    }

    /// Plays the given number of steps. If the arbiters disagree, returns the disagreement of a run that is as short as
    /// possible.
    mutating func play(steps: Int) -> String? {
        for step in taken {
            if let disagreement = run.take(step, of: menu) { return disagreement }
        }
        for _ in 0..<steps {
            guard let step = next() else { continue }
            taken.append(step)
            if run.take(step, of: menu) != nil { return shortened() }
        }
        return nil
    }

    /// Removes one step after another from the run, as long as the two arbiters still disagree without the step. The steps that
    /// place items are never removed.
    private func shortened() -> String? {
        var steps = taken.map { Optional($0) }
        var disagreement = replay(steps)
        var isShorter = true
        while isShorter {
            isShorter = false
            for index in steps.indices.dropFirst(Menu.tree.count).reversed() where steps[index] != nil {
                var fewer = steps
                fewer[index] = nil
                guard let found = replay(fewer) else { continue }
                (steps, disagreement, isShorter) = (fewer, found, true)
            }
        }
        return disagreement
    }

    /// Replays the steps. If a claim is left out, the other claims keep their numbers. Steps that are impossible without the
    /// removed steps are skipped.
    private func replay(_ steps: [WorldStep?]) -> String? {
        var run = ComparisonRun(menu)
        for (index, step) in steps.enumerated() {
            guard let step else {
                if case .claim = taken[index] { run.comparison.skipClaim() }
                continue
            }
            if case .event(let event) = step, index >= menu.setup.count, !run.mayCome(event, menu) {
                continue
            }
            if let disagreement = run.take(step, of: menu) { return disagreement }
        }
        return nil
    }

    /// Chooses a kind of step, and then a step of this kind. So claims and ticks are frequent, even if many steps of other
    /// kinds are possible.
    private mutating func next() -> WorldStep? {
        let steps = run.steps(of: menu)
        let kind = chance.below(5)
        let some = steps.filter { step in
            switch step {
            case .claim: kind == 0
            case .event: kind == 1 || kind == 2
            case .pass: kind == 3
            case .fact: kind == 4
            }
        }
        return chance.one(of: some)
    }
}

extension ComparisonRun {
    fileprivate func mayCome(_ event: ArbiterEvent, _ menu: Menu) -> Bool {
        steps(of: menu).contains { step in
            if case .event(let possible) = step { possible == event } else { false }
        }
    }
}

extension SeededRandom {
    fileprivate mutating func some<Element>(_ count: Int, of elements: [Element]) -> [Element] {
        (0..<count).compactMap { _ in one(of: elements) }
    }
}

extension Menu {
    /// The menu of a folder that contains a folder, a package and files, with all events that can happen to these items.
    static func large(_ chance: inout SeededRandom) -> Menu {
        var bounds = shortBounds
        bounds.policy = chance.below(3) == 0 ? .fail : .proceed
        bounds.askAgain = chance.below(2) == 0 ? .zero : .milliseconds(45)
        return Menu(
            name: "at random",
            setup: tree + chance.some(1 + chance.below(3), of: shows).enumerated().map(numbered),
            claims: (0..<8).map { _ in form(&chance) }, most: 40,
            observations: [
                .clean, .unchanged(position: 0), .emptied, .dirty(stamp: 1), .dirty(stamp: 2), .atEnd,
                .atEndUnconfirmed(position: 1), .reading(position: 1),
            ],
            answers: [.done, .failed], hasLateAnswers: true, hasProgress: true,
            canForce: chance.below(2) == 0, canLock: chance.below(3) == 0,
            stamps: [1, 2], removals: [PresenterID(0)],
            spans: [.milliseconds(5), .milliseconds(13), .milliseconds(38)],
            facts: facts(&chance) + pauses(&chance) + mutes(&chance) + versions(&chance),
            bounds: bounds, followsMoves: true, depth: 0)
    }

    private static let places: [(UInt64, UInt64?)] = [
        (1, 10), (2, 11), (3, 12), (4, 13), (5, 14), (11, 10), (12, 11), (14, 12),
    ]

    private static let shows: [Presenter] = places.flatMap { item, directory in
        let place = Place(in: directory.map { ItemID($0) })
        let few: PresenterMessages = [.save, .didChange, .subitemDidMove]
        return [
            Presenter(PresenterID(0), of: ItemID(item), at: place, by: TestParties.editor, .all),
            Presenter(PresenterID(0), of: ItemID(item), at: place, by: TestParties.viewer, few),
        ]
    }

    private static func numbered(_ number: Int, _ shown: Presenter) -> ArbiterEvent {
        .presented(
            Presenter(
                PresenterID(UInt64(number)), of: shown.item, at: shown.place, by: shown.party, shown.messages)
        )
    }

    private static func part(_ chance: inout SeededRandom) -> ClaimRequest.Part {
        let (item, directory) = chance.one(of: places) ?? (1, 10)
        let accesses: [Access] =
            [.read(), .read(), .read(.withoutChanges)] + WritingOption.allCases.map { .write($0) }
        return ClaimRequest.Part(
            ItemID(item), chance.one(of: accesses) ?? .read(), at: Place(in: directory.map { ItemID($0) }))
    }

    private static func form(_ chance: inout SeededRandom) -> ClaimTemplate {
        let programs = [
            TestParties.parent, TestParties.child, TestParties.sibling, TestParties.stranger,
            TestParties.editor, TestParties.worker,
        ]
        let party = chance.one(of: programs) ?? TestParties.parent
        let purpose = TestParties.aware(["a", "b"][chance.below(2)], party)
        let isNested = chance.below(3) == 0
        switch chance.below(9) {
        case 0...3:
            return ClaimTemplate(.handle, part(&chance), by: party, accessPattern: accessPattern(&chance))
        case 4: return ClaimTemplate(.handleless, part(&chance), by: party)
        case 5: return ClaimTemplate(.nameChange, part(&chance), part(&chance), by: party)
        case 6: return ClaimTemplate(.batch, part(&chance), part(&chance), by: purpose)
        case 7:
            return ClaimTemplate(.aware, part(&chance), by: purpose, isNested: isNested, isAnswer: !isNested)
        default: return ClaimTemplate(.aware, part(&chance), part(&chance), by: purpose, isNested: isNested)
        }
    }

    private static func accessPattern(_ chance: inout SeededRandom) -> ClaimRequest.AccessPattern {
        chance.below(2) == 0 ? [] : ClaimRequest.AccessPattern(rawValue: UInt8(chance.below(4)))
    }

    /// The events of rule N14, which pause a presenter and end the pause.
    private static func pauses(_ chance: inout SeededRandom) -> [ArbiterEvent] {
        guard chance.below(2) == 0 else { return [] }
        let some = [[0], [1], [0, 1, 2]][chance.below(3)].map { PresenterID(UInt64($0)) }
        let (behind, told) = (chance.below(4) == 0, chance.below(4) == 0)
        return [.paused(some), .resumed(some, behind: behind ? [some[0]] : [], told: told ? [some[0]] : [])]
    }

    /// The events of rule N15, which mute a presenter and unmute it.
    private static func mutes(_ chance: inout SeededRandom) -> [ArbiterEvent] {
        guard chance.below(2) == 0 else { return [] }
        let some = [[0], [1], [0, 1, 2]][chance.below(3)].map { PresenterID(UInt64($0)) }
        return [.muted(some), .unmuted(some)]
    }

    /// The events of rule N16, which are about versions of items.
    private static func versions(_ chance: inout SeededRandom) -> [ArbiterEvent] {
        (0..<chance.below(3)).map { number in
            let (item, directory) = chance.one(of: places) ?? (1, 10)
            let kind = chance.one(of: VersionChange.Kind.allCases) ?? .gained
            let party = chance.one(of: [TestParties.parent, TestParties.editor]) ?? TestParties.parent
            return .versioned(
                ItemID(item), at: Place(in: directory.map { ItemID($0) }),
                VersionChange(kind, VersionNumber(UInt64(number + 1))), Cause(party, .write(.updating)))
        }
    }

    private static func facts(_ chance: inout SeededRandom) -> [ArbiterEvent] {
        (0..<8).map { _ in
            let (item, directory) = chance.one(of: places) ?? (1, 10)
            let place = Place(in: directory.map { ItemID($0) })
            let party =
                chance.one(of: [TestParties.parent, TestParties.stranger, TestParties.worker])
                ?? TestParties.parent
            // Items with numbers below 10 are files, and only files are saved.
            let isFile = item < 10
            switch chance.below(8) {
            case 0: return .created(ItemID(item), at: place, by: party, under: nil)
            case 1: return .deleted(ItemID(item), at: place, by: party, under: nil)
            case 2 where isFile: return .lost(ItemID(item), at: place, by: party)
            case 3 where isFile: return .vacated(document: ItemID(item), orphan: ItemID(30))
            case 4: return .replaced(document: ItemID(1), incoming: ItemID(2), orphan: ItemID(31))
            case 5:
                let move = Move(from: place, to: Place(in: ItemID(10)), placeholder: ItemID(32))
                return .moved(ItemID(item), move, by: party, under: nil)
            case 6:
                let cause = Cause(party, .write(.updating))
                return .written(ItemID(item), at: place, cause, under: nil, stamp: UInt64(chance.below(4)))
            default:
                let cause = Cause(party, .write(.updating))
                return .changed(ItemID(item), at: place, cause, under: nil, stamp: UInt64(chance.below(4)))
            }
        }
    }
}
