// SPDX-License-Identifier: Apache-2.0
import LinuxSystem

/// How a node's file is reached without its name, and how long that is needed.
///
///     known ──its last name is about to go──▶ orphan
///       │ ▲                                     │ │
///       │ ╰────────the name was not removed─────╯ │
///       ╰─────────FORGET──▶ forgotten ◀───FORGET──╯
///
/// | transition | function |
/// |---|---|
/// | known to orphan, and back | ``becomeOrphan()``, ``cancelOrphan()`` |
/// | to forgotten | ``forget()`` |
/// | descriptor stored, dropped | ``cache(_:)``, ``takeDescriptor()`` |
///
/// 1. A forgotten node stays forgotten. Without pins it stores no descriptor: the budget could not find it in order to
///    close the descriptor.
/// 2. An orphan has a descriptor; or it has a file handle, and a backing file of the kernel.
/// 3. There is one pin for each open handle, which must reach the file even if its name changes.
struct NodeReach {
    private enum Life: UInt8 {
        /// The kernel knows the inode.
        case known
        /// Its last name is gone, or about to go: without the descriptor, the file may be unreachable.
        case orphan
        /// The kernel has forgotten the inode.
        case forgotten
    }

    private(set) var descriptor: SharedDescriptor?
    /// Finds the file without a name. Set once the descriptor of a file in use had to be closed.
    private(set) var fileHandle: PersistentFileHandle?
    private var pins: Int32 = 0
    private var life = Life.known

    var isOrphan: Bool { life == .orphan }
    var isForgotten: Bool { life == .forgotten }
    /// Whether an open handle or the kernel needs the file even without a name.
    var isInUse: Bool { pins > 0 || isOrphan }

    /// Whether the backing file may be closed when no open uses it. An orphan without a descriptor still needs it: its
    /// backing keeps the file in existence.
    func mayLoseBacking(isOutdated: Bool) -> Bool {
        switch life {
        case .known: isOutdated
        case .orphan: descriptor != nil
        case .forgotten: true
        }
    }

    /// Whether the file can be found again without its descriptor. `hasOnlyName`: the known name is its only one.
    func canReopen(hasOnlyName: Bool, hasBacking: Bool) -> Bool {
        if isOrphan { return fileHandle != nil && hasBacking }
        // If the mount removes the last name, it opens the descriptor first.
        return pins == 0 || fileHandle != nil || hasOnlyName
    }

    /// Stores a descriptor, unless another thread was faster. Returns the one to be used, and whether it was stored.
    mutating func cache(_ opened: SharedDescriptor) -> (SharedDescriptor, isNew: Bool) {
        if let descriptor { return (descriptor, false) }
        if isForgotten, pins == 0 { return (opened, false) }
        descriptor = opened
        return (opened, true)
    }

    /// The caller releases the descriptor after the lock.
    mutating func takeDescriptor() -> SharedDescriptor? { descriptor.take() }

    mutating func pin() { pins += 1 }

    /// Returns the descriptor if it is needed no longer.
    mutating func unpin() -> SharedDescriptor? {
        pins -= 1
        return takeUnneeded()
    }

    mutating func becomeOrphan() { if life == .known { life = .orphan } }
    mutating func cancelOrphan() { if life == .orphan { life = .known } }

    /// Returns the descriptor if it is needed no longer.
    mutating func forget() -> SharedDescriptor? {
        life = .forgotten
        return takeUnneeded()
    }

    mutating func noteFileHandle(_ fileHandle: PersistentFileHandle?) {
        if self.fileHandle == nil { self.fileHandle = fileHandle }
    }
    mutating func setFileHandle(_ fileHandle: PersistentFileHandle?) { self.fileHandle = fileHandle }

    private mutating func takeUnneeded() -> SharedDescriptor? {
        isForgotten && pins == 0 ? descriptor.take() : nil
    }
}
