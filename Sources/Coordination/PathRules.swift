// SPDX-License-Identifier: Apache-2.0

/// What happens when a program overwrites contents that it has not seen. The raw value is the text in a configuration file.
public enum UnseenPolicy: String, Hashable, Sendable, CaseIterable {
    /// The overwrite goes ahead. The contents that it destroys are preserved.
    case keep
    /// The overwrite fails with EBUSY and changes nothing.
    case fail
    /// Such overwrites are not detected.
    case off
}

/// One setting of an entry `[[paths]]` in a configuration file, with its value.
public enum PathSetting: Hashable, Sendable {
    case unseen(UnseenPolicy)
    case itemClass(ItemClass)

    /// The name of the setting in a configuration file.
    public var name: String {
        switch self {
        case .unseen: "unseen"
        case .itemClass: "class"
        }
    }

    /// The value as it is written in a configuration file.
    public var value: String {
        switch self {
        case .unseen(let policy): policy.rawValue
        case .itemClass(let itemClass): itemClass.rawValue
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
