// SPDX-License-Identifier: Apache-2.0
import Arbitration
import Coordination

/// The world a scenario file speaks to: a clock, and answers to what the arbiter asks.
///
///     bounds hold=2s policy=fail            before the first claim
///     claim 1 handle read @1 by 100         `by` answers `identify #1` at once; without it nobody answers
///     claim 2 nameChange forMoving @1 forReplacing @2 by 100 below 50 20
///     identified 1 100 below 50 background
///     shows 1 dirty 7                       what is seen whenever #1 is looked at from now on
///     observed 1 reading 512
///     end 1, withdraw 1, force 1
///     vacated @1 @9, replaced @1 @2 @9, replaced @1 @2
///     advance 250ms                         ticks at every moment the arbiter asked for
///     late 250ms                            one tick, when it is over
///     pass 250ms                            no tick at all
///     beside 3                              asks for the suspended writer
///     present p1 @1 by 50 implementing all, remove p1
///     answer ?1 p1, answer ?1 p1 failed, progress ?1
///     changed @1 stamp 7 under 3, changed @1 stamp 7 by 100, moved @1 by 100, lost @1 by 100
struct World {
    private var bounds = Bounds()
    private lazy var arbiter = Arbiter(bounds: bounds)
    private var now = Instant(nanoseconds: 0)
    private var wake: Instant?
    private var parties: [ClaimID: Party] = [:]
    private var shown: [ClaimID: Observation] = [:]

    mutating func run(_ command: String) -> String {
        var words = Words(command)
        guard let lines = try? perform(&words) else { return "cannot read this command" }
        return lines.isEmpty ? "nothing" : lines.joined(separator: "\n")
    }

    private mutating func perform(_ words: inout Words) throws(Unreadable) -> [String] {
        switch try words.next() {
        case "bounds": return try setBounds(&words)
        case "claim": return try claim(&words)
        case "identified": return tell(.identified(try words.claim(), try words.party()))
        case "shows":
            shown[try words.claim()] = try words.observation()
            return []
        case "observed": return tell(.observed(try words.claim(), try words.observation()))
        case "end": return tell(.ended(try words.claim()))
        case "withdraw": return tell(.withdrawn(try words.claim()))
        case "force": return tell(.forced(try words.claim()))
        case "vacated": return tell(.vacated(document: try words.item(), orphan: try words.item()))
        case "replaced":
            return tell(
                .replaced(
                    document: try words.item(), incoming: try words.item(),
                    orphan: words.isAtEnd ? nil : try words.item()))
        case "present":
            let (id, item) = (try words.presenter(), try words.item())
            guard try words.next() == "by" else { throw Unreadable() }
            let party = try words.party()
            guard try words.next() == "implementing" else { throw Unreadable() }
            return tell(.presented(Presenter(id, of: item, by: party, try words.messages())))
        case "remove": return tell(.removed(try words.presenter()))
        case "answer":
            let (question, presenter) = (try words.question(), try words.presenter())
            return tell(.answered(question, by: presenter, words.isAtEnd ? .done : .failed))
        case "progress": return tell(.progressed(try words.question()))
        case "changed": return try change(&words)
        case "moved":
            let item = try words.item()
            guard try words.next() == "by" else { throw Unreadable() }
            return tell(.moved(item, by: try words.party()))
        case "lost":
            let item = try words.item()
            guard try words.next() == "by" else { throw Unreadable() }
            return tell(.lost(item, by: try words.party()))
        case "advance": return advance(by: try words.span())
        case "late":
            now = now + (try words.span())
            return tell(.tick)
        case "pass":
            now = now + (try words.span())
            return []
        case "beside":
            return [arbiter.suspendedWriter(beside: try words.claim())?.description ?? "nobody"]
        default: throw Unreadable()
        }
    }

    /// Reads `changed @1 stamp 7 under 3` or `changed @1 stamp 7 by 100`.
    private mutating func change(_ words: inout Words) throws(Unreadable) -> [String] {
        let item = try words.item()
        guard try words.next() == "stamp" else { throw Unreadable() }
        let stamp = try words.number()
        let isClaimed = try words.next() == "under"
        let claim = isClaimed ? try words.claim() : nil
        let party = isClaimed ? Party.nobody : try words.party()
        return tell(.changed(item, Cause(party, .write(.updating)), under: claim, stamp: stamp))
    }

    private mutating func setBounds(_ words: inout Words) throws(Unreadable) -> [String] {
        while !words.isAtEnd { try words.bound(&bounds) }
        arbiter = Arbiter(bounds: bounds)
        return []
    }

    private mutating func claim(_ words: inout Words) throws(Unreadable) -> [String] {
        let claim = try words.claim()
        guard let nature = Request.Nature(rawValue: try words.next()) else { throw Unreadable() }
        let first = try words.part()
        let second = words.isAtEnd || words.peek == "by" ? nil : try words.part()
        if !words.isAtEnd {
            guard try words.next() == "by" else { throw Unreadable() }
            parties[claim] = try words.party()
        }
        var lines = tell(.claimed(Request(claim, nature, first, second)))
        if nature == .episode, let party = parties[claim] { lines += tell(.identified(claim, party)) }
        return lines
    }

    /// Tells the arbiter, answers what it asks, and returns the whole conversation.
    private mutating func tell(_ event: Event, isQuiet: Bool = false) -> [String] {
        var effects: [Effect] = []
        arbiter.handle(event, at: now, into: &effects)
        var lines: [String] = []
        var answers: [Event] = []
        for effect in effects {
            if case .wake(let moment) = effect { wake = moment }
            if !isQuiet || !isRoutine(effect) { lines.append(describe(effect)) }
            if case .identify(let claim) = effect, let party = parties[claim] {
                answers.append(.identified(claim, party))
            }
            if case .observe(let claim) = effect, let observation = shown[claim] {
                answers.append(.observed(claim, observation))
            }
        }
        for answer in answers { lines += tell(answer, isQuiet: isQuiet) }
        return lines
    }

    /// What would drown the rest while time advances: wakes, and looks whose answer is arranged.
    private func isRoutine(_ effect: Effect) -> Bool {
        switch effect {
        case .wake: true
        case .observe(let claim): shown[claim] != nil
        default: false
        }
    }

    private mutating func advance(by span: Span) -> [String] {
        let end = now + span
        var lines: [String] = []
        while let moment = wake, moment <= end {
            if moment > now { now = moment }
            wake = nil
            lines += tell(.tick, isQuiet: true).map { "\(now): \($0)" }
        }
        now = end
        return lines
    }
}
