// SPDX-License-Identifier: Apache-2.0

/// A process for as long as it lives: its number may be reused, the pair may not.
public struct ProcessID: Hashable, Sendable, CustomStringConvertible {
    /// Thread-group id.
    public let number: Int32
    /// Clock ticks since boot, field 22 of `/proc/PID/stat`.
    public let started: UInt64

    public init(number: Int32, started: UInt64) {
        self.number = number
        self.started = started
    }

    public var description: String { "\(number)" }
}

/// How a program is treated when its reads meet somebody's writes.
public enum ProgramClass: String, Hashable, Sendable, CaseIterable {
    case ordinary
    /// Backup, sync and indexing: yields to writers, asks nobody to save.
    case background
    /// Compilers in watch mode, language servers, thumbnailers: asks nobody to save.
    case watcher
}

/// What makes accesses of programs that know about Truce one another's own, whoever makes them.
public struct Purpose: Hashable, Sendable {
    public let rawValue: String
    public init(_ rawValue: String) { self.rawValue = rawValue }
}

/// Who acts: a process with the ancestors that count as itself.
public struct Party: Hashable, Sendable {
    /// Nil for nobody: a thread that is gone, the kernel, or another pid namespace's.
    public let process: ProcessID?
    /// From the parent upwards, without pid 1 and service managers.
    public let ancestors: [ProcessID]
    public let programClass: ProgramClass
    /// What `/proc/PID/comm` says; empty if it was not looked up.
    public var program: [UInt8] = []
    public var user: UInt32?
    /// POSIX session id, 0 if unknown.
    public var session: Int32 = 0
    /// Controlling terminals as device numbers, 0 for none: the process's own, then each ancestor's.
    public var terminals: [Int32] = []
    /// The thread that acts, 0 if nobody knows: what one thread of a program holds is not held up by another's wait.
    public var thread: Int32 = 0
    /// Set for accesses over the control socket only.
    public var purpose: Purpose?
    /// Took no turn, because it did not come through the mount.
    public private(set) var isUncoordinated = false

    public init(process: ProcessID?, ancestors: [ProcessID], programClass: ProgramClass = .ordinary) {
        self.process = process
        self.ancestors = ancestors
        self.programClass = programClass
    }

    /// Somebody who cannot be named, and so is exempt from nobody.
    public static let nobody = Party(process: nil, ancestors: [])

    /// Somebody who changed a file without the mount, and was seen by what they left.
    public static let uncoordinated: Party = {
        var party = nobody
        party.isUncoordinated = true
        return party
    }()

    /// Whether two parties never wait for each other: one process, or one an ancestor of the other.
    ///
    /// Between two accesses over the control socket only purposes count: threads of one program may well need to
    /// keep out of each other's way.
    public func isExempt(from other: Party) -> Bool {
        if let purpose, let otherPurpose = other.purpose { return purpose == otherPurpose }
        guard let process, let otherProcess = other.process else { return false }
        return process == otherProcess || ancestors.contains(otherProcess)
            || other.ancestors.contains(process)
    }

    /// Whether this is a presenter's own process, or works for it: a child of an editor is the editor.
    ///
    /// Not if a process on the way has a controlling terminal other than the presenter's: whatever runs in an
    /// editor's terminal pane is somebody else's.
    public func works(for presenter: Party) -> Bool {
        guard let process, let owner = presenter.process else { return false }
        if process == owner { return true }
        guard let distance = ancestors.firstIndex(of: owner) else { return false }
        let home = presenter.terminals.first ?? 0
        return terminals.prefix(distance + 1).allSatisfy { $0 == 0 || $0 == home }
    }
}
