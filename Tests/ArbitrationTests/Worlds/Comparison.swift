// SPDX-License-Identifier: Apache-2.0
import Arbitration
import ArbitrationSimulation
import Coordination
import NaiveArbitration

/// The arbiter and the naive arbiter, which receive the same events. After each event their effects are compared.
///
/// Each arbiter numbers access sessions and questions in its own order. So the numbers may differ, as long as each number of
/// one arbiter always stands for the same number of the other. All other parts of the effects must be equal, in any order.
struct Comparison {
    private(set) var arbiter: Arbiter
    private(set) var naive: NaiveArbiter
    private(set) var now = Instant(nanoseconds: 0)
    private(set) var history: [(Instant, ArbiterEvent)] = []
    /// The number of claims that have been made.
    private(set) var made: UInt64 = 0
    /// The party with which each claim will be identified.
    private(set) var makers: [ClaimID: Party] = [:]
    /// The last question that is not open any more: it was answered, withdrawn or forfeited.
    private(set) var past: Question?
    private var wakes = WakeSchedule()
    private var names = Names()

    init(bounds: Bounds, limits: WorkLimits = WorkLimits()) {
        arbiter = Arbiter(bounds: bounds, limits: limits)
        naive = NaiveArbiter(bounds: bounds, limits: limits)
    }

    mutating func pass(_ span: TimeSpan) { now = now + span }

    /// Leaves out the next claim number. So when a claim is left out of a replayed run, the later claims keep their numbers.
    mutating func skipClaim() { made += 1 }

    /// Sends a claim to both arbiters. When an arbiter asks for the claim's party, the party is immediately identified.
    mutating func claim(_ request: ClaimRequest, by party: Party?) -> String? {
        makers[request.claim] = party
        made += 1
        return tell(.claimed(request))
    }

    /// Sends an event to both arbiters, and returns the text of their disagreement, or nil.
    mutating func tell(_ event: ArbiterEvent) -> String? {
        history.append((now, event))
        if case .tick = event { wakes.pass(now) }
        let open = naive.questions
        var said: [Effect] = []
        arbiter.handle(names.arbiters(event), at: now, into: &said)
        for effect in said { if case .wake(let moment) = effect { wakes.ask(for: moment) } }
        said.removeAll { if case .wake = $0 { true } else { false } }
        let expected = naive.handle(event, at: now)
        past = open.first { question in !naive.questions.contains { $0.id == question.id } } ?? past
        guard names.agree(said, expected) else {
            return "\(transcript)\n  said     \(said.map(detailed))\n  expected \(expected.map(detailed))"
        }
        // Rule T3: the naive arbiter has computed when it must act next. The arbiter must have requested a wake for this time
        // or for an earlier time.
        if let moment = naive.nextMoment, wakes.next.map({ $0 > moment }) ?? true {
            return
                "\(transcript)\n  needed at \(moment), wake asked for: \(wakes.next?.description ?? "none")"
        }
        for case .identify(let claim) in expected {
            guard let party = makers[claim] else { continue }
            if let disagreement = tell(.identified(claim, party)) { return disagreement }
        }
        return nil
    }

    private var transcript: String { history.map { "  \($0): \(brief($1))" }.joined(separator: "\n") }
}

/// The numbers that the arbiter gives to access sessions and questions, mapped to the numbers of the naive arbiter.
private struct Names {
    private var accessSessions: [AccessSessionID: AccessSessionID] = [:]
    private var questions: [QuestionID: QuestionID] = [:]
    private var known: Set<AccessSessionID> = []

    /// Returns the event as the arbiter must get it: with the arbiter's access session and question numbers in place of the
    /// naive arbiter's.
    func arbiters(_ event: ArbiterEvent) -> ArbiterEvent {
        switch event {
        case .answered(let id, let presenter, let answer):
            return .answered(questions[id] ?? id, by: presenter, answer)
        case .progressed(let id): return .progressed(questions[id] ?? id)
        case .hurried(let id, let span): return .hurried(questions[id] ?? id, span)
        case .claimed(var request):
            guard let id = request.answering else { return event }
            request.answering = questions[id] ?? id
            return .claimed(request)
        default: return event
        }
    }

    mutating func agree(_ said: [Effect], _ expected: [Effect]) -> Bool {
        guard said.count == expected.count else { return false }
        var left = expected
        for effect in said {
            guard let index = left.firstIndex(where: { isSame(effect, $0) }) else { return false }
            learn(effect, left[index])
            left.remove(at: index)
        }
        return true
    }

    private func isSame(_ said: Effect, _ expected: Effect) -> Bool {
        switch (said, expected) {
        case (.ask(let one), .ask(let other)):
            return areSame(one.accessSession, other.accessSession) && questions[other.id] == nil
                && isAlike(one, other)
        case (.forfeit(let one, let wasDemoted), .forfeit(let other, let isDemoted)):
            return questions[other.id] == one.id && wasDemoted == isDemoted && isAlike(one, other)
        case (.tell(let one), .tell(let other)):
            return areSame(one.accessSession, other.accessSession) && one.presenter == other.presenter
                && one.kind == other.kind
                && one.subitem == other.subitem && one.cause == other.cause
        default: return said == expected
        }
    }

    private func isAlike(_ one: Question, _ other: Question) -> Bool {
        one.presenter == other.presenter && one.request == other.request && one.subitem == other.subitem
            && one.cause == other.cause && one.asked == other.asked && one.deadline == other.deadline
    }

    private func areSame(_ said: AccessSessionID, _ expected: AccessSessionID) -> Bool {
        accessSessions[said] == expected || (accessSessions[said] == nil && !known.contains(expected))
    }

    private mutating func learn(_ said: Effect, _ expected: Effect) {
        switch (said, expected) {
        case (.ask(let one), .ask(let other)):
            questions[other.id] = one.id
            accessSessions[one.accessSession] = other.accessSession
            known.insert(other.accessSession)
        case (.tell(let one), .tell(let other)):
            accessSessions[one.accessSession] = other.accessSession
            known.insert(other.accessSession)
        default: break
        }
    }
}

/// The text of an effect with all parts that must be equal in both arbiters.
private func detailed(_ effect: Effect) -> String {
    switch effect {
    case .ask(let question): "\(describe(effect)), \(question.cause.access)"
    case .tell(let notice): "\(describe(effect)), \(notice.cause.access)"
    default: describe(effect)
    }
}

/// The text of an event for a failure message.
private func brief(_ event: ArbiterEvent) -> String {
    switch event {
    case .claimed(let request):
        let parts = request.parts.map { "\($0.access) \($0.item)\(describe($0.place))" }
        let inside = request.within.isEmpty ? "" : " within \(request.within)"
        let answering = request.answering.map { " answering \($0)" } ?? ""
        let accessPattern = request.accessPattern.isEmpty ? "" : " conduct \(request.accessPattern.rawValue)"
        return "claim \(request.claim) \(request.nature) \(parts)\(accessPattern)\(inside)\(answering)"
    case .identified(let claim, let party): return "identified \(claim) \(brief(party))"
    case .presented(let presenter):
        let item = presenter.item.map(\.description) ?? "nothing"
        return
            "presented \(presenter.id) of \(item)\(describe(presenter.place)) by \(brief(presenter.party)) "
            + "messages \(presenter.messages.rawValue)"
    case .changed(let item, let place, let cause, let claim, let stamp):
        return "changed \(item)\(describe(place)) by \(brief(cause.party)) \(cause.access) "
            + "under \(claim.map(\.description) ?? "none") stamp \(stamp)"
    case .written(let item, let place, let cause, let claim, let stamp):
        return "written \(item)\(describe(place)) by \(brief(cause.party)) \(cause.access) "
            + "under \(claim.map(\.description) ?? "none") stamp \(stamp)"
    case .moved(let item, let move, let party, let claim):
        return "moved \(item)\(describe(move.from)) to\(describe(move.to)) "
            + "leaving \(move.placeholder?.description ?? "nothing") by \(brief(party)) \(claim?.description ?? "")"
    case .created(let item, let place, let party, let claim):
        return "created \(item)\(describe(place)) by \(brief(party)) \(claim?.description ?? "")"
    case .deleted(let item, let place, let party, let claim):
        return "deleted \(item)\(describe(place)) by \(brief(party)) \(claim?.description ?? "")"
    case .lost(let item, let place, let party): return "lost \(item)\(describe(place)) by \(brief(party))"
    case .versioned(let item, let place, let change, let cause):
        let version = change.version?.description ?? "some"
        return "\(change.kind) \(version) of \(item)\(describe(place)) by \(brief(cause.party))"
    case .placed(let item, let directory):
        let parent = directory.parent.map(\.description) ?? "nothing"
        return "placed \(item) in \(parent)\(directory.isPackage ? " package" : "")"
    default: return "\(event)"
    }
}

private func describe(_ place: Place) -> String {
    (place.directory.map { " in \($0)" } ?? "") + (place.link.map { " as \($0)" } ?? "")
}

private func brief(_ party: Party) -> String {
    let ancestors = party.ancestors.isEmpty ? "" : " below \(party.ancestors)"
    return "\(party.process?.description ?? "nobody")\(ancestors)"
        + (party.programClass == .ordinary ? "" : " \(party.programClass)")
        + (party.purpose.map { " purpose \($0.rawValue)" } ?? "")
        + (party.thread == 0 ? "" : " thread \(party.thread)")
}
