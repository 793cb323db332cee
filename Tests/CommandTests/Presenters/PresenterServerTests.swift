// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine
import Glibc
import LinuxSystem
import Testing

import func TestSupport.eventually

/// Checks requests and notices to a client (Protocol.md), on a real socket with a real engine. The claims are on files that do
/// not exist.
@Suite(.serialized)
struct PresenterServerTests {
    /// If `again` is true, the reader's connection has already had an access before the tested access. A path in `far` is
    /// looked up on another thread.
    @Test(
        "a reader is granted after the presenter relinquished and saved; after the read the presenter may reacquire",
        arguments: [("a/notes", false), ("a/notes", true), ("far/notes", true)])
    func aReaderMakesThePresenterRelinquishAndSave(path: String, again: Bool) throws {
        try withServer { server in
            let editor = try AwareProgram(server)
            let presenter = try editor.register(path)
            let reader = try AwareProgram(server)
            if again { try reader.end(try reader.reply(to: try reader.begin("b", .read()))) }
            let begin = try reader.begin(path, .read())
            let first = try editor.answer(.relinquishToReader).parameters
            #expect(first.presenter == presenter)
            #expect(first.path == path)
            #expect(first.cause.operation == "read")
            #expect(first.cause.program.hasPrefix("program-"))
            #expect(first.cause.user == 7)
            #expect(first.deadline > 4000 && first.deadline <= 5000)
            #expect(try editor.answer(.save).parameters.turn == first.turn)
            let access: AccessBeginResult = try reader.reply(to: begin)
            #expect(access.intents == [IntentForm(Array(path.utf8), .read())])
            try reader.end(access)
            let noticeMessage = try editor.nextNotice()
            #expect(noticeMessage.notice == .reacquire)
            #expect(noticeMessage.parameters.turn == first.turn)
            #expect(noticeMessage.parameters.sequence == 1)
            #expect(try editor.unread() == [])
        }
    }

    @Test("all presenters of an item are asked at the same time: no presenter waits for another's answer")
    func allPresentersOfAnItemAreAskedAtTheSameTime() throws {
        try withServer { server in
            let editors = try (0..<10).map { _ in
                let editor = try AwareProgram(server)
                _ = try editor.register("a", [.relinquishToReader])
                return editor
            }
            let reader = try AwareProgram(server)
            let begin = try reader.begin("a", .read())
            let asked = try editors.map { try $0.nextQuestion().id }
            for (editor, question) in zip(editors, asked).reversed() {
                #expect(try reader.unread() == [])
                try editor.write(AnswerMessage(to: question))
            }
            let access: AccessBeginResult = try reader.reply(to: begin)
            try reader.end(access)
        }
    }

    @Test("a presenter gets no question that it does not implement, and counts as consenting")
    func aPresenterConsentsToAQuestionThatItDoesNotImplement() throws {
        try withServer { server in
            let editor = try AwareProgram(server)
            _ = try editor.register("a", [.didChange])
            let reader = try AwareProgram(server)
            let access: AccessBeginResult = try reader.reply(to: try reader.begin("a", .read()))
            try reader.end(access)
            #expect(try editor.unread() == [])
        }
    }

    @Test(
        "if a presenter answers a question with an error, the access fails with this error and the presenter's name"
    )
    func aPresentersErrorRefusesTheAccess() throws {
        try withServer { server in
            let editor = try AwareProgram(server)
            _ = try editor.register("a")
            let reader = try AwareProgram(server)
            let begin = try reader.begin("a", .read())
            try editor.answer(.relinquishToReader)
            try editor.answer(.save, refusing: "the disk\nis full")
            let failure = try #require(try reader.failure(of: begin))
            #expect(failure.code == -32007)
            #expect(failure.message.contains("the disk is full"))
            #expect(failure.data?.holders?.count == 1)
            #expect(failure.data?.holders?.first?.program.hasPrefix("program-") == true)
            #expect(try editor.nextNotice().notice == .reacquire)
        }
    }

    @Test("if a presenter's connection closes, its missing answer counts as consent")
    func aClosedConnectionCountsAsConsent() throws {
        try withServer { server in
            let reader = try AwareProgram(server)
            let begin: MessageID
            do {
                let editor = try AwareProgram(server)
                _ = try editor.register("a")
                begin = try reader.begin("a", .write(.forDeleting))
                _ = try editor.nextQuestion()
            }
            let access: AccessBeginResult = try reader.reply(to: begin)
            try reader.end(access)
        }
    }

    @Test(
        "a removed presenter blocks no reader and gets no message, and requests with its number are refused")
    func aRemovedPresenterBlocksNoReader() throws {
        try withServer { server in
            let editor = try AwareProgram(server)
            let presenter = try editor.register("a")
            let reader = try AwareProgram(server)
            let begin = try reader.begin("a", .read())
            _ = try editor.nextQuestion()
            let _: EmptyResult = try editor.call(.remove(RemoveParameters(presenter: presenter)))
            let access: AccessBeginResult = try reader.reply(to: begin)
            try reader.end(access)
            #expect(try editor.unread() == [])
            #expect(try editor.failure(of: .remove(RemoveParameters(presenter: presenter)))?.code == -32004)
            let other = try AwareProgram(server)
            let foreign = try other.register("b")
            #expect(try editor.failure(of: .remove(RemoveParameters(presenter: foreign)))?.code == -32004)
        }
    }

    @Test("late, repeated and unexpected answers change nothing and are logged once")
    func unexpectedAnswersOfPresentersChangeNothing() throws {
        var bounds = Bounds()
        bounds.relinquish = .milliseconds(50)
        bounds.save = .milliseconds(50)
        let log = try withServer(bounds: bounds) { server in
            let editor = try AwareProgram(server)
            _ = try editor.register("a", [.relinquishToReader, .reacquire])
            let reader = try AwareProgram(server)
            let begin = try reader.begin("a", .read())
            let (late, _) = try editor.nextQuestion()
            // The reader is granted when the presenter's time to answer has run out.
            let access: AccessBeginResult = try reader.reply(to: begin)
            try editor.write(AnswerMessage(to: late))
            try editor.write(AnswerMessage(to: late))
            try editor.write(AnswerMessage(to: .number(4711)))
            try editor.write(AnswerMessage(to: .text("x"), failure: ProtocolFailure(code: 1, message: "no")))
            try editor.write(NotificationMessage(.progress(.number(4711))))
            try editor.client.send(#"{"jsonrpc":"2.0","id":null,"error":null}"# + "\n")
            try editor.client.send(#"{"jsonrpc":"2.0","id":[1],"error":7}"# + "\n")
            try reader.end(access)
            #expect(try editor.nextNotice().notice == .reacquire)
        }
        #expect(log.filter { $0.contains("a question that it was not asked") }.count == 1)
    }

    @Test("a presenter that reports progress may answer after its original deadline")
    func progressExtendsThePresentersDeadline() throws {
        var bounds = Bounds()
        bounds.save = .milliseconds(400)
        try withServer(bounds: bounds) { server in
            let editor = try AwareProgram(server)
            _ = try editor.register("a", [.save])
            let reader = try AwareProgram(server)
            let begin = try reader.begin("a", .read())
            let (id, _) = try editor.nextQuestion()
            let began = Engine.now
            while Engine.now.since(began) < .milliseconds(600) {
                try editor.write(NotificationMessage(.progress(id)))
                // Each round waits for a reply of the server. So the client and the server both send messages while the 400 ms
                // pass.
                #expect(try editor.unread() == [])
            }
            try editor.write(AnswerMessage(to: id, failure: ProtocolFailure(code: 1, message: "after all")))
            #expect(try reader.failure(of: begin)?.code == -32007)
        }
    }

    @Test("a document counts as unsaved while a connected presenter that can save reports unsaved changes")
    func aPresenterReportsUnsavedChanges() throws {
        try withServer { server in
            let editor = try AwareProgram(server)
            let (able, unable) = (try editor.register("a", [.save]), try editor.register("b", [.didChange]))
            let (item, other) = (server.documents.document("a").item, server.documents.document("b").item)
            func tell(_ presenter: UInt64, _ isUnsaved: Bool, by program: AwareProgram) throws {
                let parameters = UnsavedParameters(presenter: presenter, isUnsaved: isUnsaved)
                try program.write(NotificationMessage(.unsaved(parameters)))
                // The server handles messages in order, so after this reply it has handled the notification.
                let _: CoordinationSnapshotForm = try program.call(.ps)
            }
            #expect(!server.engine.isAnythingUnsaved)
            let stranger = try AwareProgram(server)
            try tell(able, true, by: stranger)
            try tell(unable, true, by: editor)
            #expect(!server.engine.isAnythingUnsaved)
            try tell(able, true, by: editor)
            try tell(able, true, by: editor)
            #expect(server.engine.isUnsaved(item) && !server.engine.isUnsaved(other))
            let snapshot: CoordinationSnapshotForm = try editor.call(.ps)
            #expect(snapshot.presenters.map(\.isUnsaved) == [true, false])
            try tell(able, false, by: editor)
            #expect(!server.engine.isAnythingUnsaved)
            try tell(able, true, by: editor)
            let _: EmptyResult = try editor.call(.remove(RemoveParameters(presenter: able)))
            #expect(!server.engine.isAnythingUnsaved)
            do {
                let leaving = try AwareProgram(server)
                try tell(try leaving.register("a", [.save]), true, by: leaving)
                #expect(server.engine.isUnsaved(item))
            }
            try eventually(within: .seconds(10), "the end of the connection") {
                !server.engine.isAnythingUnsaved
            }
        }
    }

    @Test(
        "the notice of a move contains the old and the new path; a move back to the old path sends no notice")
    func theNoticeOfAMoveContainsTheOldAndTheNewPath() throws {
        try withServer { server in
            let editor = try AwareProgram(server)
            _ = try editor.register("a", [.didMove])
            let document = server.documents.document("a")
            document.move(to: "b/c")
            server.engine.noteMove(of: document.item, Move(), by: .nobody)
            let noticeMessage = try editor.nextNotice().parameters
            #expect((noticeMessage.path, noticeMessage.newPath) == ("a", "b/c"))
            #expect(noticeMessage.cause.pid == 0)
            server.engine.noteMove(of: document.item, Move(), by: .nobody)
            document.move(to: "d")
            document.move(to: "b/c")
            server.engine.noteMove(
                of: document.item, Move(),
                by: Party(process: ProcessID(number: 1, started: 1), ancestors: []))
            try eventually(within: .seconds(10), "the turns to end") {
                server.engine.journal.entries.filter { $0.step == .told }.count >= 2
            }
            #expect(try editor.unread() == [])
        }
    }

    @Test("registrations with invalid paths, and registrations above the limit, are refused")
    func invalidRegistrationsAreRefused() throws {
        try withServer { server in
            let editor = try AwareProgram(server)
            func code(_ path: String) throws -> Int? {
                try editor.failure(of: .register(RegisterParameters(path: Array(path.utf8), messages: [])))?
                    .code
            }
            #expect(try code("missing/a") == -32004)
            #expect(try code("closed/a") == -32001)
            #expect(try code(".truce/x") == -32001)
            #expect(try code("../x") == -32602)
            #expect(try code("a\0b") == -32602)
            for _ in 0..<ProtocolLimits.presenters { _ = try editor.register("a", []) }
            #expect(try code("a") == -32005)
        }
    }

    @Test("a client gets and answers questions while all its accesses wait")
    func questionsAreAnsweredWhileAccessesWait() throws {
        try withServer { server in
            let holder = try AwareProgram(server)
            let held: AccessBeginResult = try holder.reply(to: try holder.begin("x", .write(.updating)))
            let editor = try AwareProgram(server)
            _ = try editor.register("a", [.relinquishToReader])
            let waiting = try (0..<ProtocolLimits.accesses).map { _ in try editor.begin("x", .read()) }
            let queued = try editor.send(.ps)
            let reader = try AwareProgram(server)
            let begin = try reader.begin("a", .read())
            try editor.answer(.relinquishToReader)
            let access: AccessBeginResult = try reader.reply(to: begin)
            try reader.end(access)
            try editor.write(NotificationMessage(.cancel(waiting[3])))
            #expect(try editor.failure(of: waiting[3])?.code == -32800)
            let _: CoordinationSnapshotForm = try editor.reply(to: queued)
            try holder.end(held)
            for (index, id) in waiting.enumerated() where index != 3 {
                let _: AccessBeginResult = try editor.reply(to: id)
            }
        }
    }
}
