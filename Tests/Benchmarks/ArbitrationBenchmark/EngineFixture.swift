// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import LinuxSystem
import Synchronization

/// An engine with a tree of directories. The tree contains claims and presenters that the measured claims never meet.
///
/// In a flat tree, all items are in one directory. In a deep tree, each directory at the requested depth contains a hundred
/// items.
final class EngineFixture {
    static let timers = Result { () throws(Errno) in try Timers() }
    static let workers = Result { () throws(Errno) in try WorkerPool(threads: 1) }
    static let itemsInDirectory = 100

    let engine: Engine
    let mailbox = Mailbox {}
    private let program = BenchmarkClaimant(100)
    private let outcome: @Sendable (Grant) -> Void
    private let granted: AtomicCounter
    /// The place in the tree where the measured claims are made.
    private(set) var place = Place()
    private var nextItem: UInt64 = 1 << 32
    private var nextDirectory: UInt64 = 2
    private var root = ItemID(1)

    init(elsewhere: Int, depth: Int, bounds: Bounds = EngineFixture.patient) throws {
        engine = Engine(
            bounds: bounds, timers: try Self.timers.get(), workers: try Self.workers.get(), log: { _ in })
        let granted = AtomicCounter()
        self.granted = granted
        outcome = { _ in granted.add() }
        engine.place(root, DirectoryInfo(in: nil))
        place = Place(in: makeDirectory(depth: depth))
        for place in places(for: elsewhere, depth: depth) {
            let item = makeItem()
            _ = engine.present(Document(item, place), by: program.party, implementing: .all, in: mailbox)
            claim(item, place, .read(), by: program)
        }
    }

    /// Time limits that are so long that none ends during a measurement.
    static var patient: Bounds {
        var bounds = Bounds()
        (bounds.wait, bounds.hold, bounds.holdAware) = (.seconds(600), .seconds(600), .seconds(600))
        (bounds.firstObservationDelay, bounds.relinquish) = (.seconds(600), .seconds(600))
        return bounds
    }

    func makeItem() -> ItemID {
        nextItem += 1
        return ItemID(nextItem)
    }

    /// Makes a directory that is `depth` steps below the root. Each directory on the way contains only the next directory.
    func makeDirectory(depth: Int) -> ItemID {
        var directory = root
        for _ in 0..<depth {
            let next = ItemID(nextDirectory)
            nextDirectory += 1
            engine.place(next, DirectoryInfo(in: directory))
            directory = next
        }
        return directory
    }

    /// Returns places for a number of items, in a tree of the given depth.
    func places(for items: Int, depth: Int) -> [Place] {
        guard items > 0 else { return [] }
        let perDirectory = depth == 1 ? items : Self.itemsInDirectory
        var directory = root
        return (0..<items).map { number in
            if number % perDirectory == 0 { directory = makeDirectory(depth: depth) }
            return Place(in: directory)
        }
    }

    @discardableResult
    func claim(_ item: ItemID, _ place: Place, _ access: Access, by claimant: any Claimant) -> ClaimID {
        let claim = engine.makeClaimID()
        let request = ClaimRequest(claim, .handle, ClaimRequest.Part(item, access, at: place))
        if case .granted(let grant) = engine.claim(request, by: claimant) { outcome(grant) }
        return claim
    }

    /// Makes a claim on an item that no other claim wants, receives the grant and ends the claim. Repeats this `times` times.
    func claimAndEnd(times: Int) {
        let item = ItemID(1 << 33)
        for _ in 0..<times {
            let claim = claim(item, place, .write(.updating), by: program)
            engine.end(claim)
        }
    }
}

/// A program that exists only in the benchmark, without a process.
final class BenchmarkClaimant: Claimant {
    let party: Party

    init(_ number: Int32, thread: Int32 = 0) {
        let shell = ProcessID(number: 1, started: 1)
        var party = Party(process: ProcessID(number: number, started: 1), ancestors: [shell])
        party.thread = thread
        party.program = Array("program".utf8)
        self.party = party
    }

    var attribution: Attribution { Attribution(of: party) { [] } }
    var intents: [Intent] { [] }
    func identify() -> Party { party }
    func observe() -> Observation { .dirty(stamp: 1) }
}

final class Document: TrackedDocument {
    let item: ItemID
    let place: Place
    init(_ item: ItemID, _ place: Place) {
        self.item = item
        self.place = place
    }
    var path: [UInt8] { [] }
    func release() {}
}

final class AtomicCounter: Sendable {
    private let value = Atomic<Int>(0)
    var count: Int { value.load(ordering: .acquiring) }
    func add() { value.add(1, ordering: .releasing) }
}
