// SPDX-License-Identifier: Apache-2.0
import Arbitration
import Coordination

/// Measures the cost of a single event while very many claims wait for one item.
///
/// A writer holds the item. The other claims arrive, are identified and wait. Then the events are measured one after another.
struct WaiterLoad {
    static let sizes = [100, 1_000, 10_000, 100_000]
    /// The maximum number of measured events of each kind.
    private static let sample = 100
    private static let item: UInt64 = 1

    /// How the claims are divided among processes.
    enum Shape: String, CaseIterable {
        case processes = "different processes"
        case threads = "threads of one process"
        case three = "threads of three processes"
        case holding = "threads of three processes, each of which holds a file that another one waits for"
    }

    private let shape: Shape
    private let count: Int
    private var arbiter: Arbiter
    private var effects: [Effect] = []
    private var now = Instant(nanoseconds: 1)
    private var next: UInt64 = 1

    /// Prints the microseconds for each event, and the number of claims that the event examines.
    ///
    /// Returns whether the largest load examines at most four times as many claims as the smallest load.
    @discardableResult
    static func measure(sizes: [Int] = sizes) -> Bool {
        var isFlat = true
        for shape in Shape.allCases {
            print("Waiters on one item, \(shape.rawValue): microseconds for an event, and claims looked at")
            let rows = LoadTable(sizes.map { WaiterLoad(shape, $0).figures() })
            if !rows.show() { isFlat = false }
        }
        for shape in HolderLoad.Shape.allCases {
            print("\(shape.rawValue): microseconds for an event, and claims looked at")
            let rows = LoadTable(sizes.map { HolderLoad(shape, $0).figures() })
            if !rows.show() { isFlat = false }
        }
        return isFlat
    }

    private init(_ shape: Shape, _ count: Int) {
        self.shape = shape
        self.count = count
        var bounds = Bounds()
        (bounds.wait, bounds.hold, bounds.firstObservationDelay) = (
            .seconds(15), .seconds(600), .seconds(600)
        )
        (bounds.idle, bounds.readerIdle) = (.seconds(600), .seconds(600))
        arbiter = Arbiter(bounds: bounds)
    }

    private func figures() -> [(name: String, figure: LoadFigure)] {
        var load = self
        load.gather()
        var figures = [("to arrive and be identified", load.arrivals())]
        figures.append(("to be cancelled", load.cancellations()))
        figures.append(("another item's claim and end", load.others()))
        var other = load
        figures.append(("to be granted in turn, and end", load.turns()))
        figures.append(("to run out of time", other.timeouts()))
        figures.append(("to end, last come first", other.ends()))
        return figures
    }

    private mutating func gather() {
        claim(Self.item, .write(.updating), by: party(0))
        for _ in 0..<count { arrive() }
    }

    private mutating func arrivals() -> LoadFigure {
        time(Self.sample) { load in for _ in 0..<Self.sample { load.arrive() } }
    }

    /// Measures the withdrawal of claims at many places in the queue, from the front to the end of the queue.
    private mutating func cancellations() -> LoadFigure {
        let waiting = arbiter.claims(on: ItemID(Self.item)).dropFirst()
        let chosen = (0..<Self.sample).map { waiting[waiting.startIndex + ($0 * 7919) % waiting.count] }
        return time(Self.sample) { load in
            for claim in chosen { load.tell(.withdrawn(claim)) }
        }
    }

    private mutating func others() -> LoadFigure {
        time(Self.sample) { load in
            for _ in 0..<Self.sample {
                let id = load.claim(1 << 40, .write(.updating), by: nil)
                load.tell(.ended(id))
            }
        }
    }

    private mutating func turns() -> LoadFigure {
        let waiting = arbiter.claims(on: ItemID(Self.item)).count - 1
        var ended = 0
        let span = time(waiting) { load in
            load.tell(.ended(load.holder))
            while let effect = load.effects.popLast() {
                guard case .grant(let claim, _) = effect else { continue }
                ended += 1
                load.arbiter.handle(.ended(claim), at: load.now, into: &load.effects)
            }
        }
        precondition(ended == waiting, "each has had a turn")
        return span
    }

    private mutating func timeouts() -> LoadFigure {
        let waiting = arbiter.claims(on: ItemID(Self.item)).count - 1
        now = now + .seconds(20)
        var granted = 0
        let span = time(waiting) { load in
            var isMore = true
            while isMore {
                load.tell(.tick)
                isMore = false
                for effect in load.effects {
                    if case .grant = effect { granted += 1 }
                    if case .wake(let moment) = effect, moment <= load.now { isMore = true }
                }
            }
        }
        // More claims are granted than waited for the item, because the time limit also ends the waits for other files.
        precondition(granted >= waiting, "each has gone ahead")
        return span
    }

    private mutating func ends() -> LoadFigure {
        let held = arbiter.claims(on: ItemID(Self.item))
        return time(held.count) { load in
            for claim in held.reversed() { load.tell(.ended(claim)) }
        }
    }

    private mutating func time(_ events: Int, _ body: (inout WaiterLoad) -> Void) -> LoadFigure {
        LoadFigure(of: &self, events, examinedClaims: { $0.arbiter.examinedClaims }, body)
    }

    private var holder: ClaimID { ClaimID(1) }

    /// Makes a further claim that waits. If the shape is `holding`, the claim's thread also holds a file. A thread of the next
    /// process waits for this file.
    private mutating func arrive() {
        let number = next
        let party = party(number)
        if shape == .holding {
            let file = (1 << 20) + number
            claim(file, .write(.updating), by: party)
            claim(file, .write(.updating), by: self.party(number + 1, thread: Int32(number) + 1 << 24))
        }
        claim(Self.item, .write(.updating), by: party)
    }

    private func party(_ number: UInt64, thread: Int32? = nil) -> Party {
        let process: Int32 =
            switch shape {
            case _ where number == 0: 1
            case .processes: Int32(number) + 10
            case .threads: 10
            case .three, .holding: Int32(number % 3) + 10
            }
        var party = Party(process: ProcessID(number: process, started: 1), ancestors: [])
        party.thread = thread ?? Int32(number) + 1
        return party
    }

    @discardableResult
    private mutating func claim(_ item: UInt64, _ access: Access, by party: Party?) -> ClaimID {
        let id = ClaimID(next)
        next += 1
        tell(.claimed(ClaimRequest(id, .handle, ClaimRequest.Part(ItemID(item), access))))
        guard let party else { return id }
        tell(.identified(id, party))
        return id
    }

    private mutating func tell(_ event: ArbiterEvent) {
        effects.removeAll(keepingCapacity: true)
        arbiter.handle(event, at: now, into: &effects)
    }
}
