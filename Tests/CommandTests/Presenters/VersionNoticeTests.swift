// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import ControlServer
import Coordination
import CoordinationEngine
import Testing

/// Protocol.md, the notices about versions, tested on a real socket with a real engine.
@Suite(.serialized)
struct VersionNoticeTests {
    @Test(
        "presenters of a file are told of each change of its versions, in order, and other presenters are not"
    )
    func presentersAreToldOfVersions() throws {
        let versions = SingleVersionStore()
        try withServer(versions: versions) { server in
            let (client, other) = (try AwareProgram(server), try AwareProgram(server))
            let presenter = try client.register("a")
            _ = try client.register("b")
            _ = try other.register("a", [.didChange])
            let actor = ProcessDescription(pid: 5, user: 6, program: Array("vim".utf8))
            for kind in VersionChange.Kind.allCases {
                versions.tell(
                    PreservedChange(
                        VersionChange(kind, VersionNumber(0x1234)), of: Array("a".utf8), by: actor))
            }
            for notice in [PresenterNotice.didGain, .didLose, .didResolve] {
                let message = try client.nextNotice()
                #expect(message.notice == notice)
                #expect(message.parameters.presenter == presenter)
                #expect(message.parameters.path == "a")
                #expect(message.parameters.version == "0000000000001234")
                #expect(message.parameters.cause.program == "vim")
                #expect(message.parameters.cause.pid == 5)
            }
            versions.tell(PreservedChange(VersionChange(.lost, nil), of: Array("a".utf8), by: nil))
            let missed = try client.nextNotice()
            #expect(missed.notice == .didLose && missed.parameters.version == nil)
            #expect(try client.unread() == [])
            #expect(try other.unread() == [])
        }
    }

    @Test("too many changes become one change without a version for each document and kind")
    func tooManyChangesBecomeOne() {
        var waiting = WaitingVersionChanges()
        let most = ProtocolLimits.versionNotices
        let change = { (number: Int) in
            PreservedChange(
                VersionChange(number % 2 == 0 ? .gained : .lost, VersionNumber(UInt64(number + 1))),
                of: Array("document \(number % 4 / 2)".utf8), by: nil)
        }
        for number in 0..<most { waiting.add(change(number)) }
        #expect(waiting.takeAll() == (0..<most).map(change))
        #expect(waiting.takeAll().isEmpty)
        for number in 0..<most + 3 { waiting.add(change(number)) }
        let changes = waiting.takeAll()
        #expect(changes.count == 4 + 3 && changes.suffix(3) == (most..<most + 3).map(change))
        #expect(changes.prefix(4).allSatisfy { $0.change.version == nil })
        #expect(Set(changes.prefix(4)).count == 4)
        // Also the number of documents is bounded.
        for number in 0..<3 * most {
            waiting.add(PreservedChange(VersionChange(.lost, nil), of: Array("\(number)".utf8), by: nil))
        }
        #expect(waiting.takeAll().count == 2 * most)
    }
}
