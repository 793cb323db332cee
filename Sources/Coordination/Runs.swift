// SPDX-License-Identifier: Apache-2.0

/// A run: the processes of one command that `truce run` has started, under one name.
public struct RunID: Hashable, Sendable {
    /// The number of the run. A mount gives each number once.
    public let number: UInt64
    /// The name that users read.
    public let name: String
    /// The pid of the process `truce run` that holds the run.
    public let pid: Int32

    /// The variable with the tokens of a process's runs, the innermost first, with colons between them.
    public static let variable = "TRUCE_RUN"

    public init(number: UInt64, name: String, pid: Int32) {
        self.number = number
        self.name = name
        self.pid = pid
    }

    /// A process that stands for the run. It is the last ancestor of each process in the run, and it makes the claims of the
    /// run's leases.
    ///
    /// So these claims are exempt from all claims in the run (X7), and the processes of the run still wait for each other.
    public var process: ProcessID { ProcessID(number: ProcessID.runNumber, started: number) }
}

extension ProcessID {
    /// The pid of all processes that stand for runs. No real process has it.
    fileprivate static let runNumber = Int32.min

    /// Whether this is no real process, but stands for a run.
    public var isRun: Bool { number == Self.runNumber }
}

/// The name under which a process acts: the name of its run, or the name that its environment has in `TRUCE_ACTOR`.
public struct ActorName: Hashable, Sendable {
    public enum Kind: String, Hashable, Sendable, CaseIterable {
        /// The process belongs to a run.
        case run
        /// The process belongs to no run, and its environment has a name.
        case actor
    }

    public let kind: Kind
    public let name: String
    /// The number of the run; 0 for a name from the environment.
    public let number: UInt64
    /// The user of the process. Equal names of two users are two actors.
    public let user: UInt32

    public init(_ kind: Kind, _ name: String, number: UInt64 = 0, user: UInt32) {
        self.kind = kind
        self.name = name
        self.number = number
        self.user = user
    }

    /// The variable with the name of a process that belongs to no run.
    public static let variable = "TRUCE_ACTOR"
    /// The most bytes that the name of a run or an actor has.
    public static let longest = 64

    /// Whether a text can be the name of a run or an actor: it is not too long, and has no control characters.
    public static func isValid(_ name: String) -> Bool {
        (1...longest).contains(name.utf8.count)
            && !name.unicodeScalars.contains { $0.properties.generalCategory == .control }
    }
}
