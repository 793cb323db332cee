// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import Testing

@Suite("The subjects of log lines")
struct LogSubjectTests {
    private let path = Array("notes/a.md".utf8)

    @Test("a line about a document begins with its path")
    func aLineAboutADocumentBeginsWithItsPath() throws {
        let harness = try EngineHarness()
        harness.engine.logDocument(path, "could not be merged")
        #expect(harness.log.all == ["notes/a.md could not be merged"])
    }

    @Test("a line about an action begins with the program, also if it is unknown or has ended")
    func aLineAboutAnActionBeginsWithTheProgram() throws {
        let harness = try EngineHarness()
        let path = path
        harness.engine.logAction("overwrote changes", Attribution { path })
        harness.engine.logAction(
            "overwrote changes", Attribution(thread: 0, at: Engine.now, process: 47) { path })
        harness.engine.logAction(
            "overwrote changes",
            Attribution(thread: 0, at: Engine.now, process: 47, program: Array("sed".utf8)) { path })
        #expect(
            harness.log.all == [
                "an unknown program overwrote changes: notes/a.md",
                "an ended process (47) overwrote changes: notes/a.md",
                "sed (47) overwrote changes: notes/a.md",
            ])
    }
}
