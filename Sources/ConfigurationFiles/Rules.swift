// SPDX-License-Identifier: Apache-2.0
package import Coordination
import LinuxSystem

/// The rules about programs: those shipped, the administrator's, and those of the user that mounts.
package struct Rules: Sendable {
    /// A file with rules, or the reason why it could not be read.
    package struct Source: Sendable {
        package let path: String
        package var programs: [ProgramRule] = []
        package var problem: RuleProblem?

        /// The fault of the file, for users.
        package var problemText: String? {
            problem.map { $0.text(in: path) + "; nothing of that file is in force" }
        }
    }

    package static let systemPath = "/etc/truce/truce.toml"
    /// The name of the shipped rules, for users.
    package static let shippedName = "shipped"

    /// The rules of later sources decide first.
    package let sources: [Source]

    /// The shipped rules alone.
    package static let shipped = Rules(sources: [shippedSource])

    private static let shippedSource: Source = {
        do throws(RuleProblem) {
            let file = try RuleFile(parsing: PackageResources.truce_toml)
            return Source(path: shippedName, programs: file.programs)
        } catch {
            // A test parses the shipped rules.
            preconditionFailure(error.text(in: "truce.toml"))
        }
    }()

    private init(sources: [Source]) { self.sources = sources }

    /// Reads the files.
    ///
    /// A file with a fault is left out as a whole, because a mount, which may be needed at boot, must not fail for it. `user`
    /// makes the mount. The file of that user must belong to that user or root.
    package init(system: String = systemPath, userFile: String?, of user: UInt32, systemOwner: UInt32 = 0) {
        var sources = [Self.shippedSource]
        if let source = Self.read(system, ownedBy: [systemOwner]) { sources.append(source) }
        if let userFile, let source = Self.read(userFile, ownedBy: [0, user]) { sources.append(source) }
        self.sources = sources
    }

    /// Nil if there is no such file.
    private static func read(_ path: String, ownedBy owners: Set<UInt32>) -> Source? {
        do throws(RuleProblem) {
            guard let file = try RuleFile(at: path, ownedBy: owners) else { return nil }
            return Source(path: path, programs: file.programs)
        } catch {
            return Source(path: path, problem: error)
        }
    }

    /// The path of a user's own file, by the environment; nil if the environment names no directory.
    ///
    /// The XDG specification says to ignore a path that is not absolute.
    package static func userFile(environment: (String) -> String?) -> String? {
        if let directory = environment("XDG_CONFIG_HOME"), directory.hasPrefix("/") {
            return directory + "/truce/truce.toml"
        }
        guard let home = environment("HOME"), home.hasPrefix("/") else { return nil }
        return home + "/.config/truce/truce.toml"
    }

    /// The rules, in the order in which they decide.
    package var programs: [ProgramRule] { sources.reversed().flatMap(\.programs) }

    /// The faults of the files, one sentence for each file.
    package var problems: [String] { sources.compactMap(\.problemText) }
}

extension RuleFile {
    /// Nil if there is no such file.
    package init?(at path: String, ownedBy owners: Set<UInt32>) throws(RuleProblem) {
        let bytes: [UInt8]?
        do throws(TrustedFile.Refusal) {
            bytes = try TrustedFile.read(path, ownedBy: owners, atMost: Self.longest)
        } catch {
            throw RuleProblem(error, limit: Self.longest)
        }
        guard let bytes else { return nil }
        try self.init(parsing: bytes)
    }
}
