// SPDX-License-Identifier: Apache-2.0

/// The parameters of `config/show`: the path of the file that the client asks about.
package struct SettingsParameters: Hashable, Sendable, Codable {
    package var path: PathForm

    package init(path: [UInt8]) { self.path = PathForm(path) }

    package init(from decoder: any Decoder) throws {
        path = try PathForm(required: decoder).checkedBelowRoot()
    }
    package func encode(to encoder: any Encoder) throws { try path.encode(to: encoder) }
}

/// The settings that hold for a file.
package struct SettingsResult: Hashable, Sendable, Codable {
    /// The entries, sorted by setting. The first entry of a setting that is for a program decides for this program.
    package var settings: [SettingForm]
    /// Whether entries are missing, because they are too long for one message.
    package var isTruncated: Bool

    package init(settings: [SettingForm], isTruncated: Bool = false) {
        self.settings = settings
        self.isTruncated = isTruncated
    }
}

/// The value of one setting for a file, and the line of a configuration file that decides it.
package struct SettingForm: Hashable, Sendable, Codable {
    package var name: String
    package var value: String
    /// The tables of the programs for which the value holds; nil if it holds for all programs.
    package var programs: [String]?
    /// The pattern that fits the file; nil if the value is the standard value.
    package var pattern: String?
    /// The path of the file with the rule, and the line in it. They are nil for the standard value, and for a guest.
    package var file: String?
    package var line: Int?

    package init(
        name: String, value: String, programs: [String]? = nil, pattern: String? = nil, file: String? = nil,
        line: Int? = nil
    ) {
        self.name = name
        self.value = value
        self.programs = programs
        self.pattern = pattern
        self.file = file
        self.line = line
    }
}
