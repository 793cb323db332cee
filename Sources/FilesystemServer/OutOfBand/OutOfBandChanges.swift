// SPDX-License-Identifier: Apache-2.0
import Coordination
import FuseBridge
import LinuxSystem

/// The names and files that other programs changed out of band, until the changes are reported.
///
/// Only the fact that a name changed is recorded. After a quiet period, the report reads from the directory what the
/// name leads to now. So a save in many steps is reported as a single change, and a file that was created and removed
/// again is not reported.
struct OutOfBandChanges {
    struct DirtyName {
        var directory: Node
        let name: NameBytes
        var mask: ChangeWatch.ChangeMask
        /// Whether the kernel has reported no change of the name, but may have dropped an event about the name.
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

    /// Changes are reported when no further change has come for the time `quiet`. If changes go on coming, the report
    /// is made after the time `patience`.
    private static let quiet = TimeSpan.milliseconds(100)
    private static let patience = TimeSpan.seconds(1)
    /// The most names that are recorded, and also the most files. If more have changed, every file counts as changed.
    private static let capacity = 16_384

    private(set) var dirtyNames: [EntryName: DirtyName] = [:]
    private(set) var order: [EntryName] = []
    private(set) var written: [NodeID: DirtyNode] = [:]
    private(set) var writtenOrder: [NodeID] = []
    /// Whether more names or files have changed than are recorded. Every file then counts as changed.
    private(set) var hasOverflowed = false
    private var began: Instant?
    private var latest: Instant?
    /// Whether a change was added since the last call of ``noteTime(_:)``.
    private var hasUntimedChanges = false

    var isEmpty: Bool { order.isEmpty && writtenOrder.isEmpty && !hasOverflowed }

    /// The time at which the changes must be reported; nil if no changes are recorded.
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
        // If the table is full, a name is dropped for which no event shows a change. The daemon itself changes many names, and
        // these must not make every file count as changed.
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
