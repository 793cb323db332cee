// SPDX-License-Identifier: Apache-2.0
import Coordination
import NaiveArbitration

/// The events that are possible in a small simulation.
struct Menu: Sendable {
    /// A kind of claim that a step can make.
    struct ClaimTemplate: Sendable {
        let nature: ClaimRequest.Nature
        let parts: [ClaimRequest.Part]
        /// The party that makes the claim. If this is nil, the menu's parties take turns, or the claim has no party until a
        /// step identifies it.
        var party: Party?
        var accessPattern: ClaimRequest.AccessPattern = []
        /// Whether the claim is made within all claims that its party holds at this time.
        var isNested = false
        /// Whether the claim is made to answer the question that was asked last.
        var isAnswer = false

        init(
            _ nature: ClaimRequest.Nature, _ parts: ClaimRequest.Part..., by party: Party? = nil,
            isNested: Bool = false,
            isAnswer: Bool = false, accessPattern: ClaimRequest.AccessPattern = []
        ) {
            self.accessPattern = accessPattern
            self.nature = nature
            self.parts = parts
            self.party = party
            self.isNested = isNested
            self.isAnswer = isAnswer
        }
    }

    /// The arbiter's work limits. If more claims or programs exist than a limit, the arbiter does less for each event.
    var limits = WorkLimits()
    /// The numbers of the rules that the menu checks, and a short description of the menu's events.
    let name: String
    var setup: [ArbiterEvent] = []
    var claims: [ClaimTemplate] = []
    /// The maximum number of claims in a run.
    var most: UInt64 = 99
    var parties: [Party] = []
    /// Whether each claim is identified as soon as the arbiter asks for its party. For claims without a party, the menu's
    /// parties take turns.
    var isIdentifiedAtOnce = false
    var observations: [Observation] = []
    var answers: [Answer] = []
    /// Whether an answer can come too late: after the question was answered, withdrawn or forfeited.
    var hasLateAnswers = false
    var hasProgress = false
    /// Whether the engine can shorten the time that presenters have for their answers.
    var hasHurry = false
    var canForce = false
    var canEndWait = false
    /// Whether a step can report that the program of a handle has locked the file.
    var canLock = false
    /// Whether a step can report that a program has closed a handle, before the claim ends.
    var canClose = false
    /// The stamps of content changes that are made under held write claims.
    var stamps: [UInt64] = []
    /// The stamps of writes by claims that continue after the write (rule N12).
    var goingOn: [UInt64] = []
    var removals: [PresenterID] = []
    var spans: [TimeSpan] = []
    /// The events that can happen at any time. Each of these events happens at most once in a run.
    var facts: [ArbiterEvent] = []
    var bounds = Menu.shortBounds
    /// Whether claims and events of a moved item contain its current place. If not, they contain its first place.
    var followsMoves = false
    let depth: Int

    static var shortBounds: Bounds {
        var bounds = Bounds()
        (bounds.wait, bounds.hold, bounds.holdAware) = (
            .milliseconds(90), .milliseconds(60), .milliseconds(70)
        )
        (bounds.idle, bounds.readerIdle, bounds.firstObservationDelay) = (
            .milliseconds(40), .milliseconds(20), .milliseconds(10)
        )
        bounds.unchangedGrace = .milliseconds(25)
        (bounds.relinquish, bounds.save) = (.milliseconds(30), .milliseconds(50))
        (bounds.deletion, bounds.progress) = (.milliseconds(35), .milliseconds(80))
        (bounds.askAgain, bounds.trailing, bounds.excused) = (
            .milliseconds(45), .milliseconds(15), .milliseconds(65)
        )
        bounds.steps = .milliseconds(25)
        return bounds
    }
}

/// A step of a run: a claim, an event of the menu, an event that follows from the state, or a span of time.
enum WorldStep: Sendable {
    case claim(Menu.ClaimTemplate)
    case fact(Int)
    case event(ArbiterEvent)
    case pass(TimeSpan)
}

/// A run of a simulation up to some step, with the state of both arbiters.
struct ComparisonRun {
    var comparison: Comparison
    /// The menu's events that have not happened yet in this run.
    var left: [Int]
    /// The current places of the items that were moved.
    private var places: [ItemID: Place] = [:]

    init(_ menu: Menu) {
        comparison = Comparison(bounds: menu.bounds, limits: menu.limits)
        left = Array(menu.facts.indices)
    }

    /// Plays a step of the run. Returns the text of the arbiters' disagreement, or nil.
    mutating func take(_ step: WorldStep, of menu: Menu) -> String? {
        switch step {
        case .claim(let form): return claim(form, menu)
        case .fact(let index):
            left.removeAll { $0 == index }
            return comparison.tell(menu.followsMoves ? whereItIs(menu.facts[index]) : menu.facts[index])
        case .event(let event): return comparison.tell(event)
        case .pass(let span):
            comparison.pass(span)
            return comparison.tell(.tick)
        }
    }

    private mutating func claim(_ form: Menu.ClaimTemplate, _ menu: Menu) -> String? {
        let id = ClaimID(comparison.made)
        let parts = form.parts.map { part in
            ClaimRequest.Part(part.item, part.access, at: places[part.item] ?? part.place, via: part.via)
        }
        var request = ClaimRequest(
            id, form.nature, parts[0], Array(parts.dropFirst()), accessPattern: form.accessPattern)
        let turn = menu.parties.isEmpty ? nil : menu.parties[Int(id.rawValue) % menu.parties.count]
        let party = form.party ?? (menu.isIdentifiedAtOnce ? turn : nil)
        if form.isNested {
            let own = comparison.naive.claims.filter { claim in
                claim.isHeld && claim.request.nature != .nameChange && comparison.makers[claim.id] == party
            }
            request.within = own.map(\.id)
        }
        if form.isAnswer { request.answering = comparison.naive.questions.last?.id }
        return comparison.claim(request, by: party)
    }

    /// Returns the event with the current places of moved items in place of their first places.
    private mutating func whereItIs(_ fact: ArbiterEvent) -> ArbiterEvent {
        let now = { [places] (item: ItemID, place: Place) in places[item] ?? place }
        switch fact {
        case .created(let item, let place, let party, let claim):
            return .created(item, at: now(item, place), by: party, under: claim)
        case .deleted(let item, let place, let party, let claim):
            return .deleted(item, at: now(item, place), by: party, under: claim)
        case .lost(let item, let place, let party): return .lost(item, at: now(item, place), by: party)
        case .changed(let item, let place, let cause, let claim, let stamp):
            return .changed(item, at: now(item, place), cause, under: claim, stamp: stamp)
        case .written(let item, let place, let cause, let claim, let stamp):
            return .written(item, at: now(item, place), cause, under: claim, stamp: stamp)
        case .versioned(let item, let place, let change, let cause):
            return .versioned(item, at: now(item, place), change, cause)
        case .moved(let item, let move, let party, let claim):
            let from = now(item, move.from)
            places[item] = move.to
            var move = move
            move.from = from
            return .moved(item, move, by: party, under: claim)
        default: return fact
        }
    }

    /// All steps of the menu that are possible next.
    func steps(of menu: Menu) -> [WorldStep] {
        var steps: [WorldStep] = comparison.made < menu.most ? menu.claims.map { .claim($0) } : []
        for claim in comparison.naive.claims { steps += self.steps(of: claim, menu).map { .event($0) } }
        for question in comparison.naive.questions {
            steps += menu.answers.map { .event(.answered(question.id, by: question.presenter, $0)) }
            if menu.hasProgress { steps.append(.event(.progressed(question.id))) }
            if menu.hasHurry { steps.append(.event(.hurried(question.id, .milliseconds(20)))) }
        }
        if menu.hasLateAnswers, let past = comparison.past {
            steps.append(.event(.answered(past.id, by: past.presenter, .done)))
        }
        for presenter in menu.removals
        where comparison.naive.presenters.contains(where: { $0.id == presenter }) {
            steps.append(.event(.removed(presenter)))
        }
        steps += menu.spans.map { .pass($0) }
        steps += left.map { .fact($0) }
        return steps
    }

    private func steps(of claim: NaiveClaim, _ menu: Menu) -> [ArbiterEvent] {
        var events: [ArbiterEvent] = [.ended(claim.id)]
        if menu.canForce, !claim.isHeld { events.append(.forced(claim.id)) }
        if menu.canEndWait, !claim.isHeld { events.append(.overdue(claim.id)) }
        if menu.canClose, claim.isHeld { events.append(.closed(claim.id)) }
        if menu.canLock, claim.request.nature == .handle { events.append(.locked(claim.id)) }
        if claim.party == nil, comparison.makers[claim.id] == nil {
            events += menu.parties.map { .identified(claim.id, $0) }
        }
        if claim.contendedSince != nil, claim.request.nature == .handle {
            events += menu.observations.map { .observed(claim.id, $0) }
        }
        if claim.isHeld, let part = claim.parts.first(where: { $0.access.isWrite }) {
            let party = claim.party ?? comparison.makers[claim.id] ?? .nobody
            events += menu.stamps.map {
                .changed(part.item, at: part.place, Cause(party, part.access), under: claim.id, stamp: $0)
            }
            events += menu.goingOn.map {
                .written(part.item, at: part.place, Cause(party, part.access), under: claim.id, stamp: $0)
            }
        }
        return events
    }
}

/// Plays all runs of a small simulation, and stores the disagreements of the two arbiters.
struct Exploration {
    let menu: Menu
    private(set) var runs = 0
    private(set) var steps = 0
    /// For each kind of disagreement, the shortest text.
    private(set) var disagreements: [String: String] = [:]
    private var failed = 0

    init(_ menu: Menu) { self.menu = menu }

    mutating func explore(depth: Int) {
        var run = ComparisonRun(menu)
        for event in menu.setup {
            if let disagreement = run.comparison.tell(event) { note(disagreement) }
        }
        explore(run, depth: depth)
    }

    /// Plays all runs that begin with this run. Both arbiters are values and can be copied, so a common beginning is played
    /// only once.
    private mutating func explore(_ run: ComparisonRun, depth: Int) {
        guard depth > 0, failed < 200 else {
            runs += 1
            return
        }
        for step in run.steps(of: menu) {
            var next = run
            steps += 1
            if let disagreement = next.take(step, of: menu) {
                note(disagreement)
            } else {
                explore(next, depth: depth - 1)
            }
        }
    }

    /// Records a disagreement. Two disagreements are of one kind if their last lines differ only in numbers. Of each kind, the
    /// shortest is recorded.
    private mutating func note(_ disagreement: String) {
        failed += 1
        let end = disagreement.split(separator: "\n").suffix(2).joined()
        let kind = end.filter { !$0.isNumber }
        if disagreements[kind].map({ $0.count > disagreement.count }) ?? true {
            disagreements[kind] = disagreement
        }
    }
}
