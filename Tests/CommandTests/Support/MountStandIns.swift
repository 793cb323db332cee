// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import ControlServer
import Coordination
import CoordinationEngine
import Dispatch
import Glibc
import LinuxSystem
import Synchronization

// Stand-ins that a server uses in place of a mount. Scripts/fuzz also compiles this file, so the file contains no test.

/// The status of a mount that has granted seven claims.
struct FixedStatus: StatusSource {
    func status() -> StatusReport {
        var report = StatusReport()
        report.counters.granted = 7
        return report
    }
}

/// The status of a mount with more events than one message can contain.
struct LongStatus: StatusSource {
    /// Each byte of this path is escaped as six bytes in JSON.
    static let path = [UInt8](repeating: 1, count: 4000)

    func status() -> StatusReport {
        let actor = ProcessDescription(pid: 1, program: [])
        let now = Instant(nanoseconds: 0)
        return StatusReport(
            waiting: (1...2000).map {
                WaitingClaim(claim: ClaimID($0), actor: actor, access: .read(), path: Self.path, since: now)
            },
            journal: (1...2000).map {
                JournalStep(sequence: $0, moment: now, kind: .granted, path: Self.path)
            })
    }
}

/// A counter of calls that several threads share.
final class CallTally: Sendable {
    private let state = Mutex(0)
    var count: Int { state.withLock { $0 } }
    func add() { state.withLock { $0 += 1 } }
}

/// A version store with one small version and one version as large as requested.
struct SingleVersionStore: PreservedVersions {
    static let large = "000000000000000f"
    /// Counts the reads of the large version.
    static let reads = CallTally()

    /// The small version's entry. For a path below `many`, more entries than one message can contain. The version of `preserved`
    /// has a generation.
    func entries(_ query: VersionQuery, for peer: Peer) throws(VersionAccessFailure) -> VersionPage {
        let isMany = query.path == Array("many".utf8)
        var entry = VersionForm(
            id: "0123456789abcdef", path: isMany ? LongStatus.path : Array("a".utf8), cause: "claim", time: 0,
            size: 4, user: 0, group: 0, mode: 0o100644)
        if query.path == Array("preserved".utf8) { entry.generation = "e5-11" }
        return VersionPage([VersionForm](repeating: entry, count: isMany ? 900 : 1), hasMore: false)
    }

    func read(
        _ id: String, of path: [UInt8]?, at offset: Int64, count: Int, for peer: Peer
    ) throws(VersionAccessFailure) -> [UInt8] {
        if id == Self.large {
            Self.reads.add()
            return [UInt8](repeating: 0x61, count: count)
        }
        guard id == "0123456789abcdef" else { throw .notFound }
        return Array("kept".utf8.dropFirst(Int(offset)).prefix(count))
    }

    private let observers = VersionObservers()

    func observe(_ body: @escaping @Sendable (PreservedChange) -> Void) { observers.add(body) }

    /// Reports a change of a version to the server.
    func tell(_ change: PreservedChange) { observers.report(change) }

    func preserve(_ path: [UInt8], contents: [UInt8]?, for peer: Peer) throws(VersionAccessFailure) -> String?
    {
        path == Array("empty".utf8) ? nil : "0123456789abcdef"
    }

    func resolve(_ ids: [String]?, of path: [UInt8], for peer: Peer) throws(VersionAccessFailure) -> Int {
        ids?.count ?? 1
    }

    func remove(_ ids: [String], of path: [UInt8], for peer: Peer) throws(VersionAccessFailure) -> Int {
        ids.count
    }

    func prune(_ path: [UInt8], until: Double?, for peer: Peer) throws(VersionAccessFailure) -> Int { 1 }
}

/// The functions that a server has given to a store for changes of versions.
final class VersionObservers: Sendable {
    private let bodies = Mutex<[@Sendable (PreservedChange) -> Void]>([])

    func add(_ body: @escaping @Sendable (PreservedChange) -> Void) { bodies.withLock { $0.append(body) } }
    func report(_ change: PreservedChange) { for body in bodies.withLock({ $0 }) { body(change) } }
}

/// A directory that is removed, with everything in it, when the test ends.
final class TemporaryDirectory {
    let path: String

    init() throws {
        var template = Array("/tmp/truce-test-XXXXXX".utf8CString)
        guard let made = mkdtemp(&template) else { throw Errno(rawValue: errno) }
        path = String(cString: made)
    }

    deinit {
        rmdir(socketDirectory)
        rmdir(path + "-other")
        rmdir(path)
    }

    var socketDirectory: String { path + "/truce" }

    /// Makes the socket in the test's directory, so that nothing is written to `/run`. As root, the server would try `/run`
    /// first.
    func makeSocket() throws -> ControlSocket {
        try ControlSocket.make(
            mountpoint: path, user: geteuid(),
            places: [
                SocketDirectory.Candidate(
                    path: socketDirectory, needsOwnedParent: true, mode: 0o700, socketMode: 0o600),
                SocketDirectory.Candidate(
                    path: path + "-other", needsOwnedParent: false, mode: 0o700, socketMode: 0o600),
            ])
    }

    func abandon(_ socket: consuming ControlSocket) throws {}
}

/// A stand-in for a file. A test can rename it, but it exists on no disk.
final class FakeDocument: TrackedDocument {
    let item: ItemID
    private let state: Mutex<(path: [UInt8], finders: Int)>

    init(_ item: ItemID, _ path: [UInt8]) {
        self.item = item
        state = Mutex((path, 0))
    }

    var place: Place { Place() }
    var path: [UInt8] { state.withLock { $0.path } }
    var finders: Int { state.withLock { $0.finders } }
    func retain() { state.withLock { $0.finders += 1 } }
    func release() { state.withLock { $0.finders -= 1 } }
    func move(to path: String) { state.withLock { $0.path = Array(path.utf8) } }
}

/// A gate at which one thread waits until the test opens it.
final class Gate: Sendable {
    private let reached = DispatchSemaphore(value: 0)
    private let opened = DispatchSemaphore(value: 0)

    func pass() {
        reached.signal()
        _ = opened.wait(timeout: .now() + 60)
    }

    /// Waits until a thread waits at the gate. Returns false after 10 s without such a thread.
    func isReached() -> Bool { reached.wait(timeout: .now() + 10) == .success }

    func open() { opened.signal() }
}

/// A directory in which every path exists, except below `missing`. No client may enter `closed`. Each connection counts as a
/// process of its own, unless the clients are real processes.
final class FakeDocuments: DocumentSource {
    /// A look-up of a path in `slow` waits at this gate, and then finds nothing.
    let gate = Gate()
    private let asked = Mutex<(lookups: [String], moves: [String])>(([], []))
    private let state = Mutex<(documents: [[UInt8]: FakeDocument], processes: Int32)>(([:], 1000))
    private let hasRealProcesses: Bool
    private let generations = Mutex<[[UInt8]: DocumentGeneration]>([:])

    init(hasRealProcesses: Bool = false) { self.hasRealProcesses = hasRealProcesses }

    func isFile(_ item: ItemID, _ status: FileStatus) -> Bool { true }

    func didRegisterPresenter(_ document: any TrackedDocument, by party: Party?) {}

    func find(_ path: [UInt8]) throws(LookupFailure) -> any TrackedDocument {
        asked.withLock { $0.lookups.append(String(decoding: path, as: UTF8.self)) }
        if path.starts(with: "slow/".utf8) {
            gate.pass()
            throw .notFound
        }
        if path.starts(with: "missing/".utf8) { throw .notFound }
        let failed = LookupFailure.system
        if path.starts(with: "closed/".utf8) { throw failed(EACCES) }
        if path.starts(with: ".truce".utf8) { throw .denied }
        let document = self.document(path)
        document.retain()
        return document
    }

    func canFindWithoutBlocking(_ path: [UInt8]) -> Bool {
        !path.starts(with: "far/".utf8) && !path.starts(with: "slow/".utf8)
    }

    /// The paths that were looked up and the targets of moves, in order.
    var soughtPaths: [String] { asked.withLock { $0.lookups } }
    var movedPaths: [String] { asked.withLock { $0.moves } }

    func follow(_ item: ItemID) -> (any TrackedDocument)? { nil }

    func document(_ path: String) -> FakeDocument { document(Array(path.utf8)) }

    private func document(_ path: [UInt8]) -> FakeDocument {
        state.withLock { state in
            if let known = state.documents.values.first(where: { $0.path == path }) { return known }
            let document = FakeDocument(ItemID(UInt64(state.documents.count + 1)), path)
            state.documents[path] = document
            return document
        }
    }

    func path(of item: ItemID, at place: Place) -> [UInt8]? {
        state.withLock { $0.documents.values.first { $0.item == item }?.path }
    }

    func generation(of document: any TrackedDocument) -> DocumentGeneration? {
        if document.path == Array("nothing".utf8) { return nil }
        return generations.withLock { $0[document.path] } ?? DocumentGeneration("e1-1")
    }

    /// The epoch `e0` stands for the time before a crash of the daemon, and the number 0 for a dropped generation.
    func compare(_ document: any TrackedDocument, with expected: String) -> GenerationComparison {
        guard let now = generation(of: document) else { return .missing }
        if expected.hasPrefix("e0-") { return .unknown(now) }
        if expected.hasSuffix("-0") { return .forgotten(now) }
        return now.text == expected ? .same : .changed(now)
    }

    /// Gives the document at a path a generation.
    func set(_ generation: DocumentGeneration, at path: String) {
        generations.withLock { $0[Array(path.utf8)] = generation }
    }

    func announceMove(
        of document: any TrackedDocument, to path: [UInt8], by party: Party, under claim: ClaimID
    ) throws(MoveFailure) {
        asked.withLock { $0.moves.append(String(decoding: path, as: UTF8.self)) }
    }

    /// The number of look-ups whose document has not been released yet.
    var finders: Int { state.withLock { $0.documents.values.reduce(0) { $0 + $1.finders } } }

    func party(ofProcess process: Int32) -> Party {
        guard !hasRealProcesses else {
            var party = Party(process: ProcessID(number: process, started: 1), ancestors: [])
            (party.program, party.user) = (Array("Participant".utf8), geteuid())
            return party
        }
        let number = state.withLock { state in
            state.processes += 1
            return state.processes
        }
        var party = Party(process: ProcessID(number: number, started: 1), ancestors: [])
        party.program = Array("program-\(number)".utf8)
        party.user = 7
        return party
    }
}

/// A source directory without symbolic links. No guest uses it.
struct FakeSource: SourceInspector {
    func rights(of user: FileUser, at path: [UInt8]) -> Rights { [.read, .write, .rename] }
    func listableDirectory(_ path: [UInt8], by user: FileUser) -> FileStatus? { nil }
    func target(of path: [UInt8], as user: FileUser?, within lookups: inout Int) -> [UInt8]? { nil }
}

/// Threads that the engines of all tests share. The threads run until the process ends.
enum EngineThreads {
    static let timers = Result { () throws(Errno) in try Timers() }
    static let workers = Result { () throws(Errno) in try WorkerPool(threads: 2) }
}

final class ServerLog: Sendable {
    private let state = Mutex<[String]>([])
    func append(_ line: String) { state.withLock { $0.append(line) } }
    var lines: [String] { state.withLock { $0 } }
}
