// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine
import Glibc
import Testing

import func TestSupport.eventually

/// Protocol.md, `access/begin` with all its options, and `access/prepare`, tested on a real socket.
@Suite(.serialized)
struct AccessOptionTests {
    @Test("a read with the option `withoutChanges` does not make presenters save")
    func aReadWithTheOptionWithoutChangesCausesNoSave() throws {
        try withServer { server in
            let editor = try AwareProgram(server)
            _ = try editor.register("a", [.relinquishToReader, .save])
            let reader = try AwareProgram(server)
            let plain = try reader.begin("a", .read())
            try editor.answer(.relinquishToReader)
            try editor.answer(.save)
            try reader.end(try reader.reply(to: plain))
            let access = Access.read([.withoutChanges, .immediatelyAvailableMetadataOnly])
            let spared = try reader.begin("a", access)
            try editor.answer(.relinquishToReader)
            let granted: AccessBeginResult = try reader.reply(to: spared)
            #expect(granted.intents.map(\.access) == [access])
            #expect(try editor.unread() == [])
            try reader.end(granted)
        }
    }

    @Test(
        "intents for one item are granted together, and the reply lists all intents in the order of the request"
    )
    func intentsForOneItemAreMergedAndReportedInOrder() throws {
        try withServer { server in
            let editor = try AwareProgram(server)
            _ = try editor.register("a", [.relinquishToReader, .relinquishToWriter, .save])
            let program = try AwareProgram(server)
            let intents = [("b", Access.read()), ("a", .read()), ("a", .write(.updating))].map {
                IntentForm(Array($0.0.utf8), $0.1)
            }
            let begin = try program.send(.beginAccess(AccessBeginParameters(intents)))
            // A claim to read asks presenters to save; a claim to write asks presenters to relinquish to a writer.
            try editor.answer(.relinquishToWriter)
            try editor.answer(.save)
            let access: AccessBeginResult = try program.reply(to: begin)
            #expect(access.intents == intents)
            #expect(server.engine.snapshot(of: nil).claims.first?.intents.count == 2)
            try program.end(access)
        }
    }

    static let pairs: [(Access, Access, Access?)] = [
        (.read(), .read(.withoutChanges), .read()),
        (.read(.withoutChanges), .read([.withoutChanges, .forUploading]), .read(.withoutChanges)),
        (.read(), .write(.updating), .write(.forMerging)),
        (.read(), .write(.contentIndependentMetadataOnly), .write(.forMerging)),
        (.read(.withoutChanges), .write(.updating), .write(.updating)),
        (.read(.withoutChanges), .write(.forDeleting), .write(.forDeleting)),
        (.read(), .write(.forDeleting), nil),
        (.write(.updating), .write(.forMerging), .write(.forMerging)),
        (.write(.updating), .write(.contentIndependentMetadataOnly), .write(.updating)),
        (.write(.updating), .write(.forMoving), .write(.forMoving)),
        (.write(.forMerging), .write(.forDeleting), nil),
        (.write(.forMoving), .write(.forReplacing), nil),
    ]

    @Test("two intents for one item become one access, or the request is refused", arguments: pairs)
    func twoIntentsForOneItemAreMergedOrRefused(one: Access, other: Access, both: Access?) throws {
        try withServer { server in
            for (first, second) in [(one, other), (other, one)] {
                let program = try AwareProgram(server)
                let intents = [IntentForm([0x61], first), IntentForm([0x61], second)]
                let request = ControlProtocol.ClientRequest.beginAccess(AccessBeginParameters(intents))
                guard let both else {
                    let failure = try #require(try program.failure(of: request))
                    #expect(failure.code == -32602)
                    #expect(failure.message.contains("within"))
                    continue
                }
                let access: AccessBeginResult = try program.call(request)
                #expect(server.engine.snapshot(of: nil).claims.map { $0.intents.map(\.access) } == [[both]])
                try program.end(access)
            }
        }
    }

    @Test(
        "a request to prepare accesses asks each presenter once and blocks no program; later presenters may reacquire"
    )
    func aRequestToPrepareAccessesAsksPresentersOnce() throws {
        try withServer { server in
            let editor = try AwareProgram(server)
            _ = try editor.register("a", [.relinquishToReader, .save, .reacquire])
            let copier = try AwareProgram(server)
            let mine = AccessBeginParameters.Identity.purpose("copy")
            let intents = ["a", "b"].map { IntentForm(Array($0.utf8), .read()) }
            let prepare = try copier.send(.prepareAccess(AccessBeginParameters(intents, as: mine)))
            try editor.answer(.relinquishToReader)
            try editor.answer(.save)
            let batch: AccessBeginResult = try copier.reply(to: prepare)
            // Another program may write the prepared items, because a request to prepare accesses locks no item (scenario 63).
            let other = try AwareProgram(server)
            try other.end(try other.reply(to: try other.begin("b", .write(.updating))))
            let nested: AccessBeginResult = try copier.reply(to: try copier.begin("a", .read(), as: mine))
            try copier.end(nested)
            #expect(try editor.unread() == [])
            try copier.end(batch)
            #expect(try editor.nextNotice().notice == .reacquire)
        }
    }

    @Test("an access that a presenter needs for its answer is refused if the asking program blocks it")
    func anAccessForAnAnswerIsRefusedIfTheAskingProgramBlocksIt() throws {
        try withServer { server in
            let editor = try AwareProgram(server)
            _ = try editor.register("a", [.save])
            let sync = try AwareProgram(server)
            let held: AccessBeginResult = try sync.reply(to: try sync.begin("index", .write(.updating)))
            var parameters = AccessBeginParameters([IntentForm([0x61], .read())])
            parameters.within = [held.access]
            let inner = try sync.send(.beginAccess(parameters))
            let (id, _) = try editor.nextQuestion()
            // The editor must read `index` before it can save. The sync program holds `index` until the editor has answered the
            // question.
            var wanted = AccessBeginParameters([IntentForm(Array("index".utf8), .read())])
            wanted.answering = id
            let failure = try #require(try editor.failure(of: .beginAccess(wanted)))
            #expect(failure.code == -32008)
            try editor.write(AnswerMessage(to: id))
            try sync.end(try sync.reply(to: inner))
            try sync.end(held)
            // After a question was answered or withdrawn, it blocks no access.
            try editor.end(try editor.reply(to: try editor.send(.beginAccess(wanted))))
            wanted.answering = .number(999)
            #expect(try editor.failure(of: .beginAccess(wanted))?.code == -32004)
            #expect(try sync.failure(of: .beginAccess(parameters))?.code == -32004)
        }
    }

    @Test("an access with the same purpose as a presenter does not ask this presenter")
    func anAccessWithAPresentersPurposeDoesNotAskThePresenter() throws {
        try withServer { server in
            let editor = try AwareProgram(server)
            let parameters = RegisterParameters(path: [0x61], messages: .all, purpose: "mine")
            let registered: RegisterResult = try editor.call(.register(parameters))
            #expect(registered.messages.count == PresenterMessages.all.names.count)
            let helper = try AwareProgram(server)
            let write = Access.write(.updating)
            try helper.end(try helper.reply(to: try helper.begin("a", write, as: .purpose("mine"))))
            #expect(try editor.unread() == [])
            let stranger = try AwareProgram(server)
            let begin = try stranger.begin("a", write, as: .purpose("other"))
            try editor.answer(.relinquishToWriter)
            try stranger.end(try stranger.reply(to: begin))
        }
    }

    @Test("an access on behalf of a process needs the right number and start time of the process")
    func anAccessOnBehalfOfAProcessNeedsItsStartTime() throws {
        try withServer { server in
            let program = try AwareProgram(server)
            var parameters = AccessBeginParameters([IntentForm([0x61], .read())])
            parameters.onBehalfOf = ProcessForm(pid: 77, started: 1)
            let access: AccessBeginResult = try program.call(.beginAccess(parameters))
            let actor = try #require(server.engine.snapshot(of: nil).claims.first?.actor)
            #expect(String(decoding: actor.program, as: UTF8.self).hasPrefix("program-"))
            try program.end(access)
            parameters.onBehalfOf = ProcessForm(pid: 77, started: 2)
            #expect(try program.failure(of: .beginAccess(parameters))?.code == -32004)
        }
    }

    @Test(
        "a client may have more waiting accesses than outstanding requests, and each access is granted later")
    func waitingAccessesDoNotCountAsOutstandingRequests() throws {
        try withServer { server in
            let editor = try AwareProgram(server)
            let holder = try AwareProgram(server)
            let held: AccessBeginResult = try holder.reply(to: try holder.begin("a", .write(.updating)))
            let count = 3 * ProtocolLimits.outstandingRequests
            let waiting = try (0..<count).map { _ in try editor.begin("a", .read()) }
            try eventually(within: .seconds(10), "\(count) accesses to wait") {
                server.engine.snapshot(of: nil).claims.count { $0.state == .waiting } == count
            }
            #expect(try editor.unread() == [])
            try holder.end(held)
            for begin in waiting { try editor.end(try editor.reply(to: begin)) }
        }
    }

    @Test("a client may announce a move only during the access that makes the move")
    func aClientMayAnnounceAMoveOnlyDuringTheAccessThatMakesTheMove() throws {
        try withServer { server in
            let program = try AwareProgram(server)
            let (from, to) = (Array("a".utf8), Array("b".utf8))
            let access: AccessBeginResult = try program.call(
                .beginAccess(
                    AccessBeginParameters([
                        IntentForm(from, .write(.forMoving)), IntentForm(to, .write(.forReplacing)),
                    ])))
            let move = MoveParameters(access: access.access, from: from, to: to)
            let _: EmptyResult = try program.call(.willMove(move))
            let _: EmptyResult = try program.call(.didMove(move))
            let stranger = MoveParameters(access: access.access, from: [0x63], to: [0x64])
            #expect(try program.failure(of: .didMove(stranger))?.code == -32602)
            try program.end(access)
            #expect(try program.failure(of: .didMove(move))?.code == -32004)
        }
    }
}
