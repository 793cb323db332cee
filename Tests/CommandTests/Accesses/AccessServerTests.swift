// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine
import Glibc
import LinuxSystem
import Testing

import func TestSupport.eventually

/// Protocol.md, `access/begin`, `access/end`, `why` and `ps`, tested on a real socket with a real engine.
@Suite(.serialized)
struct AccessServerTests {
    @Test("`why` explains a waiting access, which is granted when the writer's access ends")
    func whyExplainsAWaitingAccess() throws {
        try withServer { server in
            let writer = try AwareProgram(server)
            let held: AccessBeginResult = try writer.reply(to: try writer.begin("a", .write(.forMerging)))
            let reader = try AwareProgram(server)
            let begin = try reader.begin("a", .read())
            try eventually(within: .seconds(10), "the reader to wait") {
                server.engine.snapshot(of: nil).claims.contains { $0.state == .waiting }
            }
            let snapshot: CoordinationSnapshotForm = try writer.call(
                .why(WhyParameters(path: Array("a".utf8))))
            #expect(snapshot.claims.map(\.state) == ["held", "waiting"])
            #expect(snapshot.claims.map(\.access) == ["forMerging", "read"])
            #expect(snapshot.claims.map(\.path) == ["a", "a"])
            #expect(snapshot.claims.first?.claim == held.access)
            #expect(snapshot.claims.last?.reasons.count == 1)
            let other: CoordinationSnapshotForm = try writer.call(.why(WhyParameters(path: Array("b".utf8))))
            #expect(other.claims.isEmpty)
            let all: CoordinationSnapshotForm = try writer.call(.ps)
            #expect(all.claims.map(\.state) == ["held", "waiting"])
            try writer.end(held)
            let _: AccessBeginResult = try reader.reply(to: begin)
            #expect(
                try writer.failure(of: .endAccess(AccessEndParameters(access: held.access)))?.code == -32004)
        }
    }

    @Test("accesses with the same purpose or presenter do not wait for each other; other accesses do")
    func accessesOfOnePurposeOrPresenterDoNotWaitForEachOther() throws {
        try withServer { server in
            let one = try AwareProgram(server)
            let other = try AwareProgram(server)
            let write = Access.write(.updating)
            let _: AccessBeginResult = try one.reply(to: try one.begin("a", write, as: .purpose("p")))
            let _: AccessBeginResult = try other.reply(to: try other.begin("a", write, as: .purpose("p")))
            let presenter = try one.register("b")
            let mine = AccessBeginParameters.Identity.presenter(presenter)
            let first: AccessBeginResult = try one.reply(to: try one.begin("b", write, as: mine))
            let second: AccessBeginResult = try one.reply(to: try one.begin("b", write, as: mine))
            // A request on the same connection without a purpose counts as a request of another program.
            let third = try one.begin("b", .read())
            #expect(try other.failure(of: try other.begin("b", .read(), as: mine))?.code == -32004)
            // The presenter was not asked about the access of its own program.
            #expect(try one.unread() == [])
            try one.end(first)
            try one.end(second)
            try one.answer(.relinquishToReader)
            try one.answer(.save)
            let _: AccessBeginResult = try one.reply(to: third)
        }
    }

    @Test("a client may preserve a file only within its own write access, and once in each access")
    func anAccessMayPreserveEachFileOnce() throws {
        try withServer { server in
            let (editor, other) = (try AwareProgram(server), try AwareProgram(server))
            func keep(_ path: String, _ program: AwareProgram) throws -> ControlProtocol.ProtocolFailure? {
                try program.failure(of: .preserveVersion(PreserveParameters(path: Array(path.utf8))))
            }
            #expect(try keep("a", editor)?.code == -32001)
            let read: AccessBeginResult = try editor.reply(to: try editor.begin("a", .read()))
            #expect(try keep("a", editor)?.code == -32001)
            try editor.end(read)
            for _ in 0..<2 {
                let access: AccessBeginResult = try editor.reply(
                    to: try editor.begin("a", .write(.forMerging)))
                #expect(try keep("b", editor)?.code == -32001)
                #expect(try keep("a", other)?.code == -32001)
                let kept: PreserveResult = try editor.call(
                    .preserveVersion(PreserveParameters(path: Array("a".utf8))))
                #expect(kept.id == "0123456789abcdef")
                #expect(try keep("a", editor)?.code == -32001)
                try editor.end(access)
                #expect(try keep("a", editor)?.code == -32001)
            }
            // A request that still waits is no access, so `access/end` refuses it.
            let held: AccessBeginResult = try other.reply(to: try other.begin("a", .write(.updating)))
            let waiting = try editor.begin("a", .write(.forMerging))
            try eventually(within: .seconds(10), "the editor to wait") {
                server.engine.snapshot(of: nil).claims.contains { $0.state == .waiting }
            }
            #expect(try keep("a", editor)?.code == -32001)
            try other.end(held)
            let access: AccessBeginResult = try editor.reply(to: waiting)
            try editor.end(access)
        }
    }

    @Test("a waiting access can be cancelled, and its request then gets an error as the reply")
    func theRequestOfACancelledWaitingAccessGetsAnError() throws {
        try withServer { server in
            let writer = try AwareProgram(server)
            let held: AccessBeginResult = try writer.reply(to: try writer.begin("a", .write(.updating)))
            let reader = try AwareProgram(server)
            let begin = try reader.begin("a", .read())
            try reader.write(NotificationMessage(.cancel(begin)))
            try reader.write(NotificationMessage(.cancel(begin)))
            try reader.write(NotificationMessage(.cancel(.text("nothing"))))
            #expect(try reader.failure(of: begin)?.code == -32800)
            try writer.end(held)
            // Only a request that waits can be cancelled. An access that is already held is ended by `access/end`.
            let again = try reader.begin("a", .read())
            let access: AccessBeginResult = try reader.reply(to: again)
            try reader.write(NotificationMessage(.cancel(again)))
            try reader.end(access)
            let all: CoordinationSnapshotForm = try reader.call(.ps)
            #expect(all.claims.isEmpty)
        }
    }

    @Test("the error of an access that timed out names the programs that held the item")
    func theErrorOfATimedOutAccessNamesTheHolders() throws {
        var bounds = Bounds()
        bounds.wait = .milliseconds(50)
        try withServer(bounds: bounds) { server in
            let writer = try AwareProgram(server)
            let held: AccessBeginResult = try writer.reply(to: try writer.begin("a", .write(.updating)))
            let reader = try AwareProgram(server)
            let failure = try #require(try reader.failure(of: try reader.begin("a", .read())))
            #expect(failure.code == -32006)
            #expect(failure.data?.holders?.count == 1)
            #expect(failure.message.contains(failure.data?.holders?.first?.program ?? "?"))
            try writer.end(held)
        }
    }

    @Test("an access to two items gets both items at the same time, or neither")
    func anAccessToTwoItemsGetsBothItemsOrNeither() throws {
        try withServer { server in
            let mover = try AwareProgram(server)
            let (from, to) = (Array("a".utf8), Array("b".utf8))
            let intents = [IntentForm(from, .write(.forMoving)), IntentForm(to, .write(.forReplacing))]
            let access: AccessBeginResult = try mover.call(.beginAccess(AccessBeginParameters(intents)))
            #expect(access.intents == intents)
            let other = try AwareProgram(server)
            let waits = try other.begin("b", .read())
            try mover.end(access)
            let _: AccessBeginResult = try other.reply(to: waits)
            let missing = AccessBeginParameters([
                IntentForm(from, .read()), IntentForm(Array("missing/x".utf8), .read()),
            ])
            #expect(try mover.failure(of: .beginAccess(missing))?.code == -32004)
        }
    }

    @Test("a connection may have 1,024 accesses at once; the next access is refused")
    func aConnectionMayHave1024Accesses() throws {
        try withServer { server in
            let program = try AwareProgram(server)
            var last: AccessBeginResult?
            for _ in 0..<ProtocolLimits.accesses {
                last = try program.reply(to: try program.begin("a", .read()))
            }
            #expect(try program.failure(of: try program.begin("a", .read()))?.code == -32005)
            try program.end(try #require(last))
            let _: AccessBeginResult = try program.reply(to: try program.begin("a", .read()))
        }
    }

    @Test("when a connection closes, its held and waiting accesses end")
    func aClosedConnectionEndsItsAccesses() throws {
        try withServer { server in
            let patient = try AwareProgram(server)
            let begin: MessageID
            do {
                let writer = try AwareProgram(server)
                let _: AccessBeginResult = try writer.reply(to: try writer.begin("a", .write(.updating)))
                begin = try patient.begin("a", .write(.updating))
                let impatient = try AwareProgram(server)
                _ = try impatient.begin("a", .read())
                try eventually(within: .seconds(10), "two to wait") {
                    server.engine.snapshot(of: nil).claims.filter { $0.state == .waiting }.count == 2
                }
            }
            let _: AccessBeginResult = try patient.reply(to: begin)
            try eventually(within: .seconds(10), "the others to be forgotten") {
                server.engine.snapshot(of: nil).claims.count == 1 && server.documents.finders == 1
            }
        }
    }

    @Test(
        "a waiting reader is granted when the writer ends its access and then immediately closes its connection"
    )
    func aWaitingReaderIsGrantedWhenTheWriterClosesItsConnection() throws {
        try withServer { server in
            let writer = try AwareProgram(server)
            let held: AccessBeginResult = try writer.reply(to: try writer.begin("a", .write(.updating)))
            let reader = try AwareProgram(server)
            let begin = try Self.wait(reader, for: "a", on: server)
            _ = try writer.send(.endAccess(AccessEndParameters(access: held.access)))
            try writer.breakOff()
            // The reader must get its grant now, because no later event would cause the server to send it.
            let access: AccessBeginResult = try reader.reply(to: begin)
            try reader.end(access)
        }
    }

    @Test("requests in a closed connection's queue are dropped, except the announcement of a finished move")
    func queuedRequestsOfAClosedConnectionAreDropped() throws {
        try withServer { server in
            let gone = try AwareProgram(server)
            let held: AccessBeginResult = try gone.reply(to: try gone.begin("a", .write(.forMoving)))
            _ = try gone.begin("slow/x", .read())
            try #require(server.documents.gate.isReached())
            _ = try gone.begin("far/1", .read())
            _ = try gone.send(.register(RegisterParameters(path: Array("far/2".utf8), messages: .all)))
            let move = MoveParameters(access: held.access, from: Array("a".utf8), to: Array("b".utf8))
            _ = try gone.send(.didMove(move))
            try gone.breakOff()
            server.documents.gate.open()
            try eventually(within: .seconds(10), "the end of its accesses") {
                server.engine.snapshot(of: nil).claims.isEmpty
            }
            #expect(server.documents.soughtPaths == ["a", "slow/x"])
            #expect(server.documents.movedPaths == ["b"])
        }
    }

    @Test("a closed connection's accesses end, even if its last request is still blocked in a file system")
    func aBlockedRequestDoesNotProlongAClosedConnectionsAccesses() throws {
        try withServer { server in
            let gone = try AwareProgram(server)
            let _: AccessBeginResult = try gone.reply(to: try gone.begin("a", .write(.updating)))
            let reader = try AwareProgram(server)
            let begin = try Self.wait(reader, for: "a", on: server)
            _ = try gone.begin("slow/x", .read())
            try #require(server.documents.gate.isReached())
            let clock = ContinuousClock()
            let end = clock.now
            try gone.breakOff()
            let access: AccessBeginResult = try reader.reply(to: begin)
            print("granted \(end.duration(to: clock.now)) after the end of who held it (bound 1 s)")
            #expect(end.duration(to: clock.now) < .seconds(11))
            try reader.end(access)
            server.documents.gate.open()
        }
    }

    @Test("a `why` request that is blocked in a file system does not delay another client's request")
    func aBlockedWhyRequestDelaysNoOtherClient() throws {
        try withServer { server in
            let (kept, other) = (try AwareProgram(server), try AwareProgram(server))
            let why = try kept.send(.why(WhyParameters(path: Array("slow/x".utf8))))
            try #require(server.documents.gate.isReached())
            let all: CoordinationSnapshotForm = try other.call(.ps)
            #expect(all.claims.isEmpty)
            server.documents.gate.open()
            #expect(try kept.failure(of: why)?.code == -32004)
        }
    }

    @Test("a server that is ending refuses new connections, even while a file system blocks a request")
    func anEndingServerRefusesConnections() throws {
        let documents = FakeDocuments()
        let seen = ServerLog()
        try withServer(documents: documents) { server in
            let kept = try AwareProgram(server)
            _ = try kept.send(.why(WhyParameters(path: Array("slow/x".utf8))))
            try #require(documents.gate.isReached())
            // This thread connects while the server ends, and then waits for the gate.
            try JoinableThread {
                do {
                    try eventually(within: .seconds(20), "a connection to be refused") {
                        Self.isRefused(server)
                    }
                    seen.append("refused")
                } catch {
                    seen.append("\(error)")
                }
                documents.gate.open()
            }.detach()
        }
        #expect(seen.lines == ["refused"])
    }

    private static func isRefused(_ server: RunningServer) -> Bool {
        do {
            _ = try UnixSocket.connect(to: Array(server.path.utf8), timeout: 1)
            return false
        } catch {
            return error == .connectionRefused
        }
    }

    /// Begins an access to a file that another program holds, and returns when the access waits.
    private static func wait(
        _ program: AwareProgram, for path: String, on server: RunningServer
    ) throws -> MessageID {
        let begin = try program.begin(path, .read())
        try eventually(within: .seconds(10), "somebody to wait for \(path)") {
            server.engine.snapshot(of: nil).claims.contains { $0.state == .waiting }
        }
        return begin
    }

    @Test("when the server stops, all held and waiting accesses and all presenters end")
    func aStoppedServerEndsAllAccesses() throws {
        var kept: [AwareProgram] = []
        try withServer { server in
            let writer = try AwareProgram(server)
            _ = try writer.register("a", [])
            let _: AccessBeginResult = try writer.reply(to: try writer.begin("a", .write(.updating)))
            let reader = try AwareProgram(server)
            _ = try reader.begin("a", .read())
            _ = try reader.send(.register(RegisterParameters(path: Array("b".utf8), messages: .all)))
            kept += [writer, reader]
        }
        #expect(kept.count == 2)
    }
}
