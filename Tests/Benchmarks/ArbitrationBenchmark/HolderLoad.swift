// SPDX-License-Identifier: Apache-2.0
import Arbitration
import Coordination

/// Measures the cost of a single event while very many claims hold one item.
struct HolderLoad {
    /// How the claims are divided among processes.
    enum Shape: String, CaseIterable {
        case one = "Readers of one process hold one item"
        case processes = "Readers of different processes hold one item"
        case family = "One process holds one item, and programs that it has started wait for others"
    }

    private static let sample = 100
    private static let item: UInt64 = 1
    private static let mostChildren = 1_000

    private let shape: Shape
    private let count: Int
    private var arbiter: Arbiter
    private var effects: [Effect] = []
    private var now = Instant(nanoseconds: 1)
    private var next: UInt64 = 1
    private var readers: [ClaimID] = []

    init(_ shape: Shape, _ count: Int) {
        self.shape = shape
        self.count = count
        var bounds = Bounds()
        (bounds.wait, bounds.hold, bounds.firstObservationDelay) = (
            .seconds(600), .seconds(600), .seconds(600)
        )
        (bounds.idle, bounds.readerIdle) = (.seconds(600), .seconds(600))
        arbiter = Arbiter(bounds: bounds)
    }

    func figures() -> [(name: String, figure: LoadFigure)] {
        var load = self
        load.gather()
        var figures = [
            ("another reader comes and ends", load.time { $0.claim(Self.item, .read()) }.figure)
        ]
        var (coming, going): ([LoadFigure], [LoadFigure]) = ([], [])
        for _ in 0..<5 {
            let (figure, writer) = load.time(1) { $0.claim(Self.item, .write(.updating), by: Self.party(5)) }
            coming.append(figure)
            let end = load.time(1) { load in
                load.tell(.withdrawn(writer[0]))
                return writer[0]
            }
            going.append(end.figure)
        }
        // The printed figure is the time for the third of five writers. The first writer is not typical, because the arbiter
        // then also observes all holders in contention.
        figures.append(("a writer comes", coming[2]))
        figures.append(("it is cancelled", going[2]))
        let later = load.time { $0.claim(Self.item, .write(.updating), by: Self.party(5)) }
        figures.append(("a writer comes after others", later.figure))
        figures.append(("another item's claim and end", load.others()))
        figures.append(("a search for cycles, a child's part", load.search()))
        figures.append(("a holder is suspended", load.suspensions()))
        figures.append(("a holder ends", load.ends()))
        return figures
    }

    private mutating func gather() {
        for number in 0..<count {
            let id = claim(Self.item, .read())
            readers.append(id)
            tell(.identified(id, Self.party(shape == .processes ? Int32(number) + 1_000 : 10)))
        }
        guard shape == .family else { return }
        // Another program also holds the item, and the files for which the children wait.
        tell(.identified(claim(Self.item, .read()), Self.party(11)))
        for number in 0..<min(count, Self.mostChildren) {
            let file = (1 << 20) + UInt64(number)
            tell(.identified(claim(file, .write(.updating)), Self.party(11)))
            let child = Party(
                process: ProcessID(number: Int32(number) + 1_000, started: 1),
                ancestors: [ProcessID(number: 10, started: 1)])
            claim(number % 100 == 50 ? Self.item : file, .write(.updating), by: child)
        }
    }

    private mutating func others() -> LoadFigure {
        time { load in
            let id = load.claim(1 << 40, .write(.updating))
            load.tell(.ended(id))
            return id
        }.figure
    }

    /// Measures the suspension of holders in contention. The smallest load has a hundred claims, and all its holders are in
    /// contention.
    private mutating func suspensions() -> LoadFigure {
        var left = readers[...]
        return time(Self.sample / 2) { load in
            let id = left.removeFirst()
            load.tell(.observed(id, .atEnd))
            return id
        }.figure
    }

    private mutating func ends() -> LoadFigure {
        let chosen = (0..<Self.sample).map { readers[($0 * 7919) % readers.count] }
        var left = Set(chosen)
        return time { load in
            guard let id = left.popFirst() else { return ClaimID(0) }
            load.tell(.ended(id))
            return id
        }.figure
    }

    private mutating func search() -> LoadFigure {
        let parts = min(count, Self.mostChildren)
        var isFirst = true
        return time(parts) { load in
            guard isFirst else { return ClaimID(0) }
            isFirst = false
            load.now = load.now + .seconds(1)
            load.tell(.tick)
            return ClaimID(0)
        }.figure
    }

    private mutating func time(
        _ events: Int = sample, _ body: (inout Self) -> ClaimID
    ) -> (figure: LoadFigure, claims: [ClaimID]) {
        var claims: [ClaimID] = []
        let figure = LoadFigure(of: &self, events, examinedClaims: { $0.arbiter.examinedClaims }) { load in
            for _ in 0..<events { claims.append(body(&load)) }
        }
        return (figure, claims)
    }

    private static func party(_ number: Int32) -> Party {
        Party(process: ProcessID(number: number, started: 1), ancestors: [])
    }

    @discardableResult
    private mutating func claim(_ item: UInt64, _ access: Access, by party: Party? = nil) -> ClaimID {
        let id = ClaimID(next)
        next += 1
        tell(.claimed(ClaimRequest(id, .handle, ClaimRequest.Part(ItemID(item), access))))
        if let party { tell(.identified(id, party)) }
        return id
    }

    private mutating func tell(_ event: ArbiterEvent) {
        effects.removeAll(keepingCapacity: true)
        arbiter.handle(event, at: now, into: &effects)
    }
}
