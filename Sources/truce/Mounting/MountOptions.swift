// SPDX-License-Identifier: Apache-2.0
import ControlClient
package import Coordination
package import CoordinationEngine
package import VersionStore

/// The options of a mount, from the words of `-o`.
package struct MountOptions: Hashable, Sendable {
    package var bounds = Bounds()
    package var versionLimits = StoreLimits()
    package var data = DataMode.automatic
    package var allowOther = false
    package var readOnly = false
    package var nosuid = false
    package var nodev = false
    package var noexec = false

    package init() {}

    /// Parses the values of all options `-o`. Each value is a list of words, separated by commas. If two words set the
    /// same mount option, the last word counts.
    ///
    /// An unknown word is an error, or is ignored if `ignoringUnknown` is true.
    package init(parsing lists: [String], ignoringUnknown: Bool = false) throws(CommandFailure) {
        for word in lists.flatMap({ $0.split(separator: ",") }) {
            if ignoringUnknown, !Self.isKnown(String(word)) { continue }
            try apply(String(word))
        }
    }

    /// Splits each argument such as `-owait=5s` into `-o` and `wait=5s`. Other mount tools accept the joined form, but
    /// ArgumentParser does not.
    package static func separatingJoined(_ arguments: [String]) -> [String] {
        guard arguments.first == "mount" else { return arguments }
        let end = arguments.firstIndex(of: "--") ?? arguments.endIndex
        let options = arguments[..<end].flatMap { argument in
            argument.hasPrefix("-o") && argument.count > 2
                ? ["-o", String(argument.dropFirst(2))] : [argument]
        }
        return options + arguments[end...]
    }

    /// The options as words, for the command line of the daemon.
    package var words: [String] {
        var words = Self.durations.map { "\($0.name)=\(bounds[keyPath: $0.bound].milliseconds)ms" }
        words += versionLimits.words
        words += ["policy=\(bounds.policy.rawValue)", "data=\(data.rawValue)"]
        words += Self.flags.filter { $0.value && self[keyPath: $0.option] }.map(\.name)
        return words
    }

    // This is a computed property: a stored static property would need Sendable values, and key paths are not Sendable.
    private static var durations: [(name: String, bound: WritableKeyPath<Bounds, TimeSpan>)] {
        [
            ("wait", \.wait), ("hold", \.hold), ("hold-aware", \.holdAware), ("idle", \.idle),
            ("lockwait", \.lockwait), ("relinquish", \.relinquish), ("save", \.save),
            ("deletion", \.deletion),
            ("ask-again", \.askAgain), ("ask-again-stat", \.askAgainStat),
            ("guest-delay", \.guestDelay),
        ]
    }

    private static var flags: [(name: String, option: WritableKeyPath<MountOptions, Bool>, value: Bool)] {
        [
            ("allow_other", \.allowOther, true), ("ro", \.readOnly, true), ("rw", \.readOnly, false),
            ("nosuid", \.nosuid, true), ("suid", \.nosuid, false), ("nodev", \.nodev, true),
            ("dev", \.nodev, false), ("noexec", \.noexec, true), ("exec", \.noexec, false),
        ]
    }

    /// Options that mount(8) and fstab(5) pass to every file system. They have no effect here.
    private static let harmless: Set<String> = [
        "defaults", "relatime", "norelatime", "noatime", "atime", "nodiratime", "strictatime", "lazytime",
        "nolazytime", "nomand", "noiversion", "async", "silent", "loud", "_netdev", "_rnetdev", "nofail",
        "auto", "noauto", "user", "nouser", "users", "owner", "group",
    ]

    private static func isHarmless(_ word: String) -> Bool {
        harmless.contains(word) || ["x-", "X-", "comment=", "user="].contains { word.hasPrefix($0) }
    }

    private static func isKnown(_ word: String) -> Bool {
        let name = String(word.prefix { $0 != "=" })
        return isHarmless(word) || flags.contains { $0.name == name }
            || durations.contains { $0.name == name }
            || (["policy", "data", "remount"] + StoreLimits.optionNames).contains(name)
    }

    private mutating func apply(_ word: String) throws(CommandFailure) {
        if Self.isHarmless(word) { return }
        if let flag = Self.flags.first(where: { $0.name == word }) {
            self[keyPath: flag.option] = flag.value
            return
        }
        let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let (name, value) = (String(parts[0]), parts.count == 2 ? String(parts[1]) : "")
        if let duration = Self.durations.first(where: { $0.name == name }) {
            guard let span = TimeSpan(parsing: value) else {
                throw Self.badValue(name, value, "a time, for example \(name)=15s or \(name)=250ms")
            }
            bounds[keyPath: duration.bound] = span
            return
        }
        if StoreLimits.optionNames.contains(name) {
            do throws(StoreLimits.WrongValue) {
                return try versionLimits.apply(name, value)
            } catch {
                throw Self.badValue(name, value, error.wanted)
            }
        }
        try applyChoice(name, value)
    }

    private mutating func applyChoice(_ name: String, _ value: String) throws(CommandFailure) {
        if Self.flags.contains(where: { $0.name == name }) {
            throw CommandFailure(.usage, "option '\(name)' takes no value")
        }
        switch name {
        case "policy":
            guard let policy = TimeoutPolicy(rawValue: value) else {
                throw Self.badValue(name, value, "'proceed' or 'fail', for example policy=fail")
            }
            bounds.policy = policy
        case "data":
            guard let mode = DataMode(rawValue: value) else {
                throw Self.badValue(name, value, "'auto' or 'daemon', for example data=daemon")
            }
            data = mode
        case "remount":
            throw CommandFailure(
                .usage,
                "the options of a mount cannot be changed: unmount it, and mount it with the new options")
        default:
            throw CommandFailure(.usage, "unknown option '\(name)'; known are \(Self.known)")
        }
    }

    private static var known: String {
        ((durations.map(\.name) + StoreLimits.optionNames).map { $0 + "=" } + ["policy=", "data="]
            + flags.map(\.name)).joined(separator: ", ")
    }

    private static func badValue(_ name: String, _ value: String, _ wanted: String) -> CommandFailure {
        CommandFailure(.usage, "option '\(name)' cannot be '\(value)': it must be \(wanted)")
    }
}
