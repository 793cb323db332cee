// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine
import Glibc
import LinuxSystem
import Testing

import func TestSupport.eventually

/// Protocol.md, `run/begin` and `run/end`, tested on a real socket with a real engine.
@Suite(.serialized)
struct RunServerTests {
    @Test("a run lasts until `run/end`, and then the program has no such run")
    func aRunLastsUntilItsEnd() throws {
        try withServer { server in
            let program = try AwareProgram(server)
            let first: RunBeginResult = try program.call(
                .beginRun(RunBeginParameters(name: "a", write: ["d/**"])))
            let second: RunBeginResult = try program.call(.beginRun(RunBeginParameters(name: "b")))
            #expect(first.run != second.run)
            #expect(first.token != second.token)
            #expect(first.token.utf8.count == 32)
            let reports = server.engine.runs.reports
            #expect(reports.map(\.run.name) == ["a", "b"])
            #expect(reports.map(\.user) == [geteuid(), geteuid()])
            let _: EmptyResult = try program.call(.endRun(RunEndParameters(run: first.run)))
            #expect(server.engine.runs.reports.map(\.run.name) == ["b"])
            #expect(try program.failure(of: .endRun(RunEndParameters(run: first.run)))?.code == -32004)
            let other = try AwareProgram(server)
            #expect(try other.failure(of: .endRun(RunEndParameters(run: second.run)))?.code == -32004)
        }
    }

    @Test("when a connection ends, its runs end, and a waiting run begins")
    func aRunEndsWithItsConnection() throws {
        try withServer { server in
            let second = try AwareProgram(server)
            let waiting = try { () throws -> MessageID in
                let first = try AwareProgram(server)
                let _: RunBeginResult = try first.call(
                    .beginRun(RunBeginParameters(name: "a", write: ["**"])))
                let waiting = try second.send(.beginRun(RunBeginParameters(name: "b", read: ["x"])))
                try eventually(within: .seconds(10), "the second run to wait") {
                    server.engine.runs.reports.map(\.isWaiting) == [false, true]
                }
                try first.breakOff()
                return waiting
            }()
            let begun: RunBeginResult = try second.reply(to: waiting)
            #expect(server.engine.runs.reports.map(\.run.number) == [begun.run])
        }
    }

    @Test("a waiting run can be cancelled")
    func aWaitingRunIsCancelled() throws {
        try withServer { server in
            let (first, second) = (try AwareProgram(server), try AwareProgram(server))
            let _: RunBeginResult = try first.call(.beginRun(RunBeginParameters(name: "a", write: ["**"])))
            let waiting = try second.send(.beginRun(RunBeginParameters(name: "b", write: ["x"])))
            try eventually(within: .seconds(10), "the second run to wait") {
                server.engine.runs.reports.map(\.isWaiting) == [false, true]
            }
            // The event loop knows the number of the run when it has served a later request of the same lane.
            _ = try second.register("y")
            try second.write(NotificationMessage(.cancel(waiting)))
            #expect(try second.failure(of: waiting)?.code == -32800)
            try eventually(within: .seconds(10), "the end of the second run") {
                server.engine.runs.reports.map(\.run.name) == ["a"]
            }
        }
    }

    @Test("a wrong glob is refused with its reason, and no run begins")
    func aWrongGlobIsRefused() throws {
        try withServer { server in
            let program = try AwareProgram(server)
            let failure = try program.failure(
                of: .beginRun(RunBeginParameters(name: "a", write: ["a", "[b"])))
            #expect(failure?.code == -32602)
            #expect(failure?.message.contains("the glob '[b' has '[' without ']'") ?? false)
            #expect(server.engine.runs.reports.isEmpty)
        }
    }

    @Test("a connection has a limited number of runs")
    func aConnectionHasALimitedNumberOfRuns() throws {
        try withServer { server in
            let program = try AwareProgram(server)
            for _ in 0..<ProtocolLimits.runs {
                let _: RunBeginResult = try program.call(.beginRun(RunBeginParameters(name: "a")))
            }
            #expect(try program.failure(of: .beginRun(RunBeginParameters(name: "a")))?.code == -32005)
        }
    }

    @Test("the client is told that its leases are suspended")
    func theClientIsToldOfASuspension() throws {
        var bounds = Bounds()
        bounds.holdAware = .milliseconds(20)
        try withServer(bounds: bounds) { server in
            let (first, second) = (try AwareProgram(server), try AwareProgram(server))
            let run: RunBeginResult = try first.call(.beginRun(RunBeginParameters(name: "a", write: ["**"])))
            let _: RunBeginResult = try second.call(.beginRun(RunBeginParameters(name: "b", write: ["x"])))
            let suspended = RunSuspendedForm(
                run: run.run, reason: "holdExpired", words: LeaseSuspension.holdExpired.words)
            #expect(try first.unread() == [.runSuspended(suspended)])
        }
    }
}
