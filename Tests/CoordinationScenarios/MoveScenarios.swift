// SPDX-License-Identifier: Apache-2.0
import TestSupport

extension ScenarioFixture {
    /// Makes a program move an item in a coordinated access, while an access of another program waits for the item.
    ///
    /// Returns the path with which the waiting access begins after the move.
    fileprivate func place(
        of wanted: String, waitingFor path: String, whileMoving source: String, to destination: String
    ) throws -> String {
        let (a, b) = (try player("A"), try player("B"))
        try a.hold("m", "write \(source),forMoving write \(destination),forReplacing")
        try b.begin("w", wanted)
        try waits(b, for: path, "w")
        try a.move("m", source, to: destination)
        let place = try b.began("w")
        try b.end("w")
        return place
    }
}

extension ScenarioCatalogue {
    static let moving: [ClientScenario] = followed + announced + cancelled

    /// Scenes in which a document is saved in another format: its former file is deleted, and a new file becomes the document.
    private static let announced: [ClientScenario] = ["write f", "write f,forMerging"].flatMap { wanted in
        [
            ClientScenario(nil, "within '\(wanted)' a deletion that is announced as a move is none", .mount) {
                stage in
                let (a, b) = (try stage.player("A"), try stage.player("B"))
                try a.present("P", "f")
                try b.hold("w", "\(wanted) write other/h,forReplacing")
                try asked(a, wanted)
                try b.act("w", "put other/h text")
                try b.act("w", "delete f")
                try stage.silence(a, "P")
                try b.act("w", "announce f other/h")
                try b.end("w")
                try a.expect("P", "didMove other/h", "reacquired")
                try b.once("v", "write other/h", "put other/h new")
                try a.expect("P", "relinquishToWriter", "didChange", "reacquired")
                try stage.silence(a, "P")
            },
            ClientScenario(
                nil, "within '\(wanted)' a deletion that is never announced is put when it ends", .mount
            ) {
                stage in
                let (a, b) = (try stage.player("A"), try stage.player("B"))
                try a.present("P", "f")
                try b.hold("w", wanted)
                try asked(a, wanted)
                try b.act("w", "delete f")
                try stage.silence(a, "P")
                try b.end("w")
                try a.expect("P", "deletion", "reacquired")
                try stage.silence(a, "P")
            },
            ClientScenario(nil, "within '\(wanted)' what is deleted and made again has changed", .mount) {
                stage in
                let (a, b) = (try stage.player("A"), try stage.player("B"))
                try a.present("P", "f")
                try b.hold("w", wanted)
                try asked(a, wanted)
                try b.act("w", "delete f")
                try b.act("w", "put f new")
                try b.end("w")
                try a.expect("P", "didChange", "reacquired")
                try stage.silence(a, "P")
            },
        ]
    }

    private static func asked(_ player: ScenarioParticipant, _ wanted: String) throws {
        try player.expect("P", "relinquishToWriter")
        if wanted.hasSuffix("forMerging") { try player.expect("P", "save") }
    }

    private static let followed: [ClientScenario] = [
        ClientScenario(26, "a reader that waits follows what is moved", .mount) { stage in
            let place = try stage.place(of: "read f", waitingFor: "f", whileMoving: "f", to: "g")
            try check(place == "g", place)
        },
        ClientScenario(27, "a waiting deletion follows as well", .mount) { stage in
            let place = try stage.place(of: "write f,forDeleting", waitingFor: "f", whileMoving: "f", to: "g")
            try check(place == "g", place)
        },
        ClientScenario(
            28, "a waiting replacement stays with the name, and asks no presenter of the moved file", .mount
        ) { stage in
            let shower = try stage.player("S")
            try shower.present("P", "f")
            let place = try stage.place(
                of: "write f,forReplacing", waitingFor: "f", whileMoving: "f", to: "g")
            try check(place == "f", place)
            try shower.expect("P", "relinquishToWriter", "didMove g", "reacquired")
            try stage.silence(shower, "P")
        },
        ClientScenario(
            nil, "a program that moves the file it will replace holds the name until it is done", .mount
        ) {
            stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try a.hold("w", "write f,forReplacing")
            try a.act("w", "move f other/f")
            try a.act("w", "put f new")
            try b.begin("r", "read f")
            try stage.waits(b, for: "f", "r")
            try a.end("w")
            try check(try b.began("r") == "f", "the reader goes on")
            try check(try b.act("r", "get f") == "new", "with what was put there")
            try b.end("r")
        },
        ClientScenario(29, "an access that waited for a deletion finds nothing", .mount) { stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try a.hold("d", "write f,forDeleting")
            try b.begin("w", "write f")
            try stage.waits(b, for: "f", "w")
            try a.act("d", "delete f")
            try a.end("d")
            try check(try b.began("w") == "f", "it begins with the name that it knew")
            try check(try b.act("w", "get f") == "nothing", "and nothing is there")
        },
        ClientScenario(30, "an access that waits for a file in a folder follows the folder", .mount) {
            stage in
            let place = try stage.place(of: "read d/x", waitingFor: "d/x", whileMoving: "d", to: "e")
            try check(place == "e/x", place)
        },
        ClientScenario(33, "a name that changes its case only is moved", .mount) { stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try b.present("P", "f")
            try check(try a.hold("m", "write f,forMoving write F,forReplacing") == "f F", "both spellings")
            try a.act("m", "move f F")
            try a.act("m", "announce f F")
            try a.end("m")
            try b.expect("P", "relinquishToWriter", "didMove F", "reacquired")
            try stage.silence(b, "P")
        },
    ]

    private static let cancelled: [ClientScenario] = [
        ClientScenario(31, "a coordinator that is cancelled waits no longer, and never begins again") {
            stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try a.hold("r", "read f")
            try b.begin("w", "write f", by: "C")
            try stage.waits(b, for: "f", "w")
            try b.say("cancel C")
            try check(try b.failure("w").reason == "cancelled", "the first access is cancelled")
            try a.end("r")
            try b.begin("v", "write f", by: "C")
            try check(try b.failure("v").reason == "cancelled", "the second one does not begin")
        },
        ClientScenario(32, "an accessor that runs is not cancelled") { stage in
            let a = try stage.player("A")
            try a.hold("w", "write f", by: "C")
            try a.say("cancel C")
            try a.act("w", "put f new")
            try a.end("w")
        },
    ]
}
