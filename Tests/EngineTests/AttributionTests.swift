// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import Glibc
import LinuxSystem
import Testing

@Suite("The process that a step of the journal names")
struct AttributionTests {
    /// A step of this process's first thread, or of an earlier process with its number.
    private final class Subject: JournalSubject {
        let attribution: Attribution
        init(at moment: Instant, noted: (process: Int32, program: [UInt8])? = nil) {
            attribution = Attribution(
                thread: getpid(), at: moment, process: noted?.process, program: noted?.program
            ) {
                Array("file".utf8)
            }
        }
    }

    private static func actor(of subject: Subject) throws -> CoordinationEngine.ProcessDescription? {
        let stage = try EngineHarness()
        stage.engine.journal.note(.granted, at: Engine.now, by: subject)
        return stage.engine.report(options: EffectiveOptions(), dataPath: .undecided).journal.last?.actor
    }

    @Test("A thread that existed at the step is named by its process's program")
    func livingThreadIsNamed() throws {
        let actor = try #require(try Self.actor(of: Subject(at: Engine.now)))
        #expect(actor.pid == getpid())
        #expect(actor.program == ProcessInspection.program(ofThread: getpid()))
    }

    @Test("A thread that came later with the same number is not named")
    func reusedThreadNumberIsNotNamed() throws {
        // This process did not exist when the machine started.
        let actor = try #require(try Self.actor(of: Subject(at: Instant(nanoseconds: 0))))
        #expect(actor.pid == getpid())
        #expect(actor.program.isEmpty)
    }

    @Test("A recorded name stays, though another process has the number")
    func recordedIdentityStays() throws {
        let noted = (process: Int32(4711), program: Array("vim".utf8))
        let actor = try #require(
            try Self.actor(of: Subject(at: Instant(nanoseconds: 0), noted: noted)))
        #expect(actor.pid == 4711)
        #expect(actor.program == noted.program)
    }
}
