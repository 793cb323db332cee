// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem

/// Names and files that were changed around the mount, until it is told what became of them.
///
/// Only that something has happened to a name is remembered; what, the directory says when it is quiet. So a save by
/// any number of steps is one change, and what came and went is nothing.
struct OutOfBandChanges {
    struct DirtyName {
        var directory: Node
        let name: NameBytes
        var mask: ChangeWatch.ChangeMask
        /// Anything may have happened, and nobody has seen it.
        var isSupposed = false

        var key: DocumentTable.EntryName { DocumentTable.EntryName(name, in: directory) }

        mutating func join(_ other: DirtyName) {
            let isSeen = isKnown || other.isKnown
            mask.formUnion(other.mask)
            isSupposed = !isSeen && (isSupposed || other.isSupposed)
        }

        private var isKnown: Bool { !mask.isEmpty && !isSupposed }
    }

    struct DirtyNode {
        let node: Node
        var mask: ChangeWatch.ChangeMask
    }

    /// How long nothing may happen before it is told what has, and how long that is put off at most.
    private static let quiet = TimeSpan.milliseconds(100)
    private static let patience = TimeSpan.seconds(1)
    /// More are as good as all.
    private static let capacity = 16_384

    private(set) var dirtyNames: [DocumentTable.EntryName: DirtyName] = [:]
    private(set) var order: [DocumentTable.EntryName] = []
    private(set) var written: [NodeID: DirtyNode] = [:]
    private(set) var writtenOrder: [NodeID] = []
    /// Anything may have happened.
    private(set) var hasOverflowed = false
    private var began: Instant?
    private var latest: Instant?
    /// Whether anything was added since the time was noted.
    private var hasUntimedChanges = false

    var isEmpty: Bool { order.isEmpty && writtenOrder.isEmpty && !hasOverflowed }

    /// When it is time to tell.
    var due: Instant? {
        guard let began, let latest else { return nil }
        return min(latest + Self.quiet, began + Self.patience)
    }

    mutating func noteTime(_ now: Instant) {
        guard hasUntimedChanges, !isEmpty else { return }
        hasUntimedChanges = false
        began = began ?? now
        latest = now
    }

    mutating func add(_ dirtyName: DirtyName) {
        let key = dirtyName.key
        // What the mount itself does to many names is no reason to take everything for changed.
        guard !dirtyName.isDoubtful || dirtyNames[key] != nil || order.count < Self.capacity else { return }
        hasUntimedChanges = true
        if dirtyNames[key] == nil {
            guard order.count < Self.capacity else { return overflow() }
            order.append(key)
            dirtyNames[key] = dirtyName
        } else {
            dirtyNames[key]?.join(dirtyName)
        }
    }

    mutating func add(_ node: Node, _ mask: ChangeWatch.ChangeMask) {
        hasUntimedChanges = true
        if written[node.id] == nil {
            guard writtenOrder.count < Self.capacity else { return overflow() }
            writtenOrder.append(node.id)
            written[node.id] = DirtyNode(node: node, mask: mask)
        } else {
            written[node.id]?.mask.formUnion(mask)
        }
    }

    /// More has happened than is remembered.
    mutating func overflow() {
        hasUntimedChanges = true
        (dirtyNames, order, written, writtenOrder) = ([:], [], [:], [])
        hasOverflowed = true
    }

    /// In the order in which they were seen first.
    var dirtyNamesInOrder: [DirtyName] { order.compactMap { dirtyNames[$0] } }
    var dirtyNodesInOrder: [DirtyNode] { writtenOrder.compactMap { written[$0] } }
}
