// SPDX-License-Identifier: Apache-2.0
import TestSupport

extension ScenarioFixture {
    /// Checks which questions a presenter gets for an access of another process that changes nothing.
    fileprivate func asks(_ access: String, _ path: String = "f", _ messages: String...) throws {
        let (a, b) = (try player("A"), try player("B"))
        try a.present("P", path)
        try b.once("access", access)
        for message in messages { try a.expect("P", message) }
        try silence(a, "P")
    }
}

extension ScenarioCatalogue {
    static let asking: [ClientScenario] = asked + saved + silent

    private static let asked: [ClientScenario] = [
        ClientScenario(34, "a presenter of a file saves it before it is read") { stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try a.present("P", "f")
            try a.say("coordinator C linked P")
            try a.react("P", to: "save", by: "save C new")
            try b.hold("r", "read f")
            try check(try b.act("r", "get f") == "new", "what was saved is read")
            try b.end("r")
            try a.expect("P", "relinquishToReader", "save", "reacquired")
            try stage.silence(a, "P")
        },
        ClientScenario(35, "a reader without changes asks no presenter to save") {
            try $0.asks("read f,withoutChanges", "f", "relinquishToReader", "reacquired")
        },
        ClientScenario(36, "nor does a writer") {
            try $0.asks("write f", "f", "relinquishToWriter", "reacquired")
        },
        ClientScenario(37, "but a merging writer does") {
            try $0.asks("write f,forMerging", "f", "relinquishToWriter", "save", "reacquired")
        },
        ClientScenario(38, "a deletion is to be accommodated") {
            try $0.asks("write f,forDeleting", "f", "relinquishToWriter", "deletion", "reacquired")
        },
        ClientScenario(39, "that of the folder as well", .mount) {
            try $0.asks("write d,forDeleting", "d/x", "relinquishToWriter", "deletion", "reacquired")
        },
        ClientScenario(40, "a move of the folder is not", .mount) {
            try $0.asks("write d,forMoving", "d/x", "relinquishToWriter", "reacquired")
        },
        ClientScenario(41, "a presenter of a package accommodates deletions in it", .mount) {
            try $0.asks(
                "write k.rtfd/a,forDeleting", "k.rtfd", "relinquishToWriter", "subitemDeletion k.rtfd/a",
                "reacquired")
        },
        ClientScenario(42, "a presenter of a plain folder is not asked about writes in it", .mount) {
            stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try a.present("P", "d")
            try b.once("w", "write d/x", "put d/x new")
            try a.expect("P", "changed d/x")
            try stage.silence(a, "P")
        },
        ClientScenario(49, "a write for a presenter does not ask it, but asks others of its process") {
            stage in
            let a = try stage.player("A")
            try a.present("Q", "f")
            try a.present("P", "f")
            try a.say("coordinator C linked Q")
            try a.hold("w", "write f", by: "C")
            try a.end("w")
            try a.expect("P", "relinquishToWriter", "reacquired")
            try stage.silence(a, "P", "Q")
        },
        ClientScenario(50, "a presenter that implements nothing delays no program") { stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try a.present("P", "f", "nothing")
            for access in ["read f", "write f", "write f,forMerging", "write f,forDeleting"] {
                try b.once("access", access)
            }
            try stage.silence(a, "P")
        },
        ClientScenario(50, "what another leaves out, to whom it passes everything on, it is asked again") {
            stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try a.present("P", "f", "forwarding")
            for _ in 1...2 {
                try b.once("access", "read f")
                try a.expect("P", "relinquishToReader", "save")
            }
            try stage.silence(a, "P")
        },
    ]

    private static let saved: [ClientScenario] = [
        ClientScenario(43, "a presenter that cannot save fails the reader, and others get the file back") {
            stage in
            let (a, b, c) = (try stage.player("A"), try stage.player("B"), try stage.player("C"))
            try a.present("P", "f")
            try c.present("P", "f")
            try a.react("P", to: "save", by: "hold")
            try b.begin("r", "read f")
            for player in [a, c] { try player.expect("P", "relinquishToReader", "save") }
            try stage.waits(b, for: "f", "r")
            try a.react("P", to: "save", by: "answer no space left")
            let reason = try b.failure("r").reason
            try check(reason == "Participant 7: no space left", reason)
            for player in [a, c] { try player.expect("P", "reacquired") }
            try stage.silence(a, "P")
            try stage.silence(c, "P")
        },
        ClientScenario(nil, "a presenter says when it has unsaved changes, and when it has none any more") {
            stage in
            let a = try stage.player("A")
            for presenter in ["P", "Q"] { try a.present(presenter, "f") }
            for (word, count) in [("yes", 1), ("yes", 1), ("no", 0), ("yes", 1)] {
                try a.say("unsaved P \(word)")
                try stage.hasUnsaved(a, count)
            }
            try a.say("remove P")
            try stage.hasUnsaved(a, 0)
            try stage.silence(a, "P", "Q")
        },
        ClientScenario(44, "a presenter saves by its own coordinator, on its queue") {
            try saving("save C", "linked P", $0)
        },
        ClientScenario(44, "or on another thread") { try saving("save-elsewhere C", "linked P", $0) },
        ClientScenario(45, "or by a coordinator without a presenter, while it answers") {
            try saving("save C", "", $0)
        },
        ClientScenario(45, "or within an access on a queue, which reports progress as well") { stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try a.present("P", "f")
            try a.react("P", to: "save", by: "intents i C write other/g")
            try b.begin("r", "read f")
            try a.expect("i", "began other/g on its queue")
            let left = try stage.owes(a, "save", since: 200)
            try a.say("do i progress")
            try a.expect("i", "progressed")
            try eventually(within: ScenarioParticipant.patience, "more time to save") {
                try stage.owes(a, "save") > left
            }
            let (_, took) = try timed {
                try a.say("in i begin n D write f")
                try a.began("n")
            }
            try check(took < .seconds(9), "the reader is not waited for: \(took)")
            try a.end("n")
            try a.end("i")
            try a.react("P", to: "save", by: "answer")
            try b.began("r")
        },
        ClientScenario(
            45, "a save that needs a file held by the asking program is a deadlock, and fails at once"
        ) {
            stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try a.present("P", "f")
            try a.say("locate P other/g")
            try a.react("P", to: "save", by: "save C new")
            try b.hold("g", "read other/g")
            let (_, took) = try timed {
                try b.say("in g begin r by-r read f")
                try a.expect("P", "relinquishToReader", "save")
                let line = try a.next("P")
                try check(line.hasPrefix("could not save: deadlock"), line)
                let reason = try b.failure("r").reason
                try check(reason.contains("deadlock"), reason)
            }
            print("H45: a save in a cycle failed after \(took.milliseconds) ms (it has 10 s)")
            try check(took < .seconds(10), "\(took)")
            try a.expect("P", "reacquired")
            try b.end("g")
        },
    ]

    /// Checks that a presenter can save its file while accesses of other programs wait for this file.
    private static func saving(_ reaction: String, _ coordinator: String, _ stage: ScenarioFixture) throws {
        let (a, b, c) = (try stage.player("A"), try stage.player("B"), try stage.player("C"))
        try a.present("P", "f")
        try a.say("coordinator C \(coordinator)")
        try a.react("P", to: "relinquishToReader", by: "hold")
        try b.begin("r", "read f")
        try a.expect("P", "relinquishToReader")
        try c.begin("w", "write f")
        try stage.waits(c, for: "f", "w")
        try a.react("P", to: "save", by: "\(reaction) new")
        try a.react("P", to: "relinquishToReader", by: "answer")
        try b.began("r")
        try check(try b.act("r", "get f") == "new", "what was saved is read")
        try a.expect("P", "save")
        try b.end("r")
        try a.expect("P", "reacquired")
        try c.began("w")
        try c.end("w")
        try a.expect("P", "relinquishToWriter", "reacquired")
    }

    private static func readers(on stage: ScenarioFixture) throws -> [ScenarioParticipant] {
        try stage.players("A", "B").map { player in
            try player.present("P", "f")
            try player.react("P", to: "didChange", by: "read")
            return player
        }
    }

    private static let silent: [ClientScenario] = [
        ClientScenario(46, "a presenter that dies has consented") { stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try a.present("P", "f")
            try a.react("P", to: "relinquishToReader", by: "hold")
            try b.begin("r", "read f")
            try stage.owes(a, "relinquishToReader")
            try stage.waits(b, for: "f", "r")
            a.program.send(9)
            try b.began("r")
        },
        ClientScenario(
            47, "a presenter that is stopped delays others by its bound, and is named meanwhile",
            options: "relinquish=1s", forced: [.forfeited]
        ) { stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try a.present("P", "f")
            a.program.send(19)
            let (_, took) = try timed {
                try b.begin("r", "read f")
                try stage.waits(b, for: "f", "r", because: "waits for \(a.shown) to relinquish f")
                try b.began("r")
            }
            a.program.send(18)
            print("H47: a stopped presenter delayed a reader by \(took.milliseconds) ms (bound 1000 ms)")
            try check(took >= .seconds(1) && took < .seconds(11), "\(took)")
        },
        ClientScenario(48, "two that read whenever the file changes do not wait for each other", .mount) {
            stage in
            let (readers, writer) = (try readers(on: stage), try stage.player("C"))
            let (_, took) = try timed {
                for round in 1...200 {
                    try writer.once("w", "write f", "put f text-\(round)")
                    for reader in readers { try reader.skip("P", to: "read text-\(round)") }
                }
            }
            print("H48: 200 rounds in \(took.milliseconds) ms")
        },
        ClientScenario(48, "not even if the writer waits for neither", .mount) { stage in
            let (readers, writer) = (try readers(on: stage), try stage.player("C"))
            try writer.say("loop l 200 \(stage.outside)/gate putting write f")
            let line = try writer.next("l", within: .seconds(60))
            for reader in readers { try reader.skip("P", to: "read l-200") }
            print("H48: 200 rounds without a pause \(line)")
        },
        ClientScenario(
            nil, "a presenter that blocks its queue delays others by its bound, and is named meanwhile",
            options: "relinquish=500ms", forced: [.forfeited]
        ) { stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try a.present("P", "f")
            try a.react("P", to: "relinquishToWriter", by: "obey")
            let (_, took) = try timed {
                try b.begin("w", "write f")
                try b.began("w")
            }
            print("a blocked presenter delayed a writer by \(took.milliseconds) ms (bound 500 ms)")
            try check(took >= .milliseconds(500) && took < .milliseconds(10_500), "\(took)")
            try a.say("tell P answer")
            try b.end("w")
            try a.expect("P", "relinquishToWriter", "reacquired")
        },
        ClientScenario(
            nil, "a presenter that waits for the deleting program has not consented to the deletion", .mount
        ) { stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try a.present("P", "f")
            try a.say("locate P other/g")
            try a.react("P", to: "didChange", by: "read")
            try b.hold("g", "write other/g")
            // When the presenter gets the notice of the change, it reads a file that another access holds. Until the read ends,
            // the presenter's queue is blocked.
            try b.once("w", "write f", "put f new")
            try a.expect("P", "relinquishToWriter", "didChange")
            try stage.waits(a, for: "other/g", "none")
            try b.say("in g begin d by-d write f,forDeleting")
            let reason = try b.failure("d").reason
            try check(reason.contains("waits for access itself"), reason)
            try check(try stage.text("f") == "new", "it is still there")
            try b.end("g")
            // The file is not deleted. So the presenter must not get the question before a deletion, after which it would close
            // the file.
            try a.say("settle P")
            var heard: [String] = []
            repeat { heard.append(try a.next("P")) } while heard.last != "settled"
            try check(!heard.contains("deletion"), "\(heard)")
        },
        ClientScenario(
            nil, "the error of a wait in vain for a presenter names its program and process",
            options: "wait=1s,policy=fail"
        ) { stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try a.present("P", "f")
            try a.react("P", to: "relinquishToWriter", by: "obey")
            try b.begin("w", "write f")
            let (reason, took) = try b.failure("w")
            print(
                "the program that waited for a blocked presenter was told after \(took) ms (bound 1000 ms): \(reason)"
            )
            try check(took >= 1000 && took < 11_000, "\(took) ms")
            try check(reason.hasPrefix("timedOut:"), reason)
            try check(reason.contains("waits for \(a.shown) to relinquish f"), reason)
            try check(reason.hasSuffix("[Participant(\(a.pid))]"), reason)
            try a.say("tell P answer")
            try a.expect("P", "relinquishToWriter", "reacquired")
        },
        ClientScenario(
            nil, "a presenter that reports progress has more time to save", options: "save=2s,ask-again=0ms"
        ) { stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try a.present("P", "f")
            try a.react("P", to: "save", by: "obey")
            try b.begin("r", "read f")
            for age in [1000, 2000] {
                try stage.owes(a, "save", since: age)
                try a.say("tell P progress")
            }
            try stage.owes(a, "save", since: 3000)
            try a.say("tell P answer")
            try b.began("r")
            try b.end("r")
            try a.expect("P", "relinquishToReader", "save", "progressed", "progressed", "reacquired")
        },
    ]
}
