// SPDX-License-Identifier: Apache-2.0

/// Whether the contents of a version are still in dispute (D218).
package enum Standing: String, Hashable, Sendable {
    /// The version is not in dispute.
    case plain
    /// A program saved over the contents, and the two contents are not compared yet.
    case suspected
    /// Two programs disagree about the contents. The version stays until it is resolved, within the owner's limit.
    case conflict
    /// The version was a conflict, and a user or a program has resolved it.
    case resolved

    /// Whether the version counts as a conflict: it is evicted last, and never because of its age.
    package var isConflict: Bool { self == .suspected || self == .conflict }
}

/// The result of the comparison for a version whose standing is ``Standing/suspected``.
package enum Verdict: Hashable, Sendable {
    /// The saver's contents lack something of the version. The version becomes a conflict.
    case conflict
    /// The saver's contents have everything of the version. The version is dropped.
    case nothingLost
}

/// A program that has part in a version: it wrote the contents, or it saved over them.
package struct VersionActor: Hashable, Sendable {
    /// The most bytes of a program's or run's name in the log. Longer names are cut.
    package static let longestName = 255

    /// The name of the program, such as `vim`.
    package let program: String
    /// The process ID at that time; nil if it is not known. Another process can have the number now.
    package let process: Int32?
    package let user: UInt32?
    /// The name of the run of `truce run`, or the value of `TRUCE_ACTOR`; nil if the program ran without them.
    package let run: String?

    package init(program: String, process: Int32? = nil, user: UInt32? = nil, run: String? = nil) {
        self.program = Self.cut(program)
        self.process = process
        self.user = user
        self.run = run.map(Self.cut)
    }

    private static func cut(_ name: String) -> String {
        guard name.utf8.count > longestName else { return name }
        var short = ""
        for character in name {
            guard short.utf8.count + character.utf8.count <= longestName else { break }
            short.append(character)
        }
        return short
    }

    /// The most bytes that the names take in a line of the log, in which a byte can become six.
    var lineRoom: Int { 64 + 6 * (program.utf8.count + (run?.utf8.count ?? 0)) }
}

/// Where the contents of a version come from, and why they were preserved (D217).
///
/// Every value is optional, because not every cause has all of them, and an earlier release wrote none of them.
package struct Provenance: Hashable, Sendable {
    /// The program that wrote the contents.
    package var author: VersionActor?
    /// The program that saved over the contents, or was about to.
    package var saver: VersionActor?
    /// The generation of the document that the saver had read last, as text.
    package var readGeneration: String?
    /// The time at which the contents that the saver had read were written, in nanoseconds since 1970.
    package var readTime: Int64?
    /// The generation of the contents, as text.
    package var generation: String?
    /// The name of the conflict copy that has the contents; nil if they come from the document itself. The conflict copy was in
    /// the directory of the document.
    package var conflictCopy: [UInt8]?

    package init(
        author: VersionActor? = nil, saver: VersionActor? = nil, readGeneration: String? = nil,
        readTime: Int64? = nil, generation: String? = nil, conflictCopy: [UInt8]? = nil
    ) {
        (self.author, self.saver) = (author, saver)
        (self.readGeneration, self.readTime) = (readGeneration, readTime)
        self.generation = generation
        self.conflictCopy = conflictCopy
    }

    var lineRoom: Int {
        [author, saver].reduce(96) { $0 + ($1?.lineRoom ?? 0) }
            + 6 * [readGeneration, generation].reduce(0) { $0 + ($1?.utf8.count ?? 0) }
            + 2 * (conflictCopy?.count ?? 0)
    }
}

/// When a version and its log line are on the disk.
package enum Durability: Hashable, Sendable {
    /// They are on the disk when the preserving function returns.
    case immediate
    /// They survive a kill of the daemon at once. They survive a power cut after ``VersionStore/synchronizeDeferred()``, which
    /// the daemon calls within 500 ms. The bytes of a copy are on the disk at once.
    case deferred
}
