// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import Synchronization
import Testing

import func TestSupport.eventually

/// The leases of runs: the engine claims a document for a run when another program meets it.
@Suite("Leases of runs")
struct LeaseTests {
    private static let run = "build"

    /// What a run was told.
    private final class Told: Sendable {
        private let state = Mutex<(begun: RunID?, suspensions: [LeaseSuspension])>((nil, []))
        func begin(_ run: RunID) { state.withLock { $0.begun = run } }
        func suspend(_ reason: LeaseSuspension) { state.withLock { $0.suspensions.append(reason) } }
        var hasBegun: Bool { state.withLock { $0.begun != nil } }
        var suspensions: [LeaseSuspension] { state.withLock { $0.suspensions } }
    }

    private static func begin(
        _ harness: EngineHarness, write: [String] = [], read: [String] = [], named name: String = run,
        isUncoordinated: Bool = false, pid: Int32 = 500
    ) throws -> (run: RunID, told: Told) {
        let told = Told()
        let leases =
            try write.map { Lease(try LeasePattern($0), isWrite: true) }
            + read.map { Lease(try LeasePattern($0), isWrite: false) }
        let request = RunRequest(
            name: name, starter: ProcessID(number: pid, started: 1), user: 0, leases: leases,
            isUncoordinated: isUncoordinated)
        let added = harness.engine.addRun(
            request, token: "token-\(pid)", begin: { told.begin($0) }, suspended: { told.suspend($1) })
        return (try #require(added), told)
    }

    @Test("another program waits for a lease until the run ends")
    func anotherProgramWaitsUntilTheRunEnds() throws {
        let harness = try EngineHarness()
        let (run, told) = try Self.begin(harness, write: ["file1"])
        #expect(told.hasBegun)
        let (reader, other) = (StandInClaimant("cat", 1), StandInClaimant("cat", 2))
        let claim = harness.claim(.handle, (.read(), 1), by: reader)
        harness.claim(.handle, (.read(), 2), by: other)
        #expect(reader.decision == nil)
        #expect(other.isGranted)
        #expect(
            harness.reasons(of: claim) == [
                "cat (1) waits for truce run 'build' (500), which is writing file1"
            ])
        #expect(harness.engine.runs.reports.map(\.documents) == [1])
        harness.engine.endRun(run)
        #expect(reader.isGranted)
        #expect(harness.engine.runs.isEmpty)
    }

    @Test("for a lease to read, writers wait and readers do not")
    func onlyWritersWaitForALeaseToRead() throws {
        let harness = try EngineHarness()
        let (run, _) = try Self.begin(harness, read: ["*"])
        let (reader, writer) = (StandInClaimant("cat", 1), StandInClaimant("vi", 2))
        harness.claim(.handle, (.read(), 1), by: reader)
        harness.claim(.handle, (.write(.updating), 1), by: writer)
        #expect(reader.isGranted)
        #expect(writer.decision == nil)
        harness.engine.endRun(run)
    }

    @Test("X7: the processes of a run do not wait for its leases, but for each other (D235)")
    func processesOfARunWaitForEachOther() throws {
        let harness = try EngineHarness()
        let (run, _) = try Self.begin(harness, write: ["*"])
        let outsider = StandInClaimant("cat", 1)
        harness.claim(.handle, (.read(), 1), by: outsider)
        #expect(outsider.decision == nil)
        let (first, second) = (StandInClaimant("vi", 2, in: [run]), StandInClaimant("sed", 3, in: [run]))
        let held = harness.claim(.handle, (.write(.updating), 1), by: first)
        #expect(first.isGranted)
        harness.claim(.handle, (.write(.updating), 1), by: second)
        #expect(second.decision == nil)
        harness.engine.end(held)
        #expect(second.isGranted)
        #expect(outsider.decision == nil)
        harness.engine.endRun(run)
    }

    @Test("X7: presenters are not asked about a lease, but about the accesses of its run")
    func presentersAreAskedAboutAccessesOfTheRun() throws {
        let harness = try EngineHarness()
        let mailbox = Mailbox {}
        let (presenter, _) = harness.present(1, by: StandInClaimant("nvim", 640), in: mailbox)
        let (run, _) = try Self.begin(harness, write: ["*"])
        let outsider = StandInClaimant("cat", 1)
        harness.claim(.handle, (.read(), 1), by: outsider)
        #expect(outsider.decision == nil)
        #expect(harness.engine.runs.reports.map(\.documents) == [1])
        #expect(mailbox.take().isEmpty)
        let member = StandInClaimant("sed", 2, in: [run])
        let write = harness.claim(.handle, (.write(.updating), 1), by: member)
        let questions = mailbox.take().compactMap { message -> QuestionID? in
            guard case .request(let question, .relinquishToWriter, nil, _) = message.content else {
                return nil
            }
            return question
        }
        try #require(questions.count == 1)
        #expect(member.decision == nil)
        harness.engine.answer(questions[0], of: presenter, .done)
        #expect(member.isGranted)
        #expect(outsider.decision == nil)
        harness.engine.end(write)
        harness.engine.remove(presenter)
        harness.engine.endRun(run)
        #expect(outsider.isGranted)
    }

    @Test("a lease queues behind a program that has the document already, and before all later programs")
    func aLeaseQueuesBehindHolders() throws {
        let harness = try EngineHarness()
        let holder = StandInClaimant("vi", 1)
        let held = harness.claim(.handle, (.write(.updating), 1), by: holder)
        let (run, _) = try Self.begin(harness, write: ["*"])
        let later = StandInClaimant("cat", 2)
        harness.claim(.handle, (.read(), 1), by: later)
        #expect(later.decision == nil)
        harness.engine.end(held)
        #expect(later.decision == nil)
        harness.engine.endRun(run)
        #expect(later.isGranted)
    }

    @Test("a run waits for an earlier run with overlapping leases, and begins when that run ends")
    func aRunWaitsForAnEarlierRun() throws {
        let harness = try EngineHarness()
        let (first, _) = try Self.begin(harness, write: ["src/**"])
        let (second, told) = try Self.begin(harness, read: ["**/*.c"], named: "scan", pid: 600)
        let (third, apart) = try Self.begin(harness, write: ["doc/*.md"], named: "doc", pid: 700)
        #expect(!told.hasBegun)
        #expect(apart.hasBegun)
        #expect(harness.engine.runs.reports.map(\.isWaiting) == [false, true, false])
        harness.engine.endRun(first)
        #expect(told.hasBegun)
        for run in [second, third] { harness.engine.endRun(run) }
    }

    @Test("a run that waits for `hold-aware` makes the earlier leases suspended (D237)")
    func aWaitingRunSuspendsTheEarlierLeases() throws {
        var bounds = Bounds()
        bounds.holdAware = .milliseconds(20)
        let harness = try EngineHarness(bounds)
        let (first, held) = try Self.begin(harness, write: ["**"])
        let (second, told) = try Self.begin(harness, write: ["**"], named: "next", pid: 600)
        try eventually(within: .seconds(10), "the second run to begin") { told.hasBegun }
        #expect(held.suspensions == [.holdExpired])
        #expect(told.suspensions == [])
        for run in [first, second] { harness.engine.endRun(run) }
    }

    @Test(
        "when others have waited for `hold-aware`, the leases are suspended, and a change by others is noted (D237)"
    )
    func leasesAreSuspendedAfterHoldAware() throws {
        var bounds = Bounds()
        bounds.holdAware = .milliseconds(20)
        let harness = try EngineHarness(bounds)
        let (run, told) = try Self.begin(harness, write: ["*"])
        let writer = StandInClaimant("vi", 1)
        harness.claim(.handle, (.write(.updating), 1), by: writer)
        try eventually(within: .seconds(10), "the grant after the suspension") { writer.isGranted }
        try eventually(within: .seconds(10), "the notice") { told.suspensions == [.holdExpired] }
        // Other programs no longer wait for any document of the run.
        let other = StandInClaimant("vi", 2)
        harness.claim(.handle, (.write(.updating), 2), by: other)
        #expect(other.isGranted)
        let member = StandInClaimant("sed", 3, in: [run])
        #expect(harness.engine.runs.hasForeignChange(of: ItemID(1), for: { member.party }))
        #expect(harness.engine.runs.hasForeignChange(of: ItemID(2), for: { member.party }))
        #expect(!harness.engine.runs.hasForeignChange(of: ItemID(1), for: { other.party }))
        harness.engine.runs.noteOwnChange(of: ItemID(1), by: { member.party })
        #expect(!harness.engine.runs.hasForeignChange(of: ItemID(1), for: { member.party }))
        harness.engine.endRun(run)
        #expect(!harness.engine.runs.hasForeignChanges)
    }

    @Test(
        "a process of an uncoordinated run passes all waits, and the writer that it passes is listed as preempted"
    )
    func anUncoordinatedRunPassesWaits() throws {
        let harness = try EngineHarness()
        let holder = StandInClaimant("vi", 1)
        let held = harness.claim(.handle, (.write(.updating), 1), by: holder)
        let (run, _) = try Self.begin(harness, isUncoordinated: true)
        let member = StandInClaimant("rsync", 2, in: [run])
        harness.claim(.handle, (.write(.updating), 1), by: member)
        guard case .granted(let grant) = member.decision else {
            return #expect(Bool(false), "it was not granted")
        }
        #expect(grant.basis == .proceeded)
        #expect(grant.preempted.map(\.claim) == [held])
        #expect(harness.log.all.contains("run 'build' (500) passes all waits"))
        harness.engine.endRun(run)
        let late = StandInClaimant("rsync", 2, in: [run])
        harness.claim(.handle, (.write(.updating), 1), by: late)
        #expect(late.decision == nil)
    }

    @Test(
        "a process belongs to the runs of its ancestors and of its tokens, if the token is of its own user (D236)"
    )
    func aProcessBelongsToTheRunsOfItsAncestorsAndTokens() throws {
        let harness = try EngineHarness()
        let (outer, _) = try Self.begin(harness)
        let (inner, _) = try Self.begin(harness, named: "inner", pid: 600)
        let runs = { (ancestors: [Int32], user: UInt32, tokens: [Substring]) in
            harness.engine.runs.runs(
                ofAncestors: ancestors.map { ProcessID(number: $0, started: 1) }, user: user,
                tokens: { tokens })
        }
        #expect(runs([3, 600, 2, 500, 1], 7, []) == [inner, outer])
        #expect(runs([3], 0, ["token-600", "token-500"]) == [inner, outer])
        #expect(runs([3], 7, ["token-600"]) == [])
        #expect(runs([3], 0, ["token-700", ""]) == [])
        #expect(runs([3, 600], 0, ["token-600"]) == [inner])
        for run in [outer, inner] { harness.engine.endRun(run) }
    }

    @Test("`why` names the run of a program")
    func whyNamesTheRun() throws {
        let harness = try EngineHarness()
        let (run, _) = try Self.begin(harness)
        let (member, other) = (StandInClaimant("sed", 1, in: [run]), StandInClaimant("cat", 2))
        harness.claim(.handle, (.write(.updating), 1), by: member)
        let claim = harness.claim(.handle, (.read(), 1), by: other)
        #expect(
            harness.reasons(of: claim) == ["cat (2) waits for sed (1) of run 'build', which is writing file1"]
        )
        let actors = harness.engine.snapshot(of: nil).claims.map(\.actor)
        #expect(actors.map(\.name) == ["build", nil])
        harness.engine.endRun(run)
    }
}
