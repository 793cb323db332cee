// SPDX-License-Identifier: Apache-2.0
package import Coordination
import LinuxSystem

/// All that is known of programs: what is shipped, what the administrator says, and what the user says that mounts.
package struct Rules: Sendable {
    /// A file that rules are from, or would be from if it could be read.
    package struct Source: Sendable {
        package let path: String
        package var programs: [ProgramRule] = []
        package var problem: RuleProblem?

        /// The faults, for people.
        package var problemText: String? {
            problem.map { $0.text(in: path) + "; nothing of that file is in force" }
        }
    }

    package static let systemPath = "/etc/truce/truce.toml"
    /// What the shipped rules are called for people.
    package static let shippedName = "shipped"

    /// The later ones decide before the former.
    package let sources: [Source]

    /// The shipped rules alone.
    package static let shipped = Rules(sources: [shippedSource])

    private static let shippedSource: Source = {
        do throws(RuleProblem) {
            let file = try RuleFile(parsing: PackageResources.truce_toml)
            return Source(path: shippedName, programs: file.programs)
        } catch {
            // A test reads them.
            preconditionFailure(error.text(in: "truce.toml"))
        }
    }()

    private init(sources: [Source]) { self.sources = sources }

    /// Reads the files. A file that is wrong is left out as a whole: a mount must not fail for it, which may be one at boot.
    ///
    /// `user` makes the mount. A file in that user's directory is obeyed only if it is that user's or root's.
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

    /// Where a user's own file is, by the environment; nil if that names no directory.
    ///
    /// As the specification of these variables has it, a path that is not absolute counts for none.
    package static func userFile(environment: (String) -> String?) -> String? {
        if let directory = environment("XDG_CONFIG_HOME"), directory.hasPrefix("/") {
            return directory + "/truce/truce.toml"
        }
        guard let home = environment("HOME"), home.hasPrefix("/") else { return nil }
        return home + "/.config/truce/truce.toml"
    }

    /// In the order in which they decide.
    package var programs: [ProgramRule] { sources.reversed().flatMap(\.programs) }

    /// The faults, one sentence for each file.
    package var problems: [String] { sources.compactMap(\.problemText) }
}

extension RuleFile {
    /// Nil if there is none.
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
