// SPDX-License-Identifier: Apache-2.0
import Arbitration
import ArbitrationSimulation
import Coordination
import Testing

/// Worlds with presenters, played at random from printed seeds, with checkers beside them.
@Suite("Presenter worlds")
struct PresenterWorldTests {
    static let seeds = 1...1_000 as ClosedRange<UInt64>

    @Test("the promises to claimants and presenters are kept in every world")
    func promises() {
        var totals = PresenterWorld.Totals()
        for seed in Self.seeds {
            var world = PresenterWorld(seed: seed)
            world.play(steps: 80)
            world.end()
            #expect(world.broken.isEmpty, "seed \(seed): \(world.broken)\n\(world.story)")
            if !world.broken.isEmpty { return }
            totals.add(world.totals)
        }
        print("presenter worlds, seeds \(Self.seeds): \(totals)")
        // A world in which hardly anything happens shows nothing.
        #expect(totals.asked > 5_000 && totals.forfeited > 1_000 && totals.told > 5_000)
    }
}

/// A few programs, two items, and presenters that answer well, badly, late or never.
struct PresenterWorld {
    struct Totals: CustomStringConvertible {
        var claims = 0
        var asked = 0
        var forfeited = 0
        var told = 0

        mutating func add(_ other: Totals) {
            claims += other.claims
            asked += other.asked
            forfeited += other.forfeited
            told += other.told
        }

        var description: String { "\(claims) claims, \(asked) asked, \(forfeited) forfeited, \(told) told" }
    }

    private(set) var broken: [String] = []
    private(set) var totals = Totals()
    /// Every event and effect, for the message of a failure.
    private(set) var story = ""

    private var chance: Chance
    private var arbiter: Arbiter
    private let bounds: Bounds
    private var now = Instant(nanoseconds: 0)
    private var wake: Instant?
    private var nextClaim: UInt64 = 1
    private var nextPresenter: UInt64 = 1
    private var waiting: [ClaimID: (party: Party, latest: Instant)] = [:]
    private var held: [ClaimID: Request] = [:]
    private var parties: [ClaimID: Party] = [:]
    private var presenters: [PresenterID: Presenter] = [:]
    private var open: [Question] = []
    private var over: [Question] = []
    private var demoted: Set<PresenterID> = []
    private var turns = TurnChecker()

    init(seed: UInt64) {
        chance = Chance(seed)
        var bounds = Bounds()
        (bounds.wait, bounds.hold, bounds.holdAware) = (.seconds(4), .seconds(3), .seconds(5))
        (bounds.relinquish, bounds.save, bounds.deletion) = (.seconds(1), .seconds(2), .seconds(1))
        bounds.progress = .seconds(6)
        bounds.policy = chance.isLucky(1, of: 3) ? .fail : .proceed
        bounds.askAgain = chance.isLucky(1, of: 2) ? .zero : .seconds(2)
        self.bounds = bounds
        arbiter = Arbiter(bounds: bounds)
    }

    mutating func play(steps: Int) {
        for _ in 0..<steps { step() }
    }

    /// Everybody leaves; nothing may be left of them.
    mutating func end() {
        for claim in held.keys.sorted() { tell(.ended(claim)) }
        advance(by: .seconds(120))
        for claim in held.keys.sorted() { tell(.ended(claim)) }
        advance(by: .seconds(120))
        if !waiting.isEmpty { fail("still waiting: \(waiting.keys.sorted())") }
        if !arbiter.isAtRest { fail("something is left when all is over") }
        for turn in turns.owing where presenters[turn.presenter]?.messages.contains(.reacquire) ?? false {
            fail("\(turn.presenter) was never let in again after \(turn.id)")
        }
    }

    private mutating func step() {
        switch chance.below(20) {
        case 0: present()
        case 1: if let id = chance.one(of: presenters.keys.sorted()), chance.isLucky(1, of: 3) { remove(id) }
        case 2...6: claim()
        case 7...9: if let id = chance.one(of: held.keys.sorted()) { finish(id) }
        case 10: if let id = chance.one(of: waiting.keys.sorted()) { tell(.withdrawn(id)) }
        case 11...14: if let question = chance.one(of: open) { answer(question) }
        case 15:
            if let question = chance.one(of: over) {
                tell(.answered(question.id, by: question.presenter, .done))
            }
        case 16: if let question = chance.one(of: open) { progress(question) }
        case 17: nameFacts()
        default: advance(by: .milliseconds(UInt64(chance.below(900))))
        }
    }

    private static let items = [ItemID(1), ItemID(2)]

    /// Five programs; 11 and 12 are children of 10, 12 in a terminal of its own.
    private mutating func anybody() -> Party {
        let number = Int32([10, 11, 12, 20, 30][chance.below(5)])
        let ancestors = number == 11 || number == 12 ? [ProcessID(number: 10, started: 1)] : []
        var party = Party(
            process: ProcessID(number: number, started: 1), ancestors: ancestors,
            programClass: number == 30 ? .background : .ordinary)
        party.session = number
        party.terminals = number == 12 ? [7, 0] : [0, 0]
        return party
    }

    private mutating func present() {
        let id = PresenterID(nextPresenter)
        nextPresenter += 1
        let messages = PresenterMessages(rawValue: UInt16(chance.below(4) == 0 ? chance.below(128) : 127))
        let presenter = Presenter(id, of: Self.items[chance.below(2)], by: anybody(), messages)
        presenters[id] = presenter
        tell(.presented(presenter))
    }

    private mutating func remove(_ id: PresenterID) {
        presenters[id] = nil
        open.removeAll { $0.presenter == id }
        over.removeAll { $0.presenter == id }
        turns.forget(id)
        tell(.removed(id))
    }

    private mutating func claim() {
        let id = ClaimID(nextClaim)
        nextClaim += 1
        totals.claims += 1
        var party = anybody()
        let nature: Request.Nature = [.handle, .handle, .request, .nameChange, .aware][chance.below(5)]
        if nature == .aware { party.purpose = Purpose(["a", "b"][chance.below(2)]) }
        let options = WritingOption.allCases
        let access: Access =
            nature != .nameChange && nature != .request && chance.isLucky(1, of: 2)
            ? .read() : .write(options[chance.below(options.count)])
        let item = chance.below(2)
        let second =
            nature == .nameChange && chance.isLucky(1, of: 4)
            ? Request.Part(Self.items[1 - item], .write(.updating)) : nil
        parties[id] = party
        waiting[id] = (party, now + bounds.wait)
        let request = Request(id, nature, Request.Part(Self.items[item], access), second)
        requests[id] = request
        tell(.claimed(request))
    }

    private var requests: [ClaimID: Request] = [:]

    private mutating func finish(_ id: ClaimID) {
        if let request = held[id], request.first.access.isWrite, chance.isLucky(2, of: 3),
            let party = parties[id]
        {
            tell(
                .changed(
                    request.first.item, at: Place(), Cause(party, request.first.access), under: id,
                    stamp: UInt64(chance.below(3))))
        }
        tell(.ended(id))
        held[id] = nil
    }

    private mutating func answer(_ question: Question) {
        open.removeAll { $0.id == question.id }
        tell(.answered(question.id, by: question.presenter, chance.isLucky(1, of: 5) ? .failed : .done))
    }

    private mutating func progress(_ question: Question) {
        waiting = waiting.mapValues { ($0.party, max($0.latest, now + bounds.progress)) }
        tell(.progressed(question.id))
    }

    private mutating func nameFacts() {
        let item = Self.items[chance.below(2)]
        switch chance.below(3) {
        case 0: tell(.moved(item, Move(), by: anybody(), under: nil))
        case 1: tell(.lost(item, at: Place(), by: anybody()))
        default: tell(.changed(item, at: Place(), Cause(anybody(), .write(.updating)), under: nil, stamp: 9))
        }
    }

    private mutating func advance(by span: Span) {
        let end = now + span
        while let moment = wake, moment <= end {
            if moment > now { now = moment }
            wake = nil
            tell(.tick)
        }
        now = end
        for (id, wait) in waiting where wait.latest < now { fail("\(id) waits longer than its bound") }
    }

    private mutating func fail(_ what: String) { if broken.count < 5 { broken.append("\(now): \(what)") } }
}

/// What the arbiter says, and what it may say.
extension PresenterWorld {
    private mutating func tell(_ event: Event) {
        var events = [event]
        while !events.isEmpty {
            let next = events.removeFirst()
            var effects: [Effect] = []
            arbiter.handle(next, at: now, into: &effects)
            if case .answered(_, let presenter, _) = next { demoted.remove(presenter) }
            story += "\(now): \(next)\n"
            for effect in effects {
                story += "    \(describe(effect))\n"
                take(effect, &events)
            }
        }
    }

    private mutating func take(_ effect: Effect, _ events: inout [Event]) {
        switch effect {
        case .grant(let claim, _):
            if waiting.removeValue(forKey: claim) == nil { fail("\(claim) was settled twice") }
            held[claim] = requests[claim]
        case .refuse(let claim, _):
            if waiting.removeValue(forKey: claim) == nil { fail("\(claim) was settled twice") }
        case .identify(let claim): if let party = parties[claim] { events.append(.identified(claim, party)) }
        case .observe(let claim):
            let seen: [Observation] = [
                .clean, .dirty(stamp: 1), .dirty(stamp: 2), .atEnd, .reading(position: 3),
            ]
            events.append(.observed(claim, seen[chance.below(seen.count)]))
        case .suspend: break
        case .wake(let moment): wake = moment
        case .ask(let question): asked(question)
        case .forfeit(let question, let isDemoted):
            totals.forfeited += 1
            if isDemoted { demoted.insert(question.presenter) }
            open.removeAll { $0.id == question.id }
            over.append(question)
            if now < question.asked + bounds.relinquish { fail("\(question.id) was forfeited early") }
        case .tell(let notice): told(notice.presenter, notice.turn, notice.kind, notice.cause)
        case .retarget, .deadlock: break
        }
    }

    private mutating func asked(_ question: Question) {
        totals.asked += 1
        open.append(question)
        guard let presenter = presenters[question.presenter] else { return fail("\(question) to nobody") }
        if !presenter.messages.contains(PresenterMessages(question.request)) {
            fail("\(question.id) asks what is not implemented")
        }
        let party = question.cause.party
        let isOwn =
            party.purpose.map { $0 == presenter.party.purpose } ?? (party.process == presenter.party.process)
        if isOwn { fail("\(question.id) asks about the presenter's own access") }
        if demoted.contains(question.presenter) { fail("\(question.id) asks one that is demoted") }
        if let what = turns.ask(question) { fail(what) }
    }

    private mutating func told(
        _ id: PresenterID, _ turn: TurnID, _ notice: PresenterNotice, _ cause: Cause
    ) {
        totals.told += 1
        guard let presenter = presenters[id] else { return fail("\(notice) is told to nobody") }
        if !presenter.messages.contains(PresenterMessages(notice)) {
            fail("\(id) does not implement \(notice)")
        }
        let isUnmodified = cause.party.purpose == nil
        if notice != .reacquire, isUnmodified, cause.party.process == presenter.party.process {
            fail("\(id) is told of its own \(notice)")
        }
        if let what = turns.tell(id, turn, notice) { fail(what) }
    }
}

/// P3 and N3, turn by turn.
struct TurnChecker {
    struct Owing { let id: TurnID, presenter: PresenterID }

    private var asked: [TurnID: (presenter: PresenterID, requests: [PresenterRequest])] = [:]
    private var told: [TurnID: [PresenterNotice]] = [:]

    /// Turns in which relinquishing was asked and no reacquire has come.
    var owing: [Owing] {
        asked.filter { id, turn in
            turn.requests.contains { $0 == .relinquishToReader || $0 == .relinquishToWriter }
                && !(told[id]?.contains(.reacquire) ?? false)
        }.map { Owing(id: $0, presenter: $1.presenter) }
    }

    mutating func ask(_ question: Question) -> String? {
        if told[question.turn]?.contains(.reacquire) ?? false {
            return "\(question.id) is asked in a turn that is over"
        }
        let before = asked[question.turn]?.requests ?? []
        asked[question.turn] = (question.presenter, before + [question.request])
        if before.contains(question.request) {
            return "\(question.request) is asked twice in \(question.turn)"
        }
        let isRelinquishment =
            question.request == .relinquishToReader || question.request == .relinquishToWriter
        // A deletion that is put to a presenter afterwards may come without.
        let isLate = isRelinquishment && before.contains(.save)
        return isLate ? "relinquishing is not asked first in \(question.turn)" : nil
    }

    mutating func tell(_ presenter: PresenterID, _ turn: TurnID, _ notice: PresenterNotice) -> String? {
        let before = told[turn] ?? []
        told[turn] = before + [notice]
        if before.contains(notice) { return "\(notice) is told twice in \(turn)" }
        return before.contains(.reacquire) ? "\(notice) is told after the reacquire of \(turn)" : nil
    }

    /// One who is gone is owed nothing; presenters without a reacquire neither.
    mutating func forget(_ presenter: PresenterID) { asked = asked.filter { $1.presenter != presenter } }
}

/// Numbers that follow from a seed (xorshift64*).
struct Chance {
    private var state: UInt64

    init(_ seed: UInt64) { state = seed &* 0x9E37_79B9_7F4A_7C15 | 1 }

    mutating func below(_ bound: Int) -> Int {
        state ^= state >> 12
        state ^= state << 25
        state ^= state >> 27
        return Int((state &* 0x2545_F491_4F6C_DD1D) >> 33) % bound
    }

    mutating func isLucky(_ part: Int, of whole: Int) -> Bool { below(whole) < part }

    mutating func one<Element>(of elements: [Element]) -> Element? {
        elements.isEmpty ? nil : elements[below(elements.count)]
    }
}
