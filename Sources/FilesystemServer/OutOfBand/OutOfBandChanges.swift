// SPDX-License-Identifier: Apache-2.0
import Coordination
import FuseBridge
import LinuxSystem

/// The names and files that other programs changed out of band, until these changes are reported.
///
/// Only the fact that a name changed is recorded. The report reads the new state from the directory after a quiet period.
/// So a save of many steps is reported as one change. A file that was created and removed is not reported.
struct OutOfBandChanges {
    struct DirtyName {
        var directory: Node
        let name: NameBytes
        var mask: ChangeWatch.ChangeMask
        /// Whether the kernel has reported no change of the name, but may have dropped events about it.
        var isSupposed = false

        var key: EntryName { EntryName(name, in: directory) }

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

    /// Changes are reported when no further change has come for the time `quiet`, but after the time `patience` at the
    /// latest.
    private static let quiet = TimeSpan.milliseconds(100)
    private static let patience = TimeSpan.seconds(1)
    /// The most names, and the most files, that are recorded. Above that, everything counts as changed.
    private static let capacity = 16_384

    private(set) var dirtyNames: [EntryName: DirtyName] = [:]
    private(set) var order: [EntryName] = []
    private(set) var written: [NodeID: DirtyNode] = [:]
    private(set) var writtenOrder: [NodeID] = []
    /// Whether more has changed than is recorded, so that any file may have changed.
    private(set) var hasOverflowed = false
    private var began: Instant?
    private var latest: Instant?
    /// Whether a change was added after the last call of ``noteTime(_:)``.
    private var hasUntimedChanges = false

    var isEmpty: Bool { order.isEmpty && writtenOrder.isEmpty && !hasOverflowed }

    /// The time at which the changes are to be reported; nil if there are none.
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
        // A doubtful name above the limit is left out: the mount itself changes many names, and then not everything
        // counts as changed.
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

    /// Drops all recorded changes, and notes that any file may have changed.
    mutating func overflow() {
        hasUntimedChanges = true
        (dirtyNames, order, written, writtenOrder) = ([:], [], [:], [])
        hasOverflowed = true
    }

    /// The changed names, in the order in which they were first seen.
    var dirtyNamesInOrder: [DirtyName] { order.compactMap { dirtyNames[$0] } }
    var dirtyNodesInOrder: [DirtyNode] { writtenOrder.compactMap { written[$0] } }
}
