// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine
import LinuxSystem
import Testing

import func TestSupport.eventually

/// Protocol.md, `generation` and `ifGeneration`, tested on a real socket with a real engine.
@Suite(.serialized)
struct GenerationTests {
    private static let author = ProcessDescription(pid: 411, user: 7, program: Array("sed".utf8))
    private static let authorForm = ProcessDescriptionForm(pid: 411, user: 7, program: Array("sed".utf8))

    private static func write(_ path: String, if generation: String?) -> ControlProtocol.ClientRequest {
        .beginAccess(
            AccessBeginParameters([
                IntentForm(Array(path.utf8), .write(.forMerging), ifGeneration: generation)
            ]))
    }

    @Test("a write for the present generation is granted, and `generation` names its author")
    func aWriteForThePresentGenerationIsGranted() throws {
        try withServer { server in
            server.documents.set(
                DocumentGeneration("e5-12", author: Self.author, time: 1_700_000_000_500_000_000), at: "a")
            let client = try AwareProgram(server)
            let now: GenerationResult = try client.call(
                .generation(GenerationParameters(path: Array("a".utf8))))
            #expect(
                now
                    == GenerationResult(
                        generation: "e5-12", author: Self.authorForm,
                        time: 1_700_000_000.5))
            let held: AccessBeginResult = try client.call(Self.write("a", if: "e5-12"))
            try client.end(held)
        }
    }

    @Test("a write for an earlier generation fails, names the author, and holds nothing")
    func aWriteForAnEarlierGenerationFails() throws {
        try withServer { server in
            let time = WallClock.nanoseconds()
            server.documents.set(
                DocumentGeneration("e5-14", author: Self.author, time: time), at: "d/draft.md")
            let (client, other) = (try AwareProgram(server), try AwareProgram(server))
            let failure = try #require(try client.failure(of: Self.write("d/draft.md", if: "e5-12")))
            #expect(failure.code == -32009)
            #expect(
                failure.message
                    == "d/draft.md changed since generation e5-12: sed (pid 411) wrote it at "
                    + "\(WallClock.timeOfDay(atNanoseconds: time)); it is e5-14 now. "
                    + "`truce versions /m/d/draft.md diff` shows the difference to its latest version.")
            #expect(failure.data?.generation == "e5-14")
            #expect(failure.data?.expected == "e5-12")
            #expect(failure.data?.author == Self.authorForm)
            #expect(failure.data?.time == Double(time) / 1e9)
            // The refused write holds nothing, so another program writes at once.
            let held: AccessBeginResult = try other.call(Self.write("d/draft.md", if: nil))
            try other.end(held)
        }
    }

    @Test("if a version has the contents of the earlier generation, the failure names it")
    func theFailureNamesTheVersionOfTheEarlierGeneration() throws {
        try withServer { server in
            server.documents.set(DocumentGeneration("e5-12"), at: "preserved")
            let client = try AwareProgram(server)
            let failure = try #require(try client.failure(of: Self.write("preserved", if: "e5-11")))
            #expect(
                failure.message.hasSuffix(
                    "`truce versions /m/preserved diff 0123456789abcdef` shows the difference."))
        }
    }

    @Test("the generations are compared when the write is granted, not when it is requested")
    func generationsAreComparedAtTheGrant() throws {
        try withServer { server in
            server.documents.set(DocumentGeneration("e5-1"), at: "a")
            let (first, second) = (try AwareProgram(server), try AwareProgram(server))
            let held: AccessBeginResult = try first.call(Self.write("a", if: "e5-1"))
            let waiting = try second.send(Self.write("a", if: "e5-1"))
            try eventually(within: .seconds(10), "the second write to wait") {
                server.engine.snapshot(of: nil).claims.contains { $0.state == .waiting }
            }
            server.documents.set(DocumentGeneration("e5-2"), at: "a")
            try first.end(held)
            let failure = try #require(try second.failure(of: waiting))
            #expect(failure.code == -32009)
            #expect(failure.message.hasPrefix("a changed since generation e5-1: it is e5-2 now."))
        }
    }

    @Test("a write of several documents fails if one of them has changed")
    func oneChangedDocumentIsEnough() throws {
        try withServer { server in
            server.documents.set(DocumentGeneration("e5-1"), at: "a")
            server.documents.set(DocumentGeneration("e5-3"), at: "b")
            let client = try AwareProgram(server)
            let intents = [("a", "e5-1"), ("b", "e5-2")].map { path, generation in
                IntentForm(Array(path.utf8), .write(.updating), ifGeneration: generation)
            }
            let failure = try #require(try client.failure(of: .beginAccess(AccessBeginParameters(intents))))
            #expect(failure.data?.expected == "e5-2")
            #expect(server.engine.snapshot(of: nil).claims.isEmpty)
        }
    }

    @Test("a preparation takes no generation, because it locks nothing")
    func aPreparationTakesNoGeneration() throws {
        try withServer { server in
            let client = try AwareProgram(server)
            let intent = IntentForm(Array("a".utf8), .write(.updating), ifGeneration: "e5-1")
            let failure = try client.failure(of: .prepareAccess(AccessBeginParameters([intent])))
            #expect(failure?.code == -32602)
        }
    }

    @Test("a write for a generation of a file that is gone fails")
    func aMissingFileHasNoGeneration() throws {
        try withServer { server in
            let client = try AwareProgram(server)
            let failure = try #require(try client.failure(of: Self.write("nothing", if: "e5-7")))
            #expect(failure.code == -32009)
            #expect(failure.message == "there is no file 'nothing' any more; its generation was e5-7.")
            let asked = GenerationParameters(path: Array("nothing".utf8))
            #expect(try client.failure(of: .generation(asked))?.code == -32004)
        }
    }

    @Test("a generation from before a crash is unknown, and the failure says so")
    func aGenerationFromBeforeACrashIsUnknown() throws {
        try withServer { server in
            let client = try AwareProgram(server)
            let failure = try #require(try client.failure(of: Self.write("a b", if: "e0-7")))
            #expect(failure.code == -32009)
            #expect(
                failure.message.hasPrefix(
                    "The generation e0-7 of a b is not known any more, because the daemon ended"))
            #expect(failure.message.contains("`truce versions '/m/a b' diff`"))
            let dropped = try #require(try client.failure(of: Self.write("a b", if: "e1-0")))
            #expect(dropped.code == -32009)
            #expect(
                dropped.message.hasPrefix(
                    "The generation e1-0 of a b is not known any more, because the daemon has dropped it"))
        }
    }
}
