// SPDX-License-Identifier: Apache-2.0
import Arbitration
import Coordination
import LinuxSystem
import Synchronization
import Testing

import func TestSupport.eventually

@testable import CoordinationEngine

/// Checks the section "How long a guest can delay another user" of Limits, for a guest's readers and presenters.
@Suite struct EngineGuestDelayTests {
    private static let write = Access.write(.updating)
    private static let (owner, guest): (UInt32, UInt32) = (8, 7)

    /// A program of the given user. Each time that the engine observes the program, the program seems to have read further.
    private final class UserProgram: Claimant {
        let program: StandInClaimant
        let user: UInt32
        let mayWrite: Bool
        private let moved = PositionCounter()

        init(_ program: StandInClaimant, of user: UInt32, mayWrite: Bool = false) {
            (self.program, self.user, self.mayWrite) = (program, user, mayWrite)
        }

        var attribution: Attribution { program.attribution }
        var intents: [Intent] { program.intents }
        var opener: UInt32? { user }
        func identify() -> Party {
            var party = program.party
            party.user = user
            return party
        }
        func observe() -> Observation { .reading(position: moved.next()) }
        func userMayWrite() -> Bool { mayWrite }
    }

    private static func stage(allowing allowance: TimeSpan, policy: TimeoutPolicy = .proceed) throws
        -> EngineHarness
    {
        var bounds = Bounds()
        bounds.guestDelay = allowance
        (bounds.hold, bounds.wait) = (.seconds(30), .seconds(30))
        (bounds.relinquish, bounds.save, bounds.deletion) = (.seconds(30), .seconds(30), .seconds(30))
        bounds.policy = policy
        return try EngineHarness(bounds, sharedBy: 1)
    }

    private static func claim(
        _ stage: EngineHarness, _ access: Access, _ item: UInt64, by actor: any Claimant,
        _ program: StandInClaimant
    ) -> ClaimID {
        let id = stage.engine.makeClaimID()
        program.set([(access, item)])
        let request = ClaimRequest(id, .handle, ClaimRequest.Part(ItemID(item), access, at: Place()))
        switch stage.engine.claim(request, by: actor) {
        case .granted(let grant): program.decide(.granted(grant))
        case .waiting: stage.engine.onDecision(id) { program.decide($0) }
        }
        return id
    }

    @Test(
        "a guest's read-only reader is suspended when its delay allowance is used up; other readers are not"
    )
    func aGuestsReaderIsSuspendedWhenTheGuestsDelayAllowanceIsUsedUp() throws {
        let stage = try Self.stage(allowing: .milliseconds(400))
        // The guest reads two files. The delays by both files together use up the allowance.
        for item: UInt64 in [1, 2] {
            let cat = StandInClaimant("cat", Int32(100 + item))
            let reading = Self.claim(stage, .read(), item, by: UserProgram(cat, of: Self.guest), cat)
            let vi = StandInClaimant("vi", Int32(200 + item))
            let writing = Self.claim(stage, Self.write, item, by: UserProgram(vi, of: Self.owner), vi)
            #expect(!vi.isGranted)
            try eventually(within: .seconds(10), "the writer of \(item)") { vi.isGranted }
            stage.engine.end(writing)
            stage.engine.end(reading)
        }
        try eventually(within: .seconds(10), "a line of the log") {
            stage.log.all.contains { $0.contains("user 7 has made user 8 wait 400 ms within an hour") }
        }
        let spared: [(reader: UInt32, mayWrite: Bool, writer: UInt32)] = [
            (Self.guest, true, Self.owner), (Self.guest, false, Self.guest), (Self.guest, false, 9),
            (Self.owner, false, Self.guest), (0, false, Self.owner), (1, false, Self.owner),
        ]
        // In each pair, the user of the reader may still delay the user of the writer. The writers of all pairs wait at the
        // same time, so the test takes only 400 ms.
        let waits = spared.enumerated().map { number, who -> (ClaimID, ClaimID, StandInClaimant) in
            let (cat, vi) = (
                StandInClaimant("cat", Int32(300 + number)), StandInClaimant("vi", Int32(400 + number))
            )
            let item = UInt64(10 + number)
            let reading = Self.claim(
                stage, .read(), item, by: UserProgram(cat, of: who.reader, mayWrite: who.mayWrite), cat)
            return (reading, Self.claim(stage, Self.write, item, by: UserProgram(vi, of: who.writer), vi), vi)
        }
        let before = Engine.now
        try eventually(within: .seconds(10), "300 ms") { Engine.now.since(before) > .milliseconds(300) }
        for (number, wait) in waits.enumerated() {
            #expect(!wait.2.isGranted, "\(spared[number])")
            stage.engine.withdraw(wait.1)
            stage.engine.end(wait.0)
        }
    }

    @Test(
        "a suspended reader does not delay the next writer, even if the first writer has withdrawn")
    func aSuspendedReaderDelaysNoLaterWriter() throws {
        let stage = try Self.stage(allowing: .milliseconds(400))
        let (cat, first, second) = (
            StandInClaimant("cat", 101), StandInClaimant("vi", 201), StandInClaimant("vi", 202)
        )
        let reading = Self.claim(stage, .read(), 1, by: UserProgram(cat, of: Self.guest), cat)
        let leaving = Self.claim(stage, Self.write, 1, by: UserProgram(first, of: Self.owner), first)
        #expect(!first.isGranted)
        // The log line is written by the thread that has found the allowance used up. Before this thread suspends the reader,
        // the writer withdraws.
        let engine = stage.engine
        stage.log.atEach { line in if line.contains("within an hour") { engine.withdraw(leaving) } }
        try eventually(within: .seconds(10), "the first writer's end") {
            !stage.engine.snapshot(of: nil).claims.contains { $0.claim == leaving }
        }
        let writing = Self.claim(stage, Self.write, 1, by: UserProgram(second, of: Self.owner), second)
        // The reader must be suspended now. Otherwise the second writer would wait up to half a minute.
        try eventually(within: .seconds(10), "the second writer") { second.isGranted }
        stage.engine.end(writing)
        stage.engine.end(reading)
    }

    @Test(
        "when a guest's delay allowance is used up, its presenters get only a short time to answer questions",
        arguments: TimeoutPolicy.allCases)
    func aGuestWithAUsedUpDelayAllowanceHasOnlyAShortTimeToAnswerQuestions(policy: TimeoutPolicy) throws {
        let stage = try Self.stage(allowing: .milliseconds(400), policy: policy)
        let nvim = StandInClaimant("nvim", 640, of: Self.guest)
        let mailbox = Mailbox {}
        let presenters = (1...3).map { stage.present(UInt64($0), by: nvim, in: mailbox).0 }
        for item: UInt64 in 1...3 {
            let vi = StandInClaimant("vi", Int32(200 + item))
            let writing = Self.claim(stage, Self.write, item, by: UserProgram(vi, of: Self.owner), vi)
            #expect(!vi.isGranted)
            // With the usual time to answer, the presenter could delay the writer for half a minute.
            try eventually(
                within: .seconds(10), "the writer of \(item)"
            ) { vi.isGranted }
            stage.engine.end(writing)
        }
        stage.engine.remove(presenters)
    }

    @Test(
        "after three missed answers in a row, a guest's presenters get short deadlines until a presenter of the guest answers"
    )
    func threeMissedAnswersShortenAGuestsDeadlines() throws {
        var bounds = Bounds()
        bounds.relinquish = .milliseconds(400)
        let stage = try EngineHarness(bounds, sharedBy: 1)
        // Each presenter of the guest has a connection of its own.
        let mailboxes = (0..<6).map { _ in Mailbox {} }
        let nvim = StandInClaimant("nvim", 640, of: Self.guest)
        var presenters = mailboxes.enumerated().map { number, mailbox in
            stage.present(UInt64(number), by: nvim, in: mailbox).0
        }
        func deadline(of mailbox: Mailbox) throws -> (question: QuestionID, left: TimeSpan) {
            var found: (QuestionID, TimeSpan)?
            try eventually(within: .seconds(10), "a request") {
                for message in mailbox.take() {
                    guard case .request(let question, _, _, let end) = message.content else { continue }
                    found = (question, end.since(Engine.now))
                }
                return found != nil
            }
            return try #require(found)
        }
        func write(_ item: UInt64) throws -> (ClaimID, StandInClaimant) {
            let vi = StandInClaimant("vi", Int32(200 + item))
            return (Self.claim(stage, Self.write, item, by: UserProgram(vi, of: Self.owner), vi), vi)
        }
        for item in 0..<4 {
            let (claim, vi) = try write(UInt64(item))
            let left = try deadline(of: mailboxes[item]).left
            #expect(item < 3 ? left > .milliseconds(250) : left <= .milliseconds(250), "\(item): \(left)")
            try eventually(within: .seconds(10), "the writer of \(item)") { vi.isGranted }
            // The presenter did not answer. Its unsaved changes may be based on the old contents, so the contents are
            // preserved.
            guard case .granted(let grant) = vi.decision else { return }
            #expect(grant.unanswered == [presenters[item]])
            stage.engine.end(claim)
        }
        // As soon as one presenter of the guest answers, all presenters of the guest get the full time for their next answers.
        let (fourth, vi) = try write(4)
        let asked = try deadline(of: mailboxes[4])
        #expect(asked.left <= .milliseconds(250))
        stage.engine.answer(asked.question, of: presenters[4], .done)
        #expect(vi.isGranted)
        stage.engine.end(fourth)
        let (fifth, _) = try write(5)
        #expect(try deadline(of: mailboxes[5]).left > .milliseconds(250))
        stage.engine.withdraw(fifth)
        presenters.reverse()
        stage.engine.remove(presenters)
    }

    @Test(
        "a user's wait is charged to a guest, even behind a thousand waiting claims of the guest")
    func aUsersWaitBehindManyClaimsOfAGuestIsChargedToTheGuest() throws {
        let stage = try Self.stage(allowing: .milliseconds(400))
        let nvim = StandInClaimant("nvim", 640, of: Self.guest)
        let presenters = (0..<3).map { _ in stage.present(1, by: nvim, in: Mailbox {}).0 }
        let own = StandInClaimant("cat", 100)
        var claims = (0..<1100).map { _ in
            Self.claim(stage, .read(), 1, by: UserProgram(own, of: Self.guest), own)
        }
        // All these claims of the guest wait for one presenter. Their delay is charged once, and not once for each claim.
        #expect(stage.engine.withState { $0.answersChargedAt.count } == 1)
        let waiting = stage.engine.withState { $0.arbiter.waiting(forGuest: Self.guest) }
        #expect(waiting.map(\.user) == [Self.guest])
        let other = StandInClaimant("cat", 101)
        claims.append(Self.claim(stage, .read(), 1, by: UserProgram(other, of: Self.owner), other))
        try eventually(within: .seconds(10), "the other user's reader") { other.isGranted }
        #expect(stage.engine.delays.reports(at: Engine.now).allSatisfy { $0.spent >= .milliseconds(400) })
        for claim in claims {
            stage.engine.withdraw(claim)
            stage.engine.end(claim)
        }
        stage.engine.remove(presenters)
        #expect(!stage.engine.withState { $0.arbiter.owesAnswers(Self.guest) })
    }

    @Test(
        "the command `why` reports a reader suspended because its user's delay allowance is used up, and the time"
    )
    func theWhyCommandReportsThatAReadersDelayAllowanceIsUsedUp() throws {
        let stage = try Self.stage(allowing: .milliseconds(300))
        let (cat, vi) = (StandInClaimant("cat", 100), StandInClaimant("vi", 200))
        let reading = Self.claim(stage, .read(), 1, by: UserProgram(cat, of: Self.guest), cat)
        let writing = Self.claim(stage, Self.write, 1, by: UserProgram(vi, of: Self.owner), vi)
        try eventually(within: .seconds(10), "the writer") { vi.isGranted }
        let snapshot = stage.engine.snapshot(of: ItemID(1))
        let exceeded = snapshot.claims.compactMap { claim in claim.exceeded.map { (claim.claim, $0) } }
        #expect(exceeded.map(\.0) == [reading])
        let delays = try #require(snapshot.delays)
        #expect(delays.map(\.guest) == [Self.guest] && delays.map(\.delayed) == [Self.owner])
        #expect(exceeded.map(\.1.spent) == delays.map(\.spent))
        #expect(delays.allSatisfy { $0.spent >= .milliseconds(300) })
        for claim in [writing, reading] { stage.engine.end(claim) }
    }

    @Test(
        "a user's wait for a guest's presenter is charged to the guest, even if a claim of the guest caused the question"
    )
    func aUsersWaitForAGuestsPresenterIsChargedToTheGuest() throws {
        let stage = try Self.stage(allowing: .milliseconds(400))
        let nvim = StandInClaimant("nvim", 640, of: Self.guest)
        let presenter = stage.present(1, by: nvim, in: Mailbox {}).0
        let (own, other) = (StandInClaimant("cat", 100), StandInClaimant("cat", 101))
        let first = Self.claim(stage, .read(), 1, by: UserProgram(own, of: Self.guest), own)
        let second = Self.claim(stage, .read(), 1, by: UserProgram(other, of: Self.owner), other)
        #expect(!own.isGranted && !other.isGranted)
        try eventually(within: .seconds(10), "the other user's reader") { other.isGranted }
        let report = stage.engine.report(options: EffectiveOptions(), dataPath: .undecided)
        let delays = try #require(report.delays)
        #expect(delays.map(\.guest) == [Self.guest] && delays.map(\.delayed) == [Self.owner])
        #expect(delays.allSatisfy { $0.spent >= .milliseconds(400) && $0.allowed == .milliseconds(400) })
        for claim in [first, second] { stage.engine.end(claim) }
        stage.engine.remove(presenter)
    }
}

/// Counts how many times a file position is read.
private final class PositionCounter: Sendable {
    private let last = LogLines()
    func next() -> Int64 {
        last.append("")
        return Int64(last.all.count)
    }
}
