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

/// Who acts: a process with the ancestors that count as itself.
public struct Party: Hashable, Sendable {
    /// Nil for nobody: a thread that is gone, the kernel, or another pid namespace's.
    public let process: ProcessID?
    /// From the parent upwards, without pid 1 and service managers.
    public let ancestors: [ProcessID]
    public let programClass: ProgramClass

    public init(process: ProcessID?, ancestors: [ProcessID], programClass: ProgramClass = .ordinary) {
        self.process = process
        self.ancestors = ancestors
        self.programClass = programClass
    }

    /// Somebody who cannot be named, and so is exempt from nobody.
    public static let nobody = Party(process: nil, ancestors: [])

    /// Whether two parties never wait for each other: one process, or one an ancestor of the other.
    public func isExempt(from other: Party) -> Bool {
        guard let process, let otherProcess = other.process else { return false }
        return process == otherProcess || ancestors.contains(otherProcess)
            || other.ancestors.contains(process)
    }
}
