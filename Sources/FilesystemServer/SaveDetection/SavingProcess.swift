// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// The number of a file in this file system, which no other file gets while the mount lives.
///
/// Inode numbers do not suffice: ext4 gives the number of an unlinked file to the next new file. An unlinked and newly
/// created file would look like the same file.
package struct NodeNumber: Hashable, Comparable, Sendable {
    package let rawValue: UInt64
    package init(_ rawValue: UInt64) { self.rawValue = rawValue }
    package static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }
}

/// A process that saves, with the data to tell whether another process works for the same save.
///
/// Read at the first operation and not later: in `sed D >T && mv T D` the process that made T is gone when T is
/// renamed.
package struct SavingProcess: Hashable, Sendable {
    package let process: ProcessID
    package let parent: ProcessID?
    package let session: Int32

    package init(process: ProcessID, parent: ProcessID?, session: Int32) {
        self.process = process
        self.parent = parent
        self.session = session
    }

    /// Whether both may be steps of one save: one process, parent and child, or siblings of one session.
    ///
    /// A process is its number and its start time together, so a reused number is another process.
    package func isSameSave(as other: SavingProcess) -> Bool {
        if process == other.process { return true }
        if parent == other.process || other.parent == process { return true }
        guard let parent, let otherParent = other.parent else { return false }
        return parent == otherParent && session == other.session
    }

    /// Whether both are one program: one process, or parent and child.
    ///
    /// Narrower than ``isSameSave(as:)``: siblings may finish each other's save, but a sibling that only reads is
    /// another program. An editor and the `grep` beside it are children of one shell.
    package func isOneProgram(with other: SavingProcess) -> Bool {
        process == other.process || parent == other.process || other.parent == process
    }
}
