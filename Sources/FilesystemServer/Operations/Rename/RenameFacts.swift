// SPDX-License-Identifier: Apache-2.0
import LinuxSystem

/// A rename with its nodes and their status; a class, because a struct of this size would be copied each time it is passed on.
final class RenameFacts: NameFacts {
    let from: NameChange
    let to: NameChange
    let flags: UInt32
    let status: FileStatus
    let node: Node
    /// Nodes that the kernel does not know; they stay known until the step is over.
    let visits: [RetainedNode]
    let targetStatus: FileStatus?
    let target: Node?
    /// Whether the document is tracked by another name than the old name.
    let isOfOtherLink: Bool
    /// Whether the target's document is tracked by another name than the replaced name.
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

    var change: NameChange { from }

    /// Whether the file has other names than the old name.
    var isOneOfSeveral: Bool { status.linkCount > 1 && !status.isDirectory }
    /// Whether the target has other names than the new name.
    var isTargetOneOfSeveral: Bool {
        targetStatus.map { $0.linkCount > 1 && !$0.isDirectory } ?? false
    }
    /// Whether it keeps its class under any new name (``Node/keepsName(insteadOf:in:)``).
    var keepsClass: Bool { isOneOfSeveral && node.itemClass != .private }

    var isExchange: Bool { flags & RenameFlags.exchange != 0 }

    /// Whether the source becomes the target's document. The origin of a file is uncertain, but its effect is not: the contents
    /// under the name have changed. Any rename but that of a file over a file is a replacement.
    var isUpdate: Bool {
        status.isRegularFile && targetStatus?.isRegularFile == true && !isOverOtherLink
    }
}
