// SPDX-License-Identifier: Apache-2.0
import Arbitration
import ArbitrationSimulation
import Coordination
import NaiveArbitration
import Testing

/// Every run of small worlds, compared step by step with ``NaiveArbiter``.
@Suite("Exhaustive")
struct ExhaustiveTests {
    /// What may happen next in a small world.
    struct Menu: CustomTestStringConvertible, Sendable {
        let testDescription: String
        var claims: [(Request.Nature, Request.Part, Request.Part?)] = []
        var parties: [Party] = []
        var observations: [Observation] = []
        var spans: [Span] = []
        var moves: [Event] = []
        var canForce = false
        /// Claims are identified the moment they are asked about, the first by the first party, and so on.
        var isIdentifiedAtOnce = false
        var policy = Policy.proceed
        let depth: Int
    }

    @Test("the arbiter agrees with the naive one in every run", arguments: menus)
    func agrees(menu: Menu) {
        var bounds = Bounds()
        bounds.policy = menu.policy
        (bounds.wait, bounds.hold, bounds.idle) = (.milliseconds(90), .milliseconds(60), .milliseconds(40))
        (bounds.readerIdle, bounds.glance) = (.milliseconds(20), .milliseconds(10))
        var exploration = Exploration(menu: menu)
        exploration.explore(Pair(bounds: bounds), depth: menu.depth)
        print("\(menu.testDescription): \(exploration.runs) runs, \(exploration.steps) steps")
        #expect(exploration.runs > 1_000)
        #expect(exploration.disagreements.isEmpty)
    }

    /// Both arbiters, told the same.
    struct Pair {
        var arbiter: Arbiter
        var naive: NaiveArbiter
        var now = Instant(nanoseconds: 0)
        var wake: Instant?
        var history: [Event] = []
        var made: UInt64 = 0

        init(bounds: Bounds) {
            arbiter = Arbiter(bounds: bounds)
            naive = NaiveArbiter(bounds: bounds)
        }

        /// Tells both, and returns what they disagree about.
        mutating func tell(_ event: Event, identifying parties: [Party]) -> String? {
            history.append(event)
            if case .tick = event { wake = nil }
            var effects: [Effect] = []
            arbiter.handle(event, at: now, into: &effects)
            var asked: [ClaimID] = []
            for effect in effects {
                if case .wake(let moment) = effect { wake = moment }
                if case .identify(let claim) = effect { asked.append(claim) }
            }
            let said = effects.filter { if case .wake = $0 { false } else { true } }
            let expected = naive.handle(event, at: now)
            if said.count != expected.count || Set(said) != Set(expected) {
                return "\(history)\nsaid     \(said.map(describe))\nexpected \(expected.map(describe))"
            }
            // T3: a wake never comes too late.
            if let moment = naive.nextMoment, wake.map({ $0 > moment }) ?? true {
                return "\(history)\nneeded at \(moment), wake asked for: \(wake?.description ?? "none")"
            }
            guard !parties.isEmpty else { return nil }
            for claim in asked {
                let party = parties[Int(claim.rawValue) % parties.count]
                if let found = tell(.identified(claim, party), identifying: parties) { return found }
            }
            return nil
        }
    }

    struct Exploration {
        let menu: Menu
        var runs = 0
        var steps = 0
        var disagreements: [String] = []

        init(menu: Menu) { self.menu = menu }

        /// Both arbiters are values, so each beginning that runs have in common is played once.
        mutating func explore(_ pair: Pair, depth: Int) {
            guard depth > 0, disagreements.count < 3 else {
                runs += 1
                return
            }
            for (span, event) in choices(after: pair) {
                var next = pair
                if case .claimed = event { next.made += 1 }
                next.now = next.now + span
                steps += 1
                let parties = menu.isIdentifiedAtOnce ? menu.parties : []
                if let disagreement = next.tell(event, identifying: parties) {
                    disagreements.append(disagreement)
                } else {
                    explore(next, depth: depth - 1)
                }
            }
        }

        private func choices(after pair: Pair) -> [(Span, Event)] {
            let none = Span(nanoseconds: 0)
            var choices: [(Span, Event)] = menu.claims.map { nature, first, second in
                (none, .claimed(Request(ClaimID(pair.made), nature, first, second)))
            }
            for entry in pair.naive.entries {
                choices.append((none, .ended(entry.id)))
                if menu.canForce, !entry.isHeld { choices.append((none, .forced(entry.id))) }
                if !menu.isIdentifiedAtOnce, entry.party == nil {
                    choices += menu.parties.map { (none, .identified(entry.id, $0)) }
                }
                if entry.contestedSince != nil {
                    choices += menu.observations.map { (none, .observed(entry.id, $0)) }
                }
            }
            choices += menu.spans.map { ($0, .tick) }
            choices += menu.moves.map { (none, $0) }
            return choices
        }
    }
}

extension ExhaustiveTests {
    private static let read = Request.Part(ItemID(1), .read())
    private static let write = Request.Part(ItemID(1), .write(.updating))
    private static let otherRead = Request.Part(ItemID(2), .read())
    private static let otherWrite = Request.Part(ItemID(2), .write(.updating))
    private static let parent = Party(process: ProcessID(number: 100, started: 1), ancestors: [])
    private static let child = Party(
        process: ProcessID(number: 101, started: 1), ancestors: [ProcessID(number: 100, started: 1)],
        programClass: .background)
    private static let stranger = Party(process: ProcessID(number: 200, started: 1), ancestors: [])

    static let menus = [
        Menu(
            testDescription: "Q1, Q2: readers and writers come and go",
            claims: [(.handle, read, nil), (.handle, write, nil)], depth: 7),
        Menu(
            testDescription: "X1, X2, X3, Q3: who is who is told at any time",
            claims: [(.handle, read, nil), (.handle, write, nil)], parties: [parent, stranger], depth: 6),
        Menu(
            testDescription: "Q3, T2: relatives and strangers in turn, some are forced",
            claims: [(.handle, read, nil), (.handle, write, nil)], parties: [parent, stranger, child],
            canForce: true, isIdentifiedAtOnce: true, depth: 7),
        Menu(
            testDescription: "G1, Q3: one item, the other, or both",
            claims: [(.handle, write, nil), (.handle, otherRead, nil), (.handle, write, otherWrite)],
            parties: [parent, stranger], isIdentifiedAtOnce: true, depth: 6),
        Menu(
            testDescription: "G4, G5, Y7: every nature",
            claims: [
                (.handle, read, nil), (.handle, write, nil), (.request, write, nil),
                (.nameChange, write, nil),
                (.episode, write, nil),
            ], parties: [stranger, parent], spans: [.milliseconds(60)], isIdentifiedAtOnce: true, depth: 5),
        Menu(
            testDescription: "Y1 to Y8, X4: writers and readers are looked at",
            claims: [(.handle, read, nil), (.handle, write, nil)], parties: [parent, stranger],
            observations: [.clean, .dirty(stamp: 1), .dirty(stamp: 2), .reading(position: 1)],
            spans: [.milliseconds(40)], isIdentifiedAtOnce: true, depth: 6),
        Menu(
            testDescription: "T1, T3, T4: time passes in odd steps, policy fail",
            claims: [(.handle, read, nil), (.handle, write, nil)],
            spans: [.milliseconds(25), .milliseconds(95)], policy: .fail, depth: 6),
        Menu(
            testDescription: "R1, R2, R3: items change hands",
            claims: [
                (.handle, read, nil), (.handle, write, nil), (.handle, otherWrite, nil),
                (.request, write, nil),
            ], parties: [parent, stranger],
            moves: [
                .vacated(document: ItemID(1), orphan: ItemID(3)),
                .replaced(document: ItemID(1), incoming: ItemID(2), orphan: ItemID(3)),
                .replaced(document: ItemID(1), incoming: ItemID(2), orphan: nil),
            ], isIdentifiedAtOnce: true, depth: 5),
    ]
}
