// SPDX-License-Identifier: Apache-2.0
import TestSupport

extension ScenarioFixture {
    /// Checks that the second access waits until the accessor of the first access has ended.
    func excludes(_ first: String, _ second: String, at path: String) throws {
        let (a, b) = (try player("A"), try player("B"))
        try a.hold("first", first)
        try b.begin("second", second)
        try waits(b, for: path, "second")
        try a.end("first")
        try b.began("second")
        try b.end("second")
    }

    /// Checks that the second access begins before the accessor of the first access has ended.
    func admits(_ first: String, _ second: String) throws {
        let (a, b) = (try player("A"), try player("B"))
        try a.hold("first", first)
        try b.once("second", second)
        try a.end("first")
    }
}

extension ScenarioCatalogue {
    static let locking: [ClientScenario] = files + directories + identities + forms

    private static let files: [ClientScenario] = [
        ClientScenario(1, "two read a file at once") { try $0.admits("read f", "read f") },
        ClientScenario(2, "a writer waits until the reader's accessor has returned") {
            try $0.excludes("read f", "write f", at: "f")
        },
        ClientScenario(3, "a reader waits for a writer") { try $0.excludes("write f", "read f", at: "f") },
        ClientScenario(4, "a writer waits for a writer") { try $0.excludes("write f", "write f", at: "f") },
        ClientScenario(5, "a reader does not overtake a writer that waits") { stage in
            let (a, b, c) = (try stage.player("A"), try stage.player("B"), try stage.player("C"))
            try a.hold("r", "read f")
            try b.begin("w", "write f")
            try stage.waits(b, for: "f", "w")
            try c.begin("r", "read f")
            try stage.waits(c, for: "f", "r")
            try a.end("r")
            try b.began("w")
            try stage.waits(c, for: "f", "r")
            try b.end("w")
            try c.began("r")
        },
        ClientScenario(6, "an accessor that throws has ended") { stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try a.say("task w C write f")
            try a.began("w")
            try b.begin("w", "write f")
            try stage.waits(b, for: "f", "w")
            try a.say("do w throw")
            try check(try a.failure("w").reason == "Participant 7: thrown by the accessor", "it throws")
            try b.began("w")
        },
        ClientScenario(7, "a killed writer blocks no program") { stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try a.hold("w", "write f")
            try b.begin("w", "write f")
            try stage.waits(b, for: "f", "w")
            let (_, took) = try timed {
                a.program.send(9)
                try b.began("w")
            }
            print("H7: the next writer began \(took.milliseconds) ms after the holder was killed")
        },
    ]

    private static let directories: [ClientScenario] = [
        ClientScenario(8, "a package is one file", .mount) {
            try $0.excludes("read k.rtfd/a", "write k.rtfd/b", at: "k.rtfd/b")
        },
        ClientScenario(9, "a package in a package belongs to the outer one", .mount) {
            try $0.excludes("read k.rtfd/in.rtfd/a", "write k.rtfd/b", at: "k.rtfd/b")
        },
        ClientScenario(10, "a reader of a folder does not delay writers in it", .mount) {
            try $0.admits("read d", "write d/x")
        },
        ClientScenario(11, "nor does an update of it", .mount) { try $0.admits("write d", "write d/x") },
        ClientScenario(
            12, "a folder is not deleted under a reader, nor read while it waits to be deleted", .mount
        ) {
            try structural("forDeleting", $0)
        },
        ClientScenario(13, "nor is it moved", .mount) { try structural("forMoving", $0) },
        ClientScenario(13, "nor is it replaced", .mount) { try structural("forReplacing", $0) },
        ClientScenario(14, "a program that lists a folder does not delay a deletion in it", .mount) {
            try $0.admits("read d", "write d/x,forDeleting")
        },
        ClientScenario(15, "to move a file waits as to update it") {
            try $0.excludes("read f", "write f,forMoving", at: "f")
        },
        ClientScenario(15, "and is waited for as that is") {
            try $0.excludes("write f,forMoving", "read f", at: "f")
        },
    ]

    private static func structural(_ option: String, _ stage: ScenarioFixture) throws {
        let (a, b, c) = (try stage.player("A"), try stage.player("B"), try stage.player("C"))
        try a.hold("r", "read d/deep/y")
        try b.begin("w", "write d,\(option)")
        try stage.waits(b, for: "d", "w")
        try c.begin("r", "read d/x")
        try stage.waits(c, for: "d/x", "r")
        try a.end("r")
        try b.began("w")
        try stage.waits(c, for: "d/x", "r")
        try b.end("w")
        try c.began("r")
    }

    private static let identities: [ClientScenario] = [
        ClientScenario(16, "a coordinator does not wait for itself") { stage in
            let a = try stage.player("A")
            try a.hold("r", "read f", by: "C")
            try a.say("in r begin w C write f")
            try a.began("w")
            try a.end("w")
            try a.end("r")
        },
        ClientScenario(17, "coordinators of one presenter do not wait for one another") { stage in
            let a = try stage.player("A")
            try a.present("P", "f")
            try a.say("coordinator C linked P")
            try a.say("coordinator D linked P")
            try a.hold("c", "write f", by: "C")
            try a.hold("d", "write f", by: "D")
            try a.end("c")
            try a.end("d")
            try stage.silence(a, "P")
        },
        ClientScenario(18, "coordinators of no presenter exclude each other, though of one process") {
            stage in
            let a = try stage.player("A")
            try a.hold("c", "write f")
            try a.begin("d", "write f")
            try stage.waits(a, for: "f", "d")
            try a.end("c")
            try a.began("d")
        },
        ClientScenario(19, "those of one purpose do not wait for one another, though of two processes") {
            stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            for player in [a, b] { try player.say("coordinator C purpose org.example.sync") }
            try a.hold("w", "write f", by: "C")
            try b.hold("w", "write f", by: "C")
            try a.end("w")
            try b.end("w")
        },
        ClientScenario(20, "a purpose is set once, and not where a presenter has set it") { stage in
            for order in ["coordinator C purpose one two", "coordinator C linked P two"] {
                let a = try stage.player("A")
                try a.present("P", "f")
                try a.say(order)
                let outcome = try a.program.wait(
                    within: .seconds(20), for: "the end by a broken precondition")
                guard case .signalled = outcome.ending else {
                    throw TestFailure("'\(order)' ended it by \(outcome.ending)")
                }
            }
        },
    ]

    private static let forms: [ClientScenario] = [
        ClientScenario(
            21, "two files are written in either order 10,000 times, and no program waits for ever",
            .unmounted
        ) {
            stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            let gate = stage.outside + "/gate"
            try a.say("loop l 10000 \(gate) write f1 write f2")
            try b.say("loop l 10000 \(gate) write f2 write f1")
            for player in [a, b] {
                let line = try player.next("l", within: .seconds(120))
                try check(line.hasPrefix("done"), "\(player.name): \(line)")
                print("H21: \(player.name): 10,000 pairs of writes \(line)")
            }
        },
        ClientScenario(22, "an accessor with several intents runs on the queue that was given") { stage in
            let a = try stage.player("A")
            try a.say("intents i C read f1 write f2")
            try a.expect("i", "began f1 f2 on its queue")
            try check(try a.act("i", "get f1") == "old", "what is read is there")
            try a.act("i", "put f2 new")
            try a.end("i")
            // After the access, the library must release the accessor, and with it all objects that the accessor retains.
            try a.expect("i", "let go")
            try check(try stage.text("f2") == "new", "what was written is there")
        },
        ClientScenario(22, "an accessor with a cancelled queue blocks no program") { stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try a.queue("i", "read f1,forUploading write f2")
            try b.begin("w", "write f2")
            try stage.waits(b, for: "f2", "w")
            let (_, took) = try timed {
                try a.say("drop i")
                try b.began("w")
            }
            try check(took < .seconds(10), "\(took)")
            try a.expect("i", "let go")
            try b.end("w")
        },
        ClientScenario(23, "no program waits for an upload, which goes on with the former contents") {
            stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            let copy = try a.hold("r", "read f,forUploading")
            try b.once("w", "write f", "put f new")
            try check(try a.act("r", "get \(copy)") == "old", "the copy is the former text")
            try a.end("r")
        },
        ClientScenario(24, "a folder is uploaded as one archive, which is gone afterwards") { stage in
            let a = try stage.player("A")
            let copy = try a.hold("r", "read d,forUploading")
            try check(try a.act("r", "kind \(copy)") == "zip", "the copy is an archive")
            let listing = try Program("python3").run("-m", "zipfile", "-l", copy).text
            try check(listing.contains("deep/y"), "what is deep in the folder is in the archive: \(listing)")
            try a.act("r", "open \(copy)")
            try a.end("r")
            try check(FileContents.ofFile(copy) == nil, "the archive is removed")
            try a.say("kept r")
            try check(try a.next("r") != "kept 0 bytes", "what was opened can be read")
        },
        ClientScenario(25, "what a link leads to is read if that is asked for, and the link if not", .mount) {
            stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try check(try a.hold("r", "read l,resolvesSymbolicLink") == "f", "the accessor gets the target")
            try b.begin("w", "write f")
            try stage.waits(b, for: "f", "w")
            try a.end("r")
            try b.began("w")
            try b.end("w")
            try check(try a.hold("l", "read l") == "l", "the accessor gets the link")
            try b.once("v", "write f")
            try a.end("l")
        },
    ]
}
