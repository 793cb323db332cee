// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import Glibc
import LinuxSystem
import Testing

@Suite("The process that the journal names for a step")
struct AttributionTests {
    /// The subject of a journal entry: a step by a thread with the number of this process's first thread, at a given time.
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

    @Test("the journal names the program of a thread that existed at the step")
    func theJournalNamesAThreadThatExistedAtTheStep() throws {
        let actor = try #require(try Self.actor(of: Subject(at: Engine.now)))
        #expect(actor.pid == getpid())
        #expect(actor.program == ProcessInspection.program(ofThread: getpid()))
    }

    @Test("the journal names no program if the thread's number was given to a later thread")
    func theJournalDoesNotNameALaterThreadWithTheSameNumber() throws {
        // The time of this step is the start of the machine, when this process did not exist yet.
        let actor = try #require(try Self.actor(of: Subject(at: Instant(nanoseconds: 0))))
        #expect(actor.pid == getpid())
        #expect(actor.program.isEmpty)
    }

    @Test("the journal uses a recorded program name, even if another process now has the process number")
    func theJournalUsesARecordedProgramNameEvenIfTheProcessNumberIsReused() throws {
        let noted = (process: Int32(4711), program: Array("vim".utf8))
        let actor = try #require(
            try Self.actor(of: Subject(at: Instant(nanoseconds: 0), noted: noted)))
        #expect(actor.pid == 4711)
        #expect(actor.program == noted.program)
    }
}
