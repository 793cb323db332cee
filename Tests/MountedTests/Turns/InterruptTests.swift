// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

/// Design 4, "Interrupts": a program that waits for the daemon can be killed at any moment. A signal that does not end the
/// program does not end the wait.
extension MountTests {
    @Suite struct InterruptTests {
        static let signals = [SIGINT, SIGTERM, SIGKILL]

        enum Request: String, CaseIterable, Sendable { case reading, rewriting, truncating }

        @Test("A signal ends a waiting program at once", arguments: signals, Request.allCases)
        func aSignalEndsAWaitingProgramAtOnce(signal: Int32, request: Request) throws {
            try Self.withWaiter(request) { mount, _, waiter in
                let seen = try Watch(of: waiter.program, beside: [try mount.daemonPID]).send(signal)
                seen.report("signal \(signal), \(request.rawValue)")
                #expect(seen.isGone)
                #expect(seen.stuckAfterwards == [])
                #expect(try waiter.program.wait(within: .seconds(1)).ending == .signalled(signal))
                #expect(try Program("cat").run(mount.path + "/other").text == "other\n")
                #expect(try mount.counters.interrupted == 1)
            }
        }

        @Test(
            "A waiting program that handled a harmless signal can still be killed",
            arguments: Request.allCases)
        func aHarmlessSignalDoesNotPreventAKill(request: Request) throws {
            try Self.withWaiter(request, catching: "SIGURG") { mount, _, waiter in
                let watch = Watch(of: waiter.program, beside: [try mount.daemonPID])
                let first = try watch.send(SIGURG, for: .milliseconds(100))
                #expect(!first.isGone)
                let seen = try watch.send(SIGKILL)
                seen.report("SIGURG and then SIGKILL, \(request.rawValue)")
                #expect(seen.isGone)
                #expect(seen.stuckAfterwards == [])
            }
        }

        @Test(
            "A harmless signal does not make a waiting open fail", arguments: ["SIGCHLD", "SIGURG"],
            [Request.reading, .rewriting])
        func aHarmlessSignalDoesNotFailAnOpen(name: String, request: Request) throws {
            let signal = name == "SIGURG" ? SIGURG : SIGCHLD
            try Self.withWaiter(request, catching: name) { mount, holder, waiter in
                let watch = Watch(of: waiter.program, beside: [])
                for _ in 0..<3 { #expect(try !watch.send(signal, for: .milliseconds(100)).isGone) }
                try Self.finish(request, mount, holder, waiter)
            }
        }

        @Test("Stopping and continuing a program does not make its waiting open fail")
        func stopAndContinueDoNotFailAnOpen() throws {
            try Self.withWaiter(.reading) { mount, holder, waiter in
                let watch = Watch(of: waiter.program, beside: [])
                #expect(try !watch.send(SIGSTOP, for: .milliseconds(150)).isGone)
                #expect(try !watch.send(SIGCONT, for: .milliseconds(150)).isGone)
                try Self.finish(.reading, mount, holder, waiter)
            }
        }

        /// Checks that the waiting program still waits, and that its request is granted when the holder ends.
        static func finish(
            _ request: Request, _ mount: MountedDirectory, _ holder: ScriptedProcess,
            _ waiter: ScriptedProcess
        )
            throws
        {
            #expect(!waiter.isDone)
            try holder.must("write", "h", "new")
            try holder.must("close", "h")
            #expect(try waiter.answer() == (request == .reading ? "ok new" : "ok"))
            #expect(try mount.counters.interrupted == 0)
        }

        /// Makes a mount in which a program holds a document and another program waits for the document, for up to a minute.
        static func withWaiter(
            _ request: Request, catching signal: String? = nil,
            _ body: (_ mount: MountedDirectory, _ holder: ScriptedProcess, _ waiter: ScriptedProcess) throws
                -> Void
        ) throws {
            let prepare = { (source: String) in
                try FileContents.write("old\n", to: source + "/document")
                try FileContents.write("other\n", to: source + "/other")
            }
            try MountedDirectory.with("wait=60s,hold=60s,idle=60s", prepare: prepare) { mount in
                let document = mount.path + "/document"
                let holder = try ScriptedProcess()
                try holder.must("open", "h", document, "O_WRONLY|O_TRUNC")
                let waiter = try ScriptedProcess()
                if let signal { try waiter.must("catch", signal) }
                switch request {
                case .reading: try waiter.tell("read", document)
                case .rewriting: try waiter.tell("open", "w", document, "O_WRONLY|O_TRUNC")
                case .truncating: try waiter.tell("truncate", document, "1")
                }
                try mount.waitUntilParked(waiter.pid)
                try body(mount, holder, waiter)
                try holder.program.end()
                if !waiter.program.hasEnded { try waiter.program.end() }
                let status = try mount.status()
                #expect(status.counters.waited == 1)
                checkForcedSteps(status)
            }
        }
    }
}

/// After a signal, observes the program and the daemon every 10 ms until the program has ended.
struct Watch {
    let program: RunningProgram
    let others: [pid_t]

    init(of program: RunningProgram, beside others: [pid_t]) {
        self.program = program
        self.others = others
    }

    struct SignalResponse {
        var isGone = false
        var took = Duration.zero
        /// How many samples showed the program in each process state.
        var states: [String: Int] = [:]
        /// The processes that were in state D (uninterruptible sleep) after the program had ended.
        var stuckAfterwards: [String] = []

        func report(_ what: String) {
            let states = states.sorted { $0.key < $1.key }.map { "\($0.value) × \($0.key)" }
            print(
                "\(what): gone after \(took.milliseconds) ms, seen in state \(states.joined(separator: ", "))"
            )
        }
    }

    /// Sends a signal to the program and watches the program: for the time `span`; if `span` is nil, until the program has
    /// ended, at most 10 s.
    func send(_ signal: Int32, for span: Duration? = nil) throws -> SignalResponse {
        let clock = ContinuousClock()
        let began = clock.now
        var seen = SignalResponse()
        program.send(signal)
        while !program.hasEnded, began.duration(to: clock.now) < span ?? .seconds(10) {
            seen.states[
                ProcessStatus(of: program.pid)?["State"].map { String($0.prefix(1)) } ?? "-", default: 0] += 1
            usleep(10_000)
            // @sleep: the interval between two samples.
        }
        seen.took = began.duration(to: clock.now)
        seen.isGone = program.hasEnded
        guard seen.isGone else { return seen }
        for _ in 0..<20 {
            seen.stuckAfterwards += stuck()
            usleep(10_000)
            // @sleep: the interval between two samples.
        }
        return seen
    }

    private func stuck() -> [String] {
        ([program.pid] + others).filter { ProcessStatus(of: $0)?["State"]?.hasPrefix("D") ?? false }.map {
            "\($0)"
        }
    }
}
