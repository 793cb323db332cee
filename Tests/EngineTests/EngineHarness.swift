// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import LinuxSystem
import Synchronization

/// Threads that the engines of all tests share. The threads run until the process ends.
enum EngineTestThreads {
    static let timers = Result { () throws(Errno) in try Timers() }
    static let workers = Result { () throws(Errno) in try WorkerPool(threads: 2) }
}

/// An engine with stand-ins for its programs and documents, and the lines of its log.
struct EngineHarness {
    let engine: Engine
    let log = LogLines()

    init(_ bounds: Bounds = Bounds(), sharedBy owner: UInt32? = nil) throws {
        engine = Engine(
            bounds: bounds, timers: try EngineTestThreads.timers.get(),
            workers: try EngineTestThreads.workers.get(),
            sharedBy: owner,
            log: { [log] line in log.append(line) })
    }

    /// Makes a claim for a stand-in. If the claim waits, the stand-in stores the decision that the engine sends later.
    @discardableResult
    func claim(
        _ nature: ClaimRequest.Nature, _ accesses: (Access, UInt64)..., by actor: StandInClaimant,
        in directory: UInt64? = nil, within claims: [ClaimID] = [], answering question: QuestionID? = nil
    ) -> ClaimID {
        let id = engine.makeClaimID()
        let place = Place(in: directory.map { ItemID($0) })
        let parts = accesses.map { ClaimRequest.Part(ItemID($1), $0, at: place) }
        var request = ClaimRequest(id, nature, parts[0], Array(parts.dropFirst()))
        (request.within, request.answering) = (claims, question)
        actor.set(accesses)
        switch engine.claim(request, by: actor) {
        case .granted(let grant): actor.decide(.granted(grant))
        // The closure refers weakly to the stand-in. So a test can check that the stand-in is released when the engine drops
        // it.
        case .waiting: engine.onDecision(id) { [weak actor] in actor?.decide($0) }
        }
        return id
    }

    /// Registers a presenter of an item for a stand-in.
    func present(
        _ item: UInt64, by actor: StandInClaimant, _ messages: PresenterMessages = .all, in mailbox: Mailbox
    ) -> (PresenterID, StandInDocument) {
        let document = StandInDocument(ItemID(item))
        return (engine.present(document, by: actor.party, implementing: messages, in: mailbox), document)
    }

    func reasons(of claim: ClaimID) -> [String] {
        engine.snapshot(of: nil).claims.first { $0.claim == claim }?.reasons ?? []
    }
}

final class LogLines: Sendable {
    private let state = Mutex<[String]>([])
    private let hook = Mutex<@Sendable (String) -> Void>({ _ in })
    func append(_ line: String) {
        state.withLock { $0.append(line) }
        hook.withLock { $0 }(line)
    }
    /// Sets a closure that is called for each line of the log. The closure runs on the thread that writes the line, and that
    /// thread waits for the closure's end.
    func atEach(_ body: @escaping @Sendable (String) -> Void) { hook.withLock { $0 = body } }
    var all: [String] { state.withLock { $0 } }
}

/// A stand-in for a program. It has a name and a process number, and each of its files has the name of its item.
final class StandInClaimant: Claimant {
    let party: Party
    private let state = Mutex<(accesses: [(Access, UInt64)], decision: Engine.Decision?)>(([], nil))
    /// The closure that is called when the last reference to the stand-in is released.
    let atEnd: @Sendable () -> Void

    init(
        _ program: String, _ number: Int32, ancestors: [Int32] = [], purpose: String? = nil,
        of user: UInt32? = nil, in runs: [RunID] = [], atEnd: @escaping @Sendable () -> Void = {}
    ) {
        var party = Party(
            process: ProcessID(number: number, started: 1),
            ancestors: ancestors.map { ProcessID(number: $0, started: 1) }, runs: runs)
        party.program = Array(program.utf8)
        party.user = user
        party.purpose = purpose.map { Purpose($0) }
        self.party = party
        self.atEnd = atEnd
    }

    deinit { atEnd() }

    static func name(of item: UInt64) -> [UInt8] { Array("file\(item)".utf8) }

    func set(_ accesses: [(Access, UInt64)]) { state.withLock { $0.accesses = accesses } }
    func decide(_ decision: Engine.Decision) { state.withLock { $0.decision = decision } }
    var decision: Engine.Decision? { state.withLock { $0.decision } }

    var isGranted: Bool { if case .granted = decision { true } else { false } }
    var refusal: Refusal? { if case .refused(let refusal, _) = decision { refusal } else { nil } }
    var explanation: Explanation? { if case .refused(_, let why) = decision { why } else { nil } }

    var attribution: Attribution {
        let item = state.withLock { $0.accesses.first?.1 ?? 0 }
        return Attribution(of: party) { Self.name(of: item) }
    }
    var intents: [Intent] {
        state.withLock { $0.accesses }.map { access, item in Intent(access) { Self.name(of: item) } }
    }
    func identify() -> Party { party }
    func observe() -> Observation { .emptied }
}

final class StandInDocument: TrackedDocument {
    let item: ItemID
    private let count = Atomic<Int>(0)

    init(_ item: ItemID) { self.item = item }
    var place: Place { Place() }
    var path: [UInt8] { StandInClaimant.name(of: item.rawValue) }
    var releases: Int { count.load(ordering: .relaxed) }
    func release() { count.add(1, ordering: .relaxed) }
}
