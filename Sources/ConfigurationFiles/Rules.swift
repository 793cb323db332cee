// SPDX-License-Identifier: Apache-2.0
package import Coordination
import LinuxSystem

/// The rules about programs and paths. They come from four sources: Truce itself, a file in the source of the mount, the
/// administrator's file, and the file of the user that mounts.
package struct Rules: Sendable {
    /// One source of rules: its rules, or the reason why its file could not be used.
    ///
    /// If a file had no fault when it was read before, the rules of that time stay in force.
    package struct Source: Hashable, Sendable {
        package let path: String
        package var programs: [ProgramRule] = []
        package var paths: [PathRule] = []
        package var problem: RuleProblem?

        /// The fault of the file as a sentence for users; nil if the file has no fault.
        package var problemText: String? {
            let hasRules = !programs.isEmpty || !paths.isEmpty
            let consequence =
                hasRules ? "the rules that it had before stay in force" : "nothing of that file is in force"
            return problem.map { "\($0.text(in: path)); \(consequence)" }
        }
    }

    /// The name by which users see the rules that are part of Truce.
    package static let shippedName = "shipped"

    /// The sources of the rules. If two sources have rules for the same program, the rule of the later source applies.
    package let sources: [Source]

    /// Only the rules that are part of Truce.
    package static let shipped = Rules(sources: [shippedSource])

    static let shippedSource: Source = {
        do throws(RuleProblem) {
            let file = try RuleFile(parsing: PackageResources.truce_toml, from: shippedName)
            return Source(path: shippedName, programs: file.programs, paths: file.paths)
        } catch {
            // This cannot happen: a test checks that the rules that are part of Truce can be parsed.
            preconditionFailure(error.text(in: "truce.toml"))
        }
    }()

    init(sources: [Source]) { self.sources = sources }

    /// The path of a user's own configuration file, by the environment variables of that user. Nil if the variables contain no
    /// directory.
    ///
    /// A path in `XDG_CONFIG_HOME` that is not absolute is ignored, as the XDG specification demands.
    package static func userFile(environment: (String) -> String?) -> String? {
        if let directory = environment("XDG_CONFIG_HOME"), directory.hasPrefix("/") {
            return directory + "/truce/truce.toml"
        }
        guard let home = environment("HOME"), home.hasPrefix("/") else { return nil }
        return home + "/.config/truce/truce.toml"
    }

    /// The rules of all sources. If several rules fit the name of a program, the first of them applies.
    package var programs: [ProgramRule] { sources.reversed().flatMap(\.programs) }

    /// The rules for paths of all sources. If several rules for a setting fit a file, the last of them applies.
    package var paths: [PathRule] { sources.flatMap(\.paths) }

    /// One sentence for each file that could not be used.
    package var problems: [String] { sources.compactMap(\.problemText) }
}

extension RuleFile {
    /// Reads and parses a file; nil if the file does not exist. Throws if the file is not trusted or has a fault.
    ///
    /// A file with the name of a file in a source may contain only what such a file may contain.
    package init?(at path: String, ownedBy owners: Set<UInt32>) throws(RuleProblem) {
        let finding: TrustedFile.Finding
        do throws(TrustedFile.Refusal) {
            finding = try TrustedFile.read(path, ownedBy: owners, atMost: Self.longest)
        } catch {
            throw RuleProblem(error, limit: Self.longest)
        }
        guard case .contents(let bytes, _) = finding else { return nil }
        let isInSource = path.split(separator: "/").last.map { $0 == RuleFiles.nameInSource } ?? false
        try self.init(parsing: bytes, as: isInSource ? .source : .everywhere, from: path)
    }
}
