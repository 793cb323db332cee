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
            try a.say("on P save error no room")
            try Script("printf more 1<>\"$1\"").run(stage.root + "/d/x")
            try a.expect("P", "save", "gained x conflict")
            try b.hold("w", "write d/x")
            try check(try b.act("w", "versions d/x") == "1, 1 in conflict", "it is in conflict")
            try b.act("w", "resolve d/x")
            try check(try b.act("w", "versions d/x") == "1, 0 in conflict", "it is resolved")
            try b.end("w")
            try a.skip("P", to: "resolved x true")
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
            try b.act("v", "remove-versions f")
            try a.expect("P", "lost", "lost")
            try check(try b.act("v", "versions f") == "0, 0 in conflict", "none is left")
            try check(try b.act("v", "get f") == "other", "the file is as it was")
            try b.end("v")
        },
    ]
}
