// SPDX-License-Identifier: Apache-2.0
import LinuxSystem

/// How the daemon reaches a node's file without the file's name, and how long this must be possible.
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
/// 1. A forgotten node stays forgotten. Without a pin it stores no descriptor. The budget could not find the node, and so could
///    never close the descriptor.
/// 2. An orphan has a descriptor. Or it has a file handle, and the kernel holds a backing file of it.
/// 3. The node has one pin for each open handle. A pin means that the file must be reached even if its name changes.
struct NodeReach {
    private enum Life: UInt8 {
        /// The kernel knows the file's inode.
        case known
        /// The last name of the file was removed, or is about to be removed. Without a descriptor, the file could not be
        /// reached.
        case orphan
        /// The kernel has forgotten the file's inode.
        case forgotten
    }

    private(set) var descriptor: SharedDescriptor?
    /// The file handle, by which the file is found without a name. It is set only if the descriptor of a file in use had to be
    /// closed.
    private(set) var fileHandle: PersistentFileHandle?
    private var pins: Int32 = 0
    private var life = Life.known

    var isOrphan: Bool { life == .orphan }
    var isForgotten: Bool { life == .forgotten }
    /// Whether the file must be reached without a name, because it has an open handle or is an orphan.
    var isInUse: Bool { pins > 0 || isOrphan }

    /// Whether the backing file may be closed when no open uses it. False for an orphan without a descriptor, because this file
    /// exists only while the kernel holds the backing file.
    func mayLoseBacking(isOutdated: Bool) -> Bool {
        switch life {
        case .known: isOutdated
        case .orphan: descriptor != nil
        case .forgotten: true
        }
    }

    /// Whether the file can be found again without its descriptor. `hasOnlyName` means that the file has only its known name.
    func canReopen(hasOnlyName: Bool, hasBacking: Bool) -> Bool {
        if isOrphan { return fileHandle != nil && hasBacking }
        // A file with only one name can be found by this name. Before the mount removes the name, it opens the descriptor.
        return pins == 0 || fileHandle != nil || hasOnlyName
    }

    /// Stores a descriptor, unless one is stored already or the node is not in use. Returns the descriptor that the caller
    /// should use, and whether `opened` was stored.
    mutating func cache(_ opened: SharedDescriptor) -> (SharedDescriptor, isNew: Bool) {
        if let descriptor { return (descriptor, false) }
        if isForgotten, pins == 0 { return (opened, false) }
        descriptor = opened
        return (opened, true)
    }

    /// Takes out the descriptor. The caller releases the lock first, and then the descriptor.
    mutating func takeDescriptor() -> SharedDescriptor? { descriptor.take() }

    mutating func pin() { pins += 1 }

    /// Removes a pin, because a handle is closed. If the node does not need its descriptor any more, returns the
    /// descriptor; otherwise nil.
    mutating func unpin() -> SharedDescriptor? {
        pins -= 1
        return takeUnneeded()
    }

    mutating func becomeOrphan() { if life == .known { life = .orphan } }
    mutating func cancelOrphan() { if life == .orphan { life = .known } }

    /// Notes that the kernel has forgotten the inode. If the node does not need its descriptor any more, returns the
    /// descriptor; otherwise nil.
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
