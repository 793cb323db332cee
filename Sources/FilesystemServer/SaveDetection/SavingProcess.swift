// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// The number this file system gave a file, which is never used for another while the mount lives.
///
/// Inode numbers will not do: ext4 hands the number of an unlinked file to the next one created, so
/// "unlinked and created again" looks like the same file.
package struct NodeNumber: Hashable, Comparable, Sendable {
    package let rawValue: UInt64
    package init(_ rawValue: UInt64) { self.rawValue = rawValue }
    package static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }
}

/// Who saves: a process with what is needed to tell that another one works for the same save.
///
/// Read at the first operation and not later: in `sed D >T && mv T D` the process that made T is gone
/// when T is renamed.
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
    /// A process is its number and its start time together, so a reused number is somebody else.
    package func isSameSave(as other: SavingProcess) -> Bool {
        if process == other.process { return true }
        if parent == other.process || other.parent == process { return true }
        guard let parent, let otherParent = other.parent else { return false }
        return parent == otherParent && session == other.session
    }

    /// Whether both are one program: one process, or parent and child.
    ///
    /// Narrower than ``isSameSave(as:)``: siblings may finish each other's save, but a sibling that only looks
    /// is somebody else. An editor and the `grep` beside it are children of one shell.
    package func isOneProgram(with other: SavingProcess) -> Bool {
        process == other.process || parent == other.process || other.parent == process
    }
}
