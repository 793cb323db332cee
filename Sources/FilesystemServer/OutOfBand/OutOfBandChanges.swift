// SPDX-License-Identifier: Apache-2.0
import Coordination
import FuseBridge
import LinuxSystem

/// Names and files that were changed out of band, until the changes are reported.
///
/// Only the fact of a change is recorded. The result is read from the directory after a quiet period. So a save of any
/// number of steps is one change, and a file that was created and removed is none.
struct OutOfBandChanges {
    struct DirtyName {
        var directory: Node
        let name: NameBytes
        var mask: ChangeWatch.ChangeMask
        /// No change was observed, but any may have happened.
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

    /// Changes are reported after so long a quiet period, but are delayed no longer than `patience`.
    private static let quiet = TimeSpan.milliseconds(100)
    private static let patience = TimeSpan.seconds(1)
    /// The most names or files that are recorded. Above that, everything counts as changed.
    private static let capacity = 16_384

    private(set) var dirtyNames: [EntryName: DirtyName] = [:]
    private(set) var order: [EntryName] = []
    private(set) var written: [NodeID: DirtyNode] = [:]
    private(set) var writtenOrder: [NodeID] = []
    /// Whether anything may have changed.
    private(set) var hasOverflowed = false
    private var began: Instant?
    private var latest: Instant?
    /// Whether a change was added since the time was noted.
    private var hasUntimedChanges = false

    var isEmpty: Bool { order.isEmpty && writtenOrder.isEmpty && !hasOverflowed }

    /// The time at which to report.
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
        // Changes of many names by the mount itself do not mean that everything changed.
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

    /// Notes that more has changed than can be recorded.
    mutating func overflow() {
        hasUntimedChanges = true
        (dirtyNames, order, written, writtenOrder) = ([:], [], [:], [])
        hasOverflowed = true
    }

    /// In the order in which they were first seen.
    var dirtyNamesInOrder: [DirtyName] { order.compactMap { dirtyNames[$0] } }
    var dirtyNodesInOrder: [DirtyNode] { writtenOrder.compactMap { written[$0] } }
}
