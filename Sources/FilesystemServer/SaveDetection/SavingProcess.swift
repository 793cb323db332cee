// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// The number by which the daemon identifies a file of this mount. No other file ever gets this number while the mount
/// exists.
///
/// Inode numbers are not enough: ext4 gives the number of an unlinked file to the next new file. That new file would be
/// taken for the unlinked one.
package struct NodeNumber: Hashable, Comparable, Sendable {
    package let rawValue: UInt64
    package init(_ rawValue: UInt64) { self.rawValue = rawValue }
    package static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }
}

/// A process that may be saving, with the data that show which other processes take part in the same save.
///
/// The data are read at the process's first operation, because later the process may have ended. For example, in `sed D
/// >T && mv T D`, the process that made T has ended when T is renamed.
package struct SavingProcess: Hashable, Sendable {
    package let process: ProcessID
    package let parent: ProcessID?
    package let session: Int32

    package init(process: ProcessID, parent: ProcessID?, session: Int32) {
        self.process = process
        self.parent = parent
        self.session = session
    }

    /// Returns whether operations of the two processes can be steps of the same save. That is so if they are the same
    /// process, parent and child, or siblings in the same session.
    ///
    /// A process is identified by its number and its start time, because the kernel gives the number of an ended process to a
    /// new one.
    package func isSameSave(as other: SavingProcess) -> Bool {
        if process == other.process { return true }
        if parent == other.process || other.parent == process { return true }
        guard let parent, let otherParent = other.parent else { return false }
        return parent == otherParent && session == other.session
    }

    /// Returns whether the two processes count as the same program: they are the same process, or parent and child.
    ///
    /// Siblings do not count as the same program here, although they count as parts of one save in ``isSameSave(as:)``. A
    /// sibling may finish a save. But an editor and a `grep` that run side by side in a shell are also siblings, and are
    /// different programs.
    package func isOneProgram(with other: SavingProcess) -> Bool {
        process == other.process || parent == other.process || other.parent == process
    }
}
