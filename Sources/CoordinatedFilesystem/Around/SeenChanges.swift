// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem

/// Names and files that were changed around the mount, until it is told what became of them.
///
/// Only that something has happened to a name is remembered; what, the directory says when it is quiet. So a save by
/// any number of steps is one change, and what came and went is nothing.
struct SeenChanges {
    struct Touch {
        var directory: Node
        let name: NameBytes
        var what: ChangeWatch.What
        /// Anything may have happened, and nobody has seen it.
        var isSupposed = false

        var key: Documents.Name { Documents.Name(name, in: directory) }

        mutating func join(_ other: Touch) {
            let isSeen = isKnown || other.isKnown
            what.formUnion(other.what)
            isSupposed = !isSeen && (isSupposed || other.isSupposed)
        }

        private var isKnown: Bool { !what.isEmpty && !isSupposed }
    }

    struct Written {
        let node: Node
        var what: ChangeWatch.What
    }

    /// How long nothing may happen before it is told what has, and how long that is put off at most.
    private static let quiet = Span.milliseconds(100)
    private static let patience = Span.seconds(1)
    /// More are as good as all.
    private static let capacity = 16_384

    private(set) var touches: [Documents.Name: Touch] = [:]
    private(set) var order: [Documents.Name] = []
    private(set) var written: [NodeID: Written] = [:]
    private(set) var writtenOrder: [NodeID] = []
    /// Anything may have happened.
    private(set) var hasLost = false
    private var began: Instant?
    private var latest: Instant?
    /// Whether anything was added since the time was noted.
    private var hasNews = false

    var isEmpty: Bool { order.isEmpty && writtenOrder.isEmpty && !hasLost }

    /// When it is time to tell.
    var due: Instant? {
        guard let began, let latest else { return nil }
        return min(latest + Self.quiet, began + Self.patience)
    }

    mutating func noteTime(_ now: Instant) {
        guard hasNews, !isEmpty else { return }
        hasNews = false
        began = began ?? now
        latest = now
    }

    mutating func add(_ touch: Touch) {
        let key = touch.key
        // What the mount itself does to many names is no reason to take everything for changed.
        guard !touch.isDoubtful || touches[key] != nil || order.count < Self.capacity else { return }
        hasNews = true
        if touches[key] == nil {
            guard order.count < Self.capacity else { return overflow() }
            order.append(key)
            touches[key] = touch
        } else {
            touches[key]?.join(touch)
        }
    }

    mutating func add(_ node: Node, _ what: ChangeWatch.What) {
        hasNews = true
        if written[node.id] == nil {
            guard writtenOrder.count < Self.capacity else { return overflow() }
            writtenOrder.append(node.id)
            written[node.id] = Written(node: node, what: what)
        } else {
            written[node.id]?.what.formUnion(what)
        }
    }

    /// More has happened than is remembered.
    mutating func overflow() {
        hasNews = true
        (touches, order, written, writtenOrder) = ([:], [], [:], [])
        hasLost = true
    }

    /// In the order in which they were seen first.
    var touchesInOrder: [Touch] { order.compactMap { touches[$0] } }
    var writtenInOrder: [Written] { writtenOrder.compactMap { written[$0] } }
}
