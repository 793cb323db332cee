// SPDX-License-Identifier: Apache-2.0
package import Coordination
import LinuxSystem

/// The rules about programs and paths. They come from three sources: Truce itself, the administrator's file, and the file of the user
/// that mounts.
package struct Rules: Sendable {
    /// One source of rules: its rules, or the reason why its file could not be used.
    package struct Source: Sendable {
        package let path: String
        package var programs: [ProgramRule] = []
        package var paths: [PathRule] = []
        package var problem: RuleProblem?

        /// The fault of the file as a sentence for users; nil if the file has no fault.
        package var problemText: String? {
            problem.map { $0.text(in: path) + "; nothing of that file is in force" }
        }
    }

    package static let systemPath = "/etc/truce/truce.toml"
    /// The name by which users see the rules that are part of Truce.
    package static let shippedName = "shipped"

    /// The sources of the rules. If two sources have rules for the same program, the rule of the later source applies.
    package let sources: [Source]

    /// Only the rules that are part of Truce.
    package static let shipped = Rules(sources: [shippedSource])

    private static let shippedSource: Source = {
        do throws(RuleProblem) {
            let file = try RuleFile(parsing: PackageResources.truce_toml, from: shippedName)
            return Source(path: shippedName, programs: file.programs, paths: file.paths)
        } catch {
            // This cannot happen: a test checks that the rules that are part of Truce can be parsed.
            preconditionFailure(error.text(in: "truce.toml"))
        }
    }()

    private init(sources: [Source]) { self.sources = sources }

    /// Reads the administrator's file and the file of `user`, which is the user that mounts.
    ///
    /// If a file has a fault, none of its rules is in force. The mount does not fail, because the machine possibly needs the
    /// mount to boot. The user's file must belong to that user or to root.
    package init(system: String = systemPath, userFile: String?, of user: UInt32, systemOwner: UInt32 = 0) {
        var sources = [Self.shippedSource]
        if let source = Self.read(system, ownedBy: [systemOwner]) { sources.append(source) }
        if let userFile, let source = Self.read(userFile, ownedBy: [0, user]) { sources.append(source) }
        self.sources = sources
    }

    /// Reads one file; returns nil if the file does not exist.
    private static func read(_ path: String, ownedBy owners: Set<UInt32>) -> Source? {
        do throws(RuleProblem) {
            guard let file = try RuleFile(at: path, ownedBy: owners) else { return nil }
            return Source(path: path, programs: file.programs, paths: file.paths)
        } catch {
            return Source(path: path, problem: error)
        }
    }

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
    package init?(at path: String, ownedBy owners: Set<UInt32>) throws(RuleProblem) {
        let bytes: [UInt8]?
        do throws(TrustedFile.Refusal) {
            bytes = try TrustedFile.read(path, ownedBy: owners, atMost: Self.longest)
        } catch {
            throw RuleProblem(error, limit: Self.longest)
        }
        guard let bytes else { return nil }
        try self.init(parsing: bytes, from: path)
    }
}
