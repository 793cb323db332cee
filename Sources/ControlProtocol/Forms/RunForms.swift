// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// The parameters of `run/begin`.
package struct RunBeginParameters: Hashable, Sendable, Codable {
    private enum Key: String, CodingKey { case name, write, read, uncoordinated }

    /// The name of the run, which users read.
    package var name: String
    /// The globs of documents for which other programs wait, even to read; relative to the root of the mount.
    package var write: [String]
    /// The globs of documents for which other writers wait.
    package var read: [String]
    /// Whether the processes of the run pass all waits; missing if not.
    package var uncoordinated: Bool?

    package init(name: String, write: [String] = [], read: [String] = [], isUncoordinated: Bool = false) {
        (self.name, self.write, self.read) = (name, write, read)
        uncoordinated = isUncoordinated ? true : nil
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: Key.self)
        name = try container.decode(String.self, forKey: .name)
        guard ActorName.isValid(name) else {
            throw ProtocolFailure.invalidParameters(
                "'name' has from 1 to \(ActorName.longest) bytes of text without control characters")
        }
        write = try container.decodeIfPresent([String].self, forKey: .write) ?? []
        read = try container.decodeIfPresent([String].self, forKey: .read) ?? []
        guard max(write.count, read.count) <= ProtocolLimits.globs else {
            throw ProtocolFailure.invalidParameters(
                "'write' and 'read' have at most \(ProtocolLimits.globs) globs each")
        }
        for glob in write + read where !(1...LeasePattern.longest).contains(glob.utf8.count) {
            throw ProtocolFailure.invalidParameters("a glob has from 1 to \(LeasePattern.longest) bytes")
        }
        uncoordinated = try container.decodeIfPresent(Bool.self, forKey: .uncoordinated)
    }

    /// The leases of the globs. Throws if a glob has the wrong form.
    package func leases() throws(ProtocolFailure) -> [Lease] {
        var leases: [Lease] = []
        for (globs, isWrite) in [(write, true), (read, false)] {
            for glob in globs {
                do throws(LeasePattern.Problem) {
                    leases.append(Lease(try LeasePattern(glob), isWrite: isWrite))
                } catch {
                    throw .invalidParameters("the glob '\(glob.excerpt)' \(error.message)")
                }
            }
        }
        return leases
    }
}

package struct RunBeginResult: Hashable, Sendable, Codable {
    package var run: UInt64
    /// The value of TRUCE_RUN in the environment of the run's processes.
    package var token: String

    package init(run: UInt64, token: String) { (self.run, self.token) = (run, token) }
}

package struct RunEndParameters: Hashable, Sendable, Codable {
    package var run: UInt64
    package init(run: UInt64) { self.run = run }
}

/// The parameters of the notice `run/suspended`: other programs no longer wait for the leases of a run.
package struct RunSuspendedForm: Hashable, Sendable, Codable {
    package static let method = "run/suspended"

    package var run: UInt64
    /// The reason: `holdExpired`, `deadlocked` or `tooMany`.
    package var reason: String
    /// The reason as a part of a sentence about the leases.
    package var words: String

    package init(run: UInt64, reason: String, words: String) {
        (self.run, self.reason, self.words) = (run, reason, words)
    }
}

/// A run in the reply to `status`.
package struct RunForm: Hashable, Sendable, Codable {
    package var run: UInt64
    package var name: String
    /// The process `truce run`.
    package var pid: Int32
    package var user: UInt32
    package var write: [String]
    package var read: [String]
    package var uncoordinated: Bool
    /// Whether the run waits to begin, because its leases conflict with those of an earlier run.
    package var isWaiting: Bool
    /// The reason for which the leases are suspended; nil if they are not.
    package var suspension: String?
    /// The number of documents that the run holds for its leases.
    package var documents: Int

    package init(
        run: UInt64, name: String, pid: Int32, user: UInt32, write: [String], read: [String],
        uncoordinated: Bool, isWaiting: Bool, suspension: String?, documents: Int
    ) {
        (self.run, self.name, self.pid, self.user) = (run, name, pid, user)
        (self.write, self.read, self.uncoordinated) = (write, read, uncoordinated)
        (self.isWaiting, self.suspension, self.documents) = (isWaiting, suspension, documents)
    }
}
