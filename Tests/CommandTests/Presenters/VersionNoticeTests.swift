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
            #expect(try client.unread() == [])
            #expect(try other.unread() == [])
        }
    }
}
