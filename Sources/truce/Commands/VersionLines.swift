// SPDX-License-Identifier: Apache-2.0
import ArgumentParser
import ControlProtocol
import Glibc
import LinuxSystem

extension VersionListResult {
    /// The lines of `truce versions`. `now` is the present time, in seconds since 1970.
    func lines(at now: Double = VersionTime.now) -> [String] {
        var lines = entries.map { $0.line(at: now) }
        if isTruncated { lines.append("(more; these are the newest, and --all lists all)") }
        return lines
    }
}

extension VersionForm {
    fileprivate func line(at now: Double) -> String {
        let time = VersionTime.text(time, at: now)
        var notes: [String] = []
        switch standing {
        case "conflict": notes.append("in conflict")
        case "suspected": notes.append("not compared yet")
        case "resolved": notes.append("resolved")
        default: break
        }
        let writers = (writers ?? []).map(\.printable).joined(separator: ", ")
        if !writers.isEmpty { notes.append("still written by \(writers)") }
        let note = notes.map { "  (\($0))" }.joined()
        let path = path.isEmpty ? "(path not known)" : path.printable
        return "\(id)  \(time)  \(size) bytes  \(path)  \(reason(at: now))\(note)"
    }

    /// Why the version was preserved, in plain words.
    private func reason(at now: Double) -> String {
        let written = author.map { "; written by \($0.text)" } ?? ""
        return what(at: now) + written
    }

    private func what(at now: Double) -> String {
        switch cause {
        case "unseen":
            let seen = readTime.map { ", which had read the contents of \(VersionTime.text($0, at: now))" }
            return "saved over by \(saver?.text ?? "a program")" + (seen ?? ", which had not read it")
        case "merge": return "merged with the changes of another program"
        case "write":
            let seen = readTime.map { ", which had read the contents of \(VersionTime.text($0, at: now))" }
            return "before a change by \(saver?.text ?? "a program")" + (seen ?? "")
        case "sync":
            let copy = conflictCopy.map { ", which has the contents of '\($0.printable)'" } ?? ""
            return "conflict copy of \(saver?.text ?? "a program that synchronises files")\(copy)"
        case "claim": return "changed while another program had the file open"
        case "forfeit": return "changed although a presenter did not answer"
        case "refusal": return "changed although a presenter refused"
        case "presenter": return "changed although a presenter refused or did not answer"
        case "suspended-writer": return "left beside a suspended writer"
        case "orphan": return "written to a file that was replaced or deleted"
        case "recovered": return "found after the daemon was killed"
        case "added": return "added by a program"
        case "restoring": return "replaced by a restored version"
        case "conflict": return "changed by two programs"
        default: return cause.printable
        }
    }
}

extension VersionActorForm {
    fileprivate var text: String {
        let facts = [pid.map { "pid \($0)" }, run.map { "run \"\($0.printable)\"" }].compactMap(\.self)
        return program.printable + (facts.isEmpty ? "" : " (\(facts.joined(separator: ", ")))")
    }
}

/// Times of versions, as users write and read them, in the time zone of the user.
enum VersionTime {
    static var now: Double { Double(WallClock.nanoseconds()) / 1e9 }

    /// Returns a time as text: `today 14:02`, `yesterday 14:02` or `2026-11-21 14:02`.
    static func text(_ seconds: Double, at now: Double) -> String {
        guard let then = local(seconds), let today = local(now), let before = local(now, daysBefore: 1) else {
            return "at an unknown time"
        }
        let clock = "\(twoDigits(then.tm_hour)):\(twoDigits(then.tm_min))"
        if isSameDay(then, today) { return "today \(clock)" }
        if isSameDay(then, before) { return "yesterday \(clock)" }
        return "\(then.tm_year + 1900)-\(twoDigits(then.tm_mon + 1))-\(twoDigits(then.tm_mday)) \(clock)"
    }

    /// Returns the seconds since 1970 of a time that a user wrote: `14:02`, `14:02:11`, `2026-11-28`, `2026-11-28 14:02`, or
    /// an age such as `90s`, `15m`, `2h` or `3d`. Returns nil for other texts.
    static func parse(_ text: String, at now: Double = VersionTime.now) -> Double? {
        if let unit = text.last, let seconds = ["s": 1.0, "m": 60, "h": 3600, "d": 86400][unit] {
            guard let count = UInt32(text.dropLast()) else { return nil }
            return now - Double(count) * seconds
        }
        guard var time = local(now) else { return nil }
        (time.tm_hour, time.tm_min, time.tm_sec) = (0, 0, 0)
        let parts = text.split(omittingEmptySubsequences: false) { $0 == " " || $0 == "T" }
        guard (1...2).contains(parts.count) else { return nil }
        let isClockOnly = parts.count == 1 && parts[0].contains(":")
        if !isClockOnly {
            guard let date = numbers(parts[0], between: "-", counts: 3...3),
                (1970...9999).contains(date[0]), (1...12).contains(date[1]), (1...31).contains(date[2])
            else { return nil }
            (time.tm_year, time.tm_mon, time.tm_mday) = (date[0] - 1900, date[1] - 1, date[2])
        }
        if isClockOnly || parts.count == 2 {
            guard let clock = numbers(parts[parts.count - 1], between: ":", counts: 2...3),
                (0...23).contains(clock[0]), (0...59).contains(clock[1]),
                clock.count == 2 || (0...60).contains(clock[2])
            else { return nil }
            (time.tm_hour, time.tm_min) = (clock[0], clock[1])
            if clock.count == 3 { time.tm_sec = clock[2] }
        }
        time.tm_isdst = -1
        return Double(mktime(&time))
    }

    /// Throws if a user wrote no time, or a time in the future as the begin of a list.
    static func check(since: String?, until: String? = nil, at now: Double = VersionTime.now) throws {
        for text in [since, until].compactMap(\.self) where parse(text, at: now) == nil {
            throw ValidationError(
                "'\(text)' is no time; write a time such as 14:30 or 2026-11-28, or an age such as 90m or 2d")
        }
        if let since, let time = parse(since, at: now), time > now {
            throw ValidationError("'\(since)' is in the future; write an earlier time")
        }
    }

    private static func numbers(
        _ text: Substring, between separator: Character, counts: ClosedRange<Int>
    ) -> [Int32]? {
        let parts = text.split(separator: separator, omittingEmptySubsequences: false)
        let numbers = parts.compactMap { Int32($0) }
        return numbers.count == parts.count && counts.contains(parts.count) ? numbers : nil
    }

    private static func local(_ seconds: Double, daysBefore days: Int32 = 0) -> tm? {
        // Years with more than four digits are not shown.
        guard seconds >= 0, seconds < 253_402_300_800 else { return nil }
        var (moment, time) = (time_t(seconds), tm())
        guard localtime_r(&moment, &time) != nil else { return nil }
        guard days > 0 else { return time }
        // A day is not always 24 hours long. So the date is computed, and not the time.
        time.tm_mday -= days
        (time.tm_hour, time.tm_isdst) = (12, -1)
        _ = mktime(&time)
        return time
    }

    private static func isSameDay(_ one: tm, _ other: tm) -> Bool {
        one.tm_year == other.tm_year && one.tm_yday == other.tm_yday
    }

    private static func twoDigits(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
}
