// SPDX-License-Identifier: Apache-2.0
import TestSupport

extension ScenarioCatalogue {
    static let versions: [ClientScenario] = [
        ClientScenario(
            58, "a version that a presenter's own coordinator adds is told to the presenter too", .mount
        ) {
            stage in
            let a = try stage.player("A")
            try a.say("present P d/x versions")
            try a.expect("P", "presents")
            try a.say("present F d versions")
            try a.expect("F", "presents")
            try a.say("coordinator C linked P")
            try a.hold("w", "write d/x", by: "C")
            try a.act("w", "add-version d/x")
            try check(try a.act("w", "versions d/x") == "1, 0 in conflict", "it is listed")
            try a.end("w")
            try a.expect("P", "gained x plain")
            try a.expect("F", "gained d/x")
            try stage.silence(a, "P", "F")
        },
        ClientScenario(59, "a conflict that a presenter's refusal has made is resolved", .mount) { stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try a.say("present P d/x versions")
            try a.expect("P", "presents")
            try a.react("P", to: "save", by: "error no room")
            try Script("printf more 1<>\"$1\"").run(stage.root + "/d/x")
            try a.expect("P", "save", "gained x conflict")
            try b.hold("w", "write d/x")
            try check(try b.act("w", "versions d/x") == "1, 1 in conflict", "it is in conflict")
            try b.act("w", "resolve d/x")
            try check(try b.act("w", "versions d/x") == "1, 0 in conflict", "it is resolved")
            try b.end("w")
            try a.skip("P", to: "resolved x true")
        },
        ClientScenario(
            nil, "a version that the daemon makes is told to presenters of the file and of its folder", .mount
        ) { stage in
            let (a, b, c) = (try stage.player("A"), try stage.player("B"), try stage.player("C"))
            let file = stage.root + "/d/note.md"
            try Script("printf old >\"$1\"").run(file)
            try a.say("present P d/note.md versions")
            try a.expect("P", "presents")
            try a.say("present F d versions")
            try a.expect("F", "presents")
            for (player, text) in [(b, nil), (c, "theirs"), (b, "mine")] as [(ScenarioParticipant, String?)] {
                try player.hold("h", "\(text == nil ? "read" : "write") d/note.md")
                try player.act("h", text.map { "put d/note.md \($0)" } ?? "get d/note.md")
                try player.end("h")
            }
            try a.skip("P", to: "gained note.md conflict")
            try a.skip("F", to: "gained d/note.md")
            try TruceCommand.run("versions", file, "resolve")
            try a.skip("P", to: "resolved note.md true")
            try a.skip("F", to: "resolved d/note.md")
            try TruceCommand.run("versions", file, "prune")
            try a.skip("P", to: "lost")
            try a.skip("F", to: "lost d/note.md")
            try Script("printf other >\"$1\"").run(
                stage.root + "/d/note (conflicted copy 2026-11-28 101530).md")
            try a.skip("P", to: "gained note.md conflict")
            try a.skip("F", to: "gained d/note.md")
        },
        ClientScenario(nil, "of two writes for one generation, the second is refused", .mount) { stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try a.hold("r", "read f")
            try b.hold("r", "read f")
            let generation = try a.act("r", "generation d/x")
            try check(try b.act("r", "generation d/x") == generation, "both see \(generation)")
            try check(try a.act("r", "swap d/x \(generation) first") == "written", "the first write")
            let refused = try b.act("r", "swap d/x \(generation) second")
            try check(refused == "changed by Participant, not called, true, true", refused)
            let next = try b.act("r", "generation d/x")
            try check(try b.act("r", "swap d/x \(next) second") == "written", "the second write, repeated")
            try check(try a.act("r", "get d/x") == "second", "the file has the second text")
            for player in [a, b] { try player.end("r") }
        },
        ClientScenario(60, "each removed version is told, and the file stays", .mount) { stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try b.hold("w", "write f")
            try b.act("w", "add-version f")
            try b.end("w")
            try b.hold("v", "write f")
            try b.act("v", "put f other")
            try b.act("v", "add-version f")
            try a.say("present P f versions")
            try a.expect("P", "presents")
            try check(try b.act("v", "versions .") == "0, 0 in conflict", "a directory has none")
            try b.act("v", "remove-versions .")
            try check(try b.act("v", "versions f") == "2, 0 in conflict", "those of its files stay")
            try b.act("v", "remove-versions f")
            try a.expect("P", "lost", "lost")
            try check(try b.act("v", "versions f") == "0, 0 in conflict", "none is left")
            try check(try b.act("v", "get f") == "other", "the file is as it was")
            try b.end("v")
        },
    ]
}
