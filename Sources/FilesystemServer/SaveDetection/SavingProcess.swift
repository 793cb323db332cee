// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// The number of a file in this mount. No other file gets the number while the mount lives.
///
/// Inode numbers do not suffice: ext4 gives the number of an unlinked file to the next new file. A new file would look
/// like the unlinked file.
package struct NodeNumber: Hashable, Comparable, Sendable {
    package let rawValue: UInt64
    package init(_ rawValue: UInt64) { self.rawValue = rawValue }
    package static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }
}

/// A process that may be saving, with the data that show whether another process takes part in the same save.
///
/// The data are read at the process's first operation. Later the process may be gone: in `sed D >T && mv T D`, the
/// process that made T has ended when T is renamed.
package struct SavingProcess: Hashable, Sendable {
    package let process: ProcessID
    package let parent: ProcessID?
    package let session: Int32

    package init(process: ProcessID, parent: ProcessID?, session: Int32) {
        self.process = process
        self.parent = parent
        self.session = session
    }

    /// Returns whether operations of the two processes may be steps of one save. They are the same process, parent and
    /// child, or siblings of one session.
    ///
    /// A process is identified by its number and its start time, so a process with a reused number is another process.
    package func isSameSave(as other: SavingProcess) -> Bool {
        if process == other.process { return true }
        if parent == other.process || other.parent == process { return true }
        guard let parent, let otherParent = other.parent else { return false }
        return parent == otherParent && session == other.session
    }

    /// Returns whether the two processes count as one program: they are the same process, or parent and child.
    ///
    /// This is stricter than ``isSameSave(as:)``. A sibling may finish the other's save, but a sibling that only reads is
    /// another program. For example, an editor and the `grep` beside it are children of one shell.
    package func isOneProgram(with other: SavingProcess) -> Bool {
        process == other.process || parent == other.process || other.parent == process
    }
}
