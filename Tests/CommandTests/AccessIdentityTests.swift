// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine
import Glibc
import LinuxSystem
import Testing

/// `truce read` and its kind: what a command does within an access of its parent, on a real socket with a real engine.
@Suite(.serialized)
struct AccessIdentityTests {
    /// A program that knows nothing of Truce, and opens `a`.
    private final class Command: Claimant {
        let party: Party

        init(below parent: Int32) {
            party = Party(
                process: ProcessID(number: 4711, started: 1),
                ancestors: [ProcessID(number: parent, started: 1)])
        }

        var account: Account { Account(of: party) { Array("a".utf8) } }
        var intents: [Intent] { [Intent(.read()) { Array("a".utf8) }] }
        func identify() -> Party { party }
        func observe() -> Observation { .atEnd }
    }

    @Test("what is read within an access that has met nobody asks nobody to save")
    func readingWithin() throws {
        try withServer(documents: FakeDocuments(hasRealProcesses: true)) { server in
            let program = try AwareProgram(server)
            let access: AccessBeginResult = try program.reply(to: try program.begin("a", .read()))
            // Only now somebody shows it, who would wait for the access to write what it is asked to save.
            let mailbox = Mailbox {}
            let document = try server.documents.find(Array("a".utf8))
            let editor = server.engine.present(
                document, by: Party(process: ProcessID(number: 640, started: 1), ancestors: []),
                implementing: .all, in: mailbox)
            let command = Command(below: getpid())
            let request = Coordination.Request(
                server.engine.makeClaimID(), .handle, Coordination.Request.Part(document.item, .read()))
            if case .waiting = server.engine.claim(request, by: command) {
                server.engine.whenSettled(request.claim) { _ in }
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
}
