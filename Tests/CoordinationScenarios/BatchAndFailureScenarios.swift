// SPDX-License-Identifier: Apache-2.0
import TestSupport

extension ScenarioCatalogue {
    static let others: [ClientScenario] = batches + failures

    private static let batches: [ClientScenario] = [
        ClientScenario(61, "a batch asks each presenter below once, and accesses within it ask none", .mount)
        {
            stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try a.present("P", "d/x")
            try a.present("Q", "d/deep/y")
            try b.say("prepare b C read d")
            try b.began("b")
            for presenter in ["P", "Q"] { try a.expect(presenter, "relinquishToReader", "save") }
            for (access, path) in [("x", "d/x"), ("y", "d/deep/y")] {
                try b.say("in b begin \(access) C read \(path),withoutChanges")
                try b.began(access)
                try b.end(access)
            }
            try stage.silence(a, "P", "Q")
            try b.say("do b complete")
            try b.expect("b", "completed")
            for presenter in ["P", "Q"] { try a.expect(presenter, "reacquired") }
            try b.end("b")
            try stage.silence(a, "P", "Q")
        },
        ClientScenario(62, "a batch may both read and write a file") { stage in
            let a = try stage.player("A")
            try a.say("prepare b C read f write f")
            try a.began("b")
            try a.say("do b complete")
            try a.expect("b", "completed")
            try a.end("b")
        },
        ClientScenario(63, "a batch holds nothing") { stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try b.say("prepare b C read f")
            try b.began("b")
            try a.hold("w", "write f")
            try b.say("in b begin r C read f")
            try stage.waits(b, for: "f", "r")
            try a.end("w")
            try b.began("r")
            try b.end("r")
            try b.say("do b complete")
            try b.expect("b", "completed")
            try b.end("b")
        },
    ]

    private static let failures: [ClientScenario] = [
        ClientScenario(64, "a URL that is no file's is an error at once") { stage in
            let a = try stage.player("A")
            try a.begin("r", "read https://example.org/f")
            let reason = try a.failure("r").reason
            try check(reason.hasPrefix("notAFile:"), reason)
        },
        ClientScenario(
            65,
            "waits end with an error at once when the daemon is killed; presenters go on with the next daemon",
            .mount
        ) {
            stage in
            let a = try stage.player("A")
            try a.present("P", "f")
            try a.present("F", "d")
            for _ in 1...2 { try survive(stage, a) }
        },
        ClientScenario(
            65, "a presenter that relinquishes only after the daemon was killed has the file back", .mount
        ) {
            stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try a.present("P", "f")
            try a.react("P", to: "relinquishToWriter", by: "hold")
            try b.begin("w", "write f")
            try a.expect("P", "relinquishToWriter")
            try stage.mount?.kill()
            _ = try b.failure("w")
            try stage.mount?.mount()
            try stage.presents(a, 1)
            try a.expect("P", "didChange")
            try a.react("P", to: "relinquishToWriter", by: "answer")
            try a.expect("P", "reacquired")
            try b.once("again", "write f")
            try a.expect("P", "relinquishToWriter", "reacquired")
        },
        ClientScenario(
            65, "a presenter added while no daemon runs is registered with the next daemon", .mount
        ) {
            stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try stage.mount?.kill()
            // Between the end of the dead mount and the new mount, no mount exists. If the presenter registered at this time,
            // the library could not find out to which mount it belongs.
            try a.add("P", "f")
            try a.add("gone", "d")
            try a.say("remove gone")
            try stage.mount?.mount()
            try stage.presents(a, 1)
            try a.expect("P", "didChange")
            try b.once("w", "write f", "put f new")
            try a.expect("P", "relinquishToWriter", "didChange", "reacquired")
            try stage.silence(a, "P")
        },
        ClientScenario(
            65, "a presenter added deep in a mount with a dead daemon is registered with the next daemon",
            .mount
        ) {
            stage in
            let a = try stage.player("A")
            try stage.mount?.kill()
            try a.add("P", "d/x")
            try stage.mount?.mount()
            try stage.presents(a, 1)
            try a.expect("P", "didChange")
        },
        ClientScenario(
            65, "a presenter added where nothing is mounted is registered once the program connects", .mount
        ) {
            stage in
            let a = try stage.player("A")
            try stage.mount?.unmount()
            try a.add("P", "f")
            try stage.mount?.mount()
            try a.once("r", "read f1")
            try stage.presents(a, 1)
            try a.expect("P", "didChange")
        },
        ClientScenario(
            65, "what was granted and had not begun when the daemon was killed is an error", .mount
        ) {
            stage in
            let a = try stage.player("A")
            try a.queue("i", "write f")
            // The access `w` waits, and fails when the daemon ends. The failure shows that the daemon has ended.
            try a.begin("w", "write f")
            try stage.waits(a, for: "f", "w")
            try stage.mount?.kill()
            _ = try a.failure("w")
            try a.say("free i")
            let reason = try a.failure("i").reason
            try check(reason.hasPrefix("disconnected:"), reason)
            try stage.mount?.mount()
        },
        ClientScenario(
            65,
            "a presenter that has not heard of a move is registered with the next daemon under the new name",
            .mount
        ) {
            stage in
            let (a, b) = (try stage.player("A"), try stage.player("B"))
            try a.present("P", "f")
            try a.react("P", to: "relinquishToWriter", by: "linger")
            try b.hold("m", "write f,forMoving write g,forReplacing")
            try a.expect("P", "relinquishToWriter")
            try b.move("m", "f", to: "g")
            // The presenters answer `settle` only after the daemon has handled the end of the access and the move.
            for player in [b, a] {
                try player.say("settle here")
                try player.expect("here", "settled")
            }
            try stage.mount?.kill()
            try stage.mount?.mount()
            try stage.presents(a, 1)
            try a.react("P", to: "relinquishToWriter")
            try a.say("tell P go")
            try a.expect("P", "didMove g", "reacquired", "didChange")
            try b.once("w", "write g")
            try a.expect("P", "relinquishToWriter", "reacquired")
        },
        ClientScenario(
            69,
            "the command shows holders, waiting programs, presenters, and unanswered questions with their age",
            .mount
        ) {
            stage in
            let (a, b, c) = (try stage.player("A"), try stage.player("B"), try stage.player("C"))
            try a.present("P", "f")
            try a.react("P", to: "relinquishToWriter", by: "hold")
            try b.begin("w", "write f")
            try stage.owes(a, "relinquishToWriter")
            try c.begin("r", "read f")
            try stage.waits(c, for: "f", "r")
            let why = try TruceCommand.run("why", stage.root + "/f").text
            for line in [
                "Participant (pid \(b.pid)) has waited for",
                "\(b.shown) waits for \(a.shown) to relinquish f, asked",
                "Participant (pid \(c.pid)) has waited for", "\(c.shown) waits behind \(b.shown) for f",
                "Participant (pid \(a.pid)) presents 'f', asked to relinquish it to a writer",
            ] { try check(why.contains(line), "'\(line)' in \(why)") }
            try a.react("P", to: "relinquishToWriter", by: "answer")
            try b.began("w")
            let held = try TruceCommand.run("why", stage.root + "/f").text
            try check(held.contains("Participant (pid \(b.pid)) has had 'f'"), held)
        },
    ]

    /// Kills the daemon while an access waits, an accessor runs and two presenters are registered, and mounts again.
    private static func survive(_ stage: ScenarioFixture, _ a: ScenarioParticipant) throws {
        guard let mount = stage.mount else { throw TestFailure("a daemon can be killed that is one") }
        let (b, c) = (try stage.player("B"), try stage.player("C"))
        try c.hold("w", "write f")
        try a.expect("P", "relinquishToWriter")
        try b.begin("w", "write f")
        try stage.waits(b, for: "f", "w")
        let (reason, took) = try timed { () throws -> String in
            try mount.kill()
            return try b.failure("w").reason
        }
        print(
            "H65: the waiting program was told \(took.milliseconds) ms after the daemon was killed: \(reason)"
        )
        try check(took < .seconds(10), "\(took)")
        try check(reason.hasPrefix("disconnected:"), reason)
        try a.expect("P", "reacquired")

        try mount.mount()
        try stage.presents(a, 2)
        // The events between the two mounts are unknown, so both presenters are told of a change.
        try a.expect("P", "didChange")
        try a.expect("F", "didChange", "changed d")
        try c.end("w")
        try b.once("again", "write f", "put f new")
        try a.expect("P", "relinquishToWriter", "didChange", "reacquired")
        try Script(": >\"$1\"").run(stage.root + "/d/new")
        try a.expect("F", "appeared d/new")
        try Program("rm").run(stage.root + "/d/new")
        try a.expect("F", "subitemDeletion d/new", "changed d/new")
        try stage.silence(a, "P", "F")
    }
}
