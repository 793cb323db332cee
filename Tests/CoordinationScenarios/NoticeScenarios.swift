// SPDX-License-Identifier: Apache-2.0
import TestSupport

extension ScenarioCatalogue {
    static let telling: [ClientScenario] = written + folders + unmodified

    private static let written: [ClientScenario] = [
        ClientScenario(
            51, "a presenter lets go, hears of the change and has the file back, 1,000 times of 1,000",
            .mount
        ) { stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try a.present("P", "f")
            try b.say("loop l 1000 \(stage.outside)/gate putting write f")
            let line = try b.next("l", within: .seconds(60))
            try check(line.hasPrefix("done"), line)
            print("H51: 1,000 writes \(line)")
            try stage.silence(b)
            try a.say("settle P")
            let heard = try a.upToSettled("P")
            let round = ["relinquishToWriter", "didChange", "reacquired"]
            let wrong = heard.indices.first { heard[$0] != round[$0 % 3] } ?? heard.count
            try check(wrong == 3000, "in round \(wrong / 3): \(heard.dropFirst(wrong - wrong % 3).prefix(9))")
        },
        ClientScenario(
            52, "a move is told once to a presenter of the file and to a presenter of the folder", .mount
        ) {
            stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try a.present("P", "d/x")
            try a.present("F", "d")
            try b.hold("m", "write d/x,forMoving write d/z,forReplacing")
            try b.move("m", "d/x", to: "d/z")
            try a.expect("P", "relinquishToWriter", "didMove d/z", "reacquired")
            // The library sends the question before the move, when it is not yet certain that the move will replace an item.
            try a.expect("F", "subitemDeletion d/z", "moved d/x d/z")
            try stage.silence(a, "P", "F")
        },
        ClientScenario(52, "a move by way of another file is followed when it is announced", .mount) {
            stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try a.present("P", "f")
            try b.hold("m", "write f,forMoving write other/h,forReplacing")
            try b.act("m", "put other/h text")
            try b.act("m", "delete f")
            try b.act("m", "announce f other/h")
            try b.end("m")
            try a.expect("P", "relinquishToWriter", "didMove other/h", "reacquired")
            try b.once("w", "write other/h", "put other/h new")
            try a.expect("P", "relinquishToWriter", "didChange", "reacquired")
            try stage.silence(a, "P")
        },
        ClientScenario(
            57, "a presenter of what does not exist yet is one of it when its own coordinator has made it",
            .mount
        ) {
            stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try a.present("P", "-")
            try a.say("coordinator C linked P")
            try a.hold("w", "write new,forReplacing", by: "C")
            try a.act("w", "put new text")
            try a.say("locate P new")
            try a.end("w")
            try stage.silence(a, "P")
            try b.once("w", "write new", "put new other")
            try a.expect("P", "relinquishToWriter", "didChange", "reacquired")
            try stage.silence(a, "P")
        },
    ]

    private static let folders: [ClientScenario] = [
        ClientScenario(53, "a presenter of a folder hears of changes in it after it was moved, too", .mount) {
            stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try a.present("F", "d")
            try b.hold("m", "write d,forMoving write e,forReplacing")
            try b.move("m", "d", to: "e")
            try a.expect("F", "relinquishToWriter", "didMove e", "reacquired")
            try Script("echo more >>\"$1/e/x\"").run(stage.root)
            try a.expect("F", "changed e/x")
            try b.once("w", "write e/deep/y", "put e/deep/y new")
            try a.expect("F", "changed e/deep/y")
            try stage.silence(a, "F")
        },
        ClientScenario(
            54, "a presenter of a folder hears of names that appear and go, by any program", .mount
        ) {
            stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try a.present("F", "d")
            try b.once("c", "write d/new,forReplacing", "put d/new text")
            // The library sends the question before the write, when it is not yet certain that the write will replace an item.
            try a.expect("F", "subitemDeletion d/new", "appeared d/new")
            try Script(": >\"$1\"").run(stage.root + "/d/deep/other")
            try a.expect("F", "appeared d/deep/other")
            try b.once("d", "write d/new,forDeleting", "delete d/new")
            try a.expect("F", "subitemDeletion d/new", "changed d/new")
            try Program("rm").run(stage.root + "/d/deep/other")
            try a.expect("F", "subitemDeletion d/deep/other", "changed d/deep/other")
            try stage.silence(a, "F")
        },
        ClientScenario(
            54, "also if rm deletes what a coordinator has made", .mount
        ) { stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try a.present("F", "d")
            try b.once("c", "write d/new,forReplacing", "put d/new text")
            try a.expect("F", "subitemDeletion d/new", "appeared d/new")
            try Program("rm").run(stage.root + "/d/new")
            try a.expect("F", "subitemDeletion d/new", "changed d/new")
        },
        ClientScenario(
            55,
            "a presenter that implements only changes hears of its package, and of nothing in a plain folder",
            .mount
        ) {
            stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try a.present("K", "k.rtfd", "changes")
            try a.present("F", "d", "changes")
            try b.once("f", "write d/x", "put d/x new")
            try b.once("k", "write k.rtfd/a", "put k.rtfd/a new")
            try a.expect("K", "didChange")
            try b.once("n", "write k.rtfd/new,forReplacing", "put k.rtfd/new new")
            try a.expect("K", "didChange")
            try stage.silence(a, "K", "F")
        },
    ]

    private static let unmodified: [ClientScenario] = [
        ClientScenario(56, "a shell that appends lets the presenter save first, and is told of", .mount) {
            stage in
            let a = try stage.player("A")
            try a.present("P", "f")
            try a.say("coordinator C linked P")
            try a.react("P", to: "save", by: "save C unsaved")
            try Script("printf +more >>\"$1\"").run(stage.root + "/f")
            try a.expect("P", "relinquishToWriter", "save", "didChange", "reacquired")
            let text = try stage.text("f")
            try check(text == "unsaved+more", "both are there: \(text)")
        },
        ClientScenario(56, "a file that mv moves is followed", .mount) { stage in
            let a = try stage.player("A")
            try a.present("P", "f")
            try Program("mv").run(stage.root + "/f", stage.root + "/other/g")
            try a.expect("P", "relinquishToWriter", "didMove other/g", "reacquired")
            try stage.silence(a, "P")
        },
        ClientScenario(56, "a save of vim's, by way of other files, is a change and no deletion", .mount) {
            stage in
            let a = try stage.player("A")
            try a.present("P", "f")
            try Program("vim").run(
                "-es", "-u", "NONE", "--cmd", "set nocompatible backupcopy=no writebackup", "-c",
                "s/old/new/",
                "-c", "wq", stage.root + "/f")
            var lines: [String] = []
            repeat { lines.append(try a.next("P")) } while !lines.contains("didChange")
            try a.expect("P", "reacquired")
            try check(lines.contains("relinquishToWriter"), "\(lines)")
            try check(lines.filter { $0 == "didChange" }.count == 1, "\(lines)")
            try check(!lines.contains { $0.hasPrefix("deletion") || $0.hasPrefix("didMove") }, "\(lines)")
            try check(try stage.text("f") == "new\n", "vim saved it")
            try stage.silence(a, "P")
        },
    ]
}
