// SPDX-License-Identifier: Apache-2.0
import ArgumentParser
import ControlProtocol
import Foundation
import Testing

@testable import truce

/// Command.md, "Versions": the lines of the list, and the times that users write.
@Suite("The lines of truce versions")
struct VersionLineTests {
    /// 28 November 2026, 15:30, in the time zone of the machine.
    private static let now = time(28, 15, 30)

    private static func time(_ day: Int, _ hour: Int, _ minute: Int, _ second: Int = 0) -> Double {
        var parts = DateComponents()
        (parts.year, parts.month, parts.day) = (2026, 11, day)
        (parts.hour, parts.minute, parts.second) = (hour, minute, second)
        return Calendar.current.date(from: parts)?.timeIntervalSince1970 ?? 0
    }

    private func version(_ cause: String, _ change: (inout VersionForm) -> Void = { _ in }) -> VersionForm {
        var version = VersionForm(
            id: "0123456789abcdef", path: Array("draft.md".utf8), cause: cause, time: Self.time(28, 14, 2),
            size: 12, user: 0, group: 0, mode: 0o100644)
        change(&version)
        return version
    }

    private func line(_ version: VersionForm) -> String? {
        VersionListResult(entries: [version], isTruncated: false).lines(at: Self.now).first
    }

    @Test("an unseen overwrite names both programs and what the saver had read")
    func anUnseenOverwriteNamesBothPrograms() {
        let version = version("unseen") {
            $0.saver = VersionActorForm(program: "vim", pid: 4711)
            $0.author = VersionActorForm(program: "sed", run: "agent-1")
            $0.readTime = Self.time(28, 13, 40)
            $0.standing = "conflict"
        }
        #expect(
            line(version) == """
                0123456789abcdef  today 14:02  12 bytes  draft.md  saved over by vim (pid 4711), which had read \
                the contents of today 13:40; written by sed (run "agent-1")  (in conflict)
                """)
        #expect(
            line(self.version("unseen")) == """
                0123456789abcdef  today 14:02  12 bytes  draft.md  saved over by a program, which had not read it
                """)
    }

    @Test("a line has no control characters of names, and says which programs still write")
    func namesAreEscaped() throws {
        let version = version("odd\u{1b}") {
            $0.writers = ["a\nb (12)"]
            $0.author = VersionActorForm(program: "x\u{1b}[2J")
        }
        let text = try #require(line(version))
        #expect(!text.contains("\u{1b}") && !text.contains("\n"))
        #expect(text.contains("still written by"))
    }

    @Test("times are shown relative to the present day")
    func timesAreShownRelativeToTheDay() {
        #expect(VersionTime.text(Self.time(28, 0, 5), at: Self.now) == "today 00:05")
        #expect(VersionTime.text(Self.time(27, 23, 59), at: Self.now) == "yesterday 23:59")
        #expect(VersionTime.text(Self.time(3, 9, 7), at: Self.now) == "2026-11-03 09:07")
        #expect(VersionTime.text(-1, at: Self.now) == "at an unknown time")
        #expect(VersionTime.text(1e300, at: Self.now) == "at an unknown time")
    }

    @Test(
        "a time that a user writes is understood",
        arguments: [
            ("14:02", time(28, 14, 2)), ("14:02:11", time(28, 14, 2, 11)), ("2026-11-27", time(27, 0, 0)),
            ("2026-11-27 08:15", time(27, 8, 15)), ("2026-11-27T08:15:30", time(27, 8, 15, 30)),
            ("90s", now - 90), ("15m", now - 900), ("2h", now - 7200), ("3d", now - 259_200),
        ])
    func timesAreUnderstood(text: String, expected: Double) {
        #expect(VersionTime.parse(text, at: Self.now) == expected)
    }

    @Test(
        "other texts are no times",
        arguments: [
            "", "soon", "25:00", "14:60", "14", "-2h", "2026-13-01", "2026-11-27 ", "1-2-3-4", "h",
            "99999999999d",
        ])
    func otherTextsAreNoTimes(text: String) { #expect(VersionTime.parse(text, at: Self.now) == nil) }

    @Test("a list begins at a time in the past, and a removal may end at any time")
    func aListBeginsInThePast() throws {
        try VersionTime.check(since: "2026-11-27", until: "2026-11-29", at: Self.now)
        for (since, until, word) in [
            ("3000-01-01", nil, "future"), ("23:59", nil, "future"), ("soon", nil, "no time"),
            (nil, "later", "no time"),
        ] as [(String?, String?, String)] {
            let error = #expect(throws: ValidationError.self) {
                try VersionTime.check(since: since, until: until, at: Self.now)
            }
            #expect(error?.message.contains("'\(since ?? until ?? "")' is") ?? false)
            #expect(error?.message.contains(word) ?? false)
        }
    }
}
