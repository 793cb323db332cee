// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine
import Glibc
import LinuxSystem
import Testing

/// `truce read` and similar commands make accesses within an access of their parent process. The tests use a real socket and a
/// real engine.
@Suite(.serialized)
struct AccessIdentityTests {
    /// A program that opens `a` and has no presenter.
    private final class Command: Claimant {
        let party: Party

        init(below parent: Int32) {
            party = Party(
                process: ProcessID(number: 4711, started: 1),
                ancestors: [ProcessID(number: parent, started: 1)])
        }

        init(_ process: Int32) {
            party = Party(process: ProcessID(number: process, started: 1), ancestors: [])
        }

        var attribution: Attribution { Attribution(of: party) { Array("a".utf8) } }
        var intents: [Intent] { [Intent(.read()) { Array("a".utf8) }] }
        func identify() -> Party { party }
        func observe() -> Observation { .atEnd }
    }

    @Test("a command that reads a file during its parent's access does not make a presenter save")
    func aCommandThatReadsDuringItsParentsAccessCausesNoSave() throws {
        try withServer(documents: FakeDocuments(hasRealProcesses: true)) { server in
            let program = try AwareProgram(server)
            let access: AccessBeginResult = try program.reply(to: try program.begin("a", .read()))
            // The presenter registers after the access began. To save, the presenter would have to wait for this access.
            let mailbox = Mailbox {}
            let document = try server.documents.find(Array("a".utf8))
            let editor = server.engine.present(
                document, by: Party(process: ProcessID(number: 640, started: 1), ancestors: []),
                implementing: .all, in: mailbox)
            let command = Command(below: getpid())
            let request = Coordination.ClaimRequest(
                server.engine.makeClaimID(), .handle, Coordination.ClaimRequest.Part(document.item, .read()))
            if case .waiting = server.engine.claim(request, by: command) {
                server.engine.onDecision(request.claim) { _ in }
            }
            let asked = mailbox.take().compactMap { message -> (QuestionID, PresenterRequest)? in
                guard case .request(let question, let request, _, _) = message.content else { return nil }
                return (question, request)
            }
            #expect(asked.map { $0.1 } == [.relinquishToReader])
            for (question, _) in asked { server.engine.answer(question, of: editor, .done) }
            #expect(server.engine.isGranted(request.claim))
            server.engine.end(request.claim)
            server.engine.remove(editor)
            try program.end(access)
        }
    }

    /// Opens the document to write, as a program without a presenter. Returns true if the claim is granted without a wait.
    private func hasItAtOnce(_ command: Command, _ server: RunningServer) throws -> Bool {
        let document = try server.documents.find(Array("a".utf8))
        let request = Coordination.ClaimRequest(
            server.engine.makeClaimID(), .handle,
            Coordination.ClaimRequest.Part(document.item, .write(.updating)))
        defer { document.release() }
        switch server.engine.claim(request, by: command) {
        case .granted: break
        case .waiting: server.engine.onDecision(request.claim) { _ in }
        }
        defer { server.engine.end(request.claim) }
        return server.engine.isGranted(request.claim)
    }

    @Test(
        "an access on behalf of another process blocks neither that process nor the client, only other programs"
    )
    func anAccessOnBehalfOfAnotherProcessBlocksNeitherProcess() throws {
        try withServer(documents: FakeDocuments(hasRealProcesses: true)) { server in
            let program = try AwareProgram(server)
            var parameters = AccessBeginParameters([IntentForm([0x61], .write(.forMerging))])
            parameters.onBehalfOf = ProcessForm(pid: 77, started: 1)
            let access: AccessBeginResult = try program.call(.beginAccess(parameters))
            #expect(try hasItAtOnce(Command(77), server))
            #expect(try hasItAtOnce(Command(getpid()), server))
            #expect(try hasItAtOnce(Command(below: getpid()), server))
            #expect(try !hasItAtOnce(Command(78), server))
            try program.end(access)
        }
    }

    @Test("a presenter is not asked about a claim of the process that saves for this presenter")
    func aPresenterIsNotAskedAboutAClaimOfItsServerProcess() throws {
        try withServer(documents: FakeDocuments(hasRealProcesses: true)) { server in
            let editor = try AwareProgram(server)
            let parameters = RegisterParameters(path: [0x61], messages: .all, savedBy: ProcessForm(pid: 77))
            let _: RegisterResult = try editor.call(.register(parameters))
            #expect(try hasItAtOnce(Command(77), server))
            #expect(try !hasItAtOnce(Command(78), server))
            try editor.answer(.relinquishToWriter)
            let questions = try editor.unread().filter { if case .question = $0 { true } else { false } }
            #expect(questions.isEmpty)
        }
    }

    @Test("a registration fails if it contains the number of a server process that does not exist")
    func aRegistrationWithAMissingServerProcessFails() throws {
        try withServer(documents: FakeDocuments(hasRealProcesses: true)) { server in
            let editor = try AwareProgram(server)
            let parameters = RegisterParameters(
                path: [0x61], messages: .all, savedBy: ProcessForm(pid: 77, started: 2))
            let failure = try editor.failure(of: .register(parameters))
            #expect(failure?.code == -32004)
            #expect(failure?.message.contains("there is no process 77") ?? false)
            #expect(!server.engine.hasAwareClients)
        }
    }
}
