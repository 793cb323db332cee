// SPDX-License-Identifier: Apache-2.0

/// What happens when a program overwrites contents that it has not seen. The raw value is the text in a configuration file.
public enum UnseenPolicy: String, Hashable, Sendable, CaseIterable {
    /// The overwrite goes ahead. The contents that it destroys are preserved.
    case keep
    /// The overwrite fails with EBUSY and changes nothing.
    case fail
    /// The overwrite goes ahead. If the changes of both programs are apart, the file gets the changes of both.
    case merge
    /// Such overwrites are not detected.
    case off
}

/// Which contents of a file are preserved. The raw value is the text in a configuration file.
public enum KeepPolicy: String, Hashable, Sendable, CaseIterable {
    /// Contents that would be lost.
    case losses
    /// The contents before each write.
    case writes
}

/// Which accesses to a file the log contains. The raw value is the text in a configuration file.
public enum LogPolicy: String, Hashable, Sendable, CaseIterable {
    /// All accesses that change the file or its name.
    case changes
    /// Reads, too.
    case reads
}

/// One setting of an entry `[[paths]]` in a configuration file, with its value.
public enum PathSetting: Hashable, Sendable {
    case unseen(UnseenPolicy)
    case itemClass(ItemClass)
    case keep(KeepPolicy)
    case keepFor(TimeSpan)
    case keepCount(Int)
    case log(LogPolicy)
    /// How long an open, or a truncation by a path, waits for other programs.
    case wait(TimeSpan)
    /// How long an open handle makes other programs wait.
    case hold(TimeSpan)

    /// A kind of setting. The raw value is its name in a configuration file.
    public enum Kind: String, Hashable, Sendable, CaseIterable {
        case unseen
        case itemClass = "class"
        case keep
        case keepFor = "keep-for"
        case keepCount = "keep-count"
        case log
        case wait
        case hold
    }

    public var kind: Kind {
        switch self {
        case .unseen: .unseen
        case .itemClass: .itemClass
        case .keep: .keep
        case .keepFor: .keepFor
        case .keepCount: .keepCount
        case .log: .log
        case .wait: .wait
        case .hold: .hold
        }
    }

    /// The value as it is written in a configuration file.
    public var value: String {
        switch self {
        case .unseen(let policy): policy.rawValue
        case .itemClass(let itemClass): itemClass.rawValue
        case .keep(let policy): policy.rawValue
        case .keepFor(let span): span.text
        case .keepCount(let count): "\(count)"
        case .log(let policy): policy.rawValue
        case .wait(let span), .hold(let span): span.text
        }
    }
}

/// A rule of a configuration file: the value of one setting, for files with certain paths and for certain programs.
public struct PathRule: Hashable, Sendable {
    public let pattern: PathGlob
    /// The tables of the programs to which the rule applies; nil if it applies to all programs.
    public let programs: [ProgramTable]?
    public let setting: PathSetting
    /// The path of the file with the rule, and the line of the setting in this file.
    public let file: String
    public let line: Int

    public init(
        _ pattern: PathGlob, programs: [ProgramTable]? = nil, _ setting: PathSetting, file: String, line: Int
    ) {
        self.pattern = pattern
        self.programs = programs
        self.setting = setting
        self.file = file
        self.line = line
    }
}
