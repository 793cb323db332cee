// SPDX-License-Identifier: Apache-2.0
import FuseBridge
import LinuxSystem

/// A rename with what it finds; a class, as it is copied at each hand it goes through otherwise.
final class RenameOperation: Sendable {
    let from: NameChange
    let to: NameChange
    let flags: UInt32
    let status: FileStatus
    let node: Node
    /// Keep nodes known until the step is over that the kernel does not know.
    let visits: [RetainedNode]
    let targetStatus: FileStatus?
    let target: Node?
    /// The name that is given up is none that the document is followed by.
    let isOfOtherLink: Bool
    /// The name that is taken away is none that the target's document is followed by.
    let isOverOtherLink: Bool

    init(
        from: NameChange, to: NameChange, flags: UInt32, status: FileStatus, node: Node,
        visits: [RetainedNode], targetStatus: FileStatus?, target: Node?, isOfOtherLink: Bool,
        isOverOtherLink: Bool
    ) {
        self.from = from
        self.to = to
        self.flags = flags
        self.status = status
        self.node = node
        self.visits = visits
        self.targetStatus = targetStatus
        self.target = target
        self.isOfOtherLink = isOfOtherLink
        self.isOverOtherLink = isOverOtherLink
    }

    /// Whether the file has other names than the one that is given up.
    var isOneOfSeveral: Bool { status.linkCount > 1 && !status.isDirectory }
    /// The same of what has the new name.
    var isTargetOneOfSeveral: Bool {
        targetStatus.map { $0.linkCount > 1 && !$0.isDirectory } ?? false
    }
    /// Whether it stays what it is, whatever its new name says (``Node/keepsName(insteadOf:in:)``).
    var keepsClass: Bool { isOneOfSeveral && node.itemClass != .private }

    var isExchange: Bool { flags & RenameFlags.exchange != 0 }

    /// Whether the source becomes the target's document. Where a file comes from is uncertain, what it does
    /// is not: the contents under the name have changed. Anything but a file over a file is a replacement.
    var isUpdate: Bool {
        status.isRegularFile && targetStatus?.isRegularFile == true && !isOverOtherLink
    }
}
