// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Foundation
import Testing

@testable import truce

/// The texts of `truce log`.
@Suite("The texts of the history")
struct HistoryTextTests {
    private func form(_ kind: String, detail: String? = nil, version: String? = nil) -> HistoryEventForm {
        let actor = HistoryActorForm(program: "sed", pid: 47, user: 0, run: "agent", runPid: 46)
        var event = HistoryEventForm(
            number: 1, time: 0, kind: kind, path: Array("a\u{1B}.md".utf8), newPath: Array("b.md".utf8),
            actor: actor)
        (event.detail, event.version) = (detail, version)
        event.author = HistoryActorForm(program: "", pid: nil, user: nil, run: nil, runPid: nil)
        return event
    }

    @Test("a line says what a program did, without characters that control a terminal")
    func aLineSaysWhatAProgramDid() {
        let actor = "sed (47), run 'agent'"
        let expected = [
            ("written", "a\\x1b.md  written by \(actor)"), ("moved", "a\\x1b.md  moved to b.md by \(actor)"),
            ("asked", "a\\x1b.md  \(actor) was asked: save for cat"),
            ("preserved", "a\\x1b.md  contents preserved as 7 before a change by \(actor)"),
            (
                "saved-over",
                "a\\x1b.md  saved over by \(actor), which had not read what an unknown program wrote; "
                    + "the lost contents are version 7"
            ),
        ]
        for (kind, text) in expected {
            #expect(form(kind, detail: "save for cat", version: "7").line.hasSuffix("  \(text)"))
        }
        let gap = "  12 events are missing: too many came at once, or the disk was full"
        #expect(form("gap", detail: "12").line.hasSuffix(gap))
    }
}
