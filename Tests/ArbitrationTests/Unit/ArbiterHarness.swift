// SPDX-License-Identifier: Apache-2.0
import Arbitration
import ArbitrationSimulation
import Coordination

/// An arbiter, and its effects of the last event. Tests use it to check queries, which scenario files cannot express.
struct ArbiterHarness {
    private(set) var arbiter: Arbiter
    private(set) var effects: [Effect] = []
    private(set) var wakes = WakeSchedule()
    var now = Instant(nanoseconds: 0)

    init(_ bounds: Bounds = Bounds(), _ limits: WorkLimits = WorkLimits()) {
        arbiter = Arbiter(bounds: bounds, limits: limits)
    }

    mutating func tell(_ event: ArbiterEvent) {
        effects = []
        if case .tick = event { wakes.pass(now) }
        arbiter.handle(event, at: now, into: &effects)
        for case .wake(let moment) in effects { wakes.ask(for: moment) }
    }

    /// Makes a claim. If the caller gives a party, also identifies the claim's party.
    mutating func claim(
        _ number: UInt64, _ access: Access, _ item: UInt64, in directory: UInt64? = nil,
        by party: Party? = nil, as nature: ClaimRequest.Nature = .handle
    ) {
        let place = Place(in: directory.map { ItemID($0) })
        tell(
            .claimed(
                ClaimRequest(ClaimID(number), nature, ClaimRequest.Part(ItemID(item), access, at: place))))
        if let party { tell(.identified(ClaimID(number), party)) }
    }

    mutating func present(
        _ number: UInt64, _ item: UInt64?, in directory: UInt64? = nil, by party: Party,
        _ messages: PresenterMessages = .all
    ) {
        let place = Place(in: directory.map { ItemID($0) })
        tell(
            .presented(
                Presenter(PresenterID(number), of: item.map { ItemID($0) }, at: place, by: party, messages)))
    }

    mutating func tick(at moment: Instant) {
        now = moment
        tell(.tick)
    }

    /// The time at which the arbiter has requested to be woken; nil if it has requested no wake.
    var wake: Instant? {
        effects.lazy.compactMap { if case .wake(let moment) = $0 { moment } else { nil } }.first
    }
    var asked: [QuestionID] {
        effects.compactMap { if case .ask(let question) = $0 { question.id } else { nil } }
    }
    var granted: [ClaimID] { effects.compactMap { if case .grant(let claim, _) = $0 { claim } else { nil } } }
}

extension Party {
    static func process(
        _ number: Int32, below ancestors: Int32..., purpose: String? = nil, session: Int32 = 0
    ) -> Party {
        var party = Party(
            process: ProcessID(number: number, started: 1),
            ancestors: ancestors.map { ProcessID(number: $0, started: 1) })
        party.purpose = purpose.map { Purpose($0) }
        party.session = session
        return party
    }
}
