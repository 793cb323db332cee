// SPDX-License-Identifier: Apache-2.0
package import FuseBridge

/// Which directories' names and files' contents the kernel may give out again without asking.
///
/// It corrects them by itself when they change through the mount. That nothing has changed below is seen each time one is
/// opened, by its size and times, the `Validator`: what the kernel has is good while it looks as it did when it was opened
/// to be read.
package struct KernelCacheTracker<Validator: Equatable> {
    package enum CacheAction {
        /// The kernel has it, or reads it now and has it then.
        case reuse
        /// It drops what it has, reads, and keeps that.
        case refill
        /// It reads for whoever opens it now, and what it has from then on is not known.
        case uncached
    }

    private struct Entry {
        var validator: Validator?
        /// Who has it open, and the kernel keeps what they read.
        var readers = 0
        /// Whether the first of them has come to read: until then the kernel may not have dropped what it had.
        var hasBegun = false
    }

    private var entries: [NodeID: Entry] = [:]
    /// How many are known, unless more are read; of those that nobody is reading the kernel has forgotten many.
    private let capacity: Int
    /// How many there may be until some are given up.
    private var limit: Int
    private var clearances: UInt64 = 0

    package init(capacity: Int = 1 << 14) {
        self.capacity = capacity
        limit = capacity
    }

    package var count: Int { entries.count }

    /// Unless it is answered by `uncached`, ``close(_:)`` follows.
    package mutating func open(_ node: NodeID, looking validator: Validator) -> CacheAction {
        var entry = entries[node, default: Entry()]
        if entry.validator == validator {
            guard entry.hasBegun || entry.readers == 0 else { return .uncached }
            entry.readers += 1
            // If nobody reads it, whoever opened it to read has been told that it is open, and has closed it.
            entry.hasBegun = true
            entries[node] = entry
            return .reuse
        }
        guard entry.readers == 0 else {
            // What an earlier reader was told may reach the kernel's memory later than this; whoever opens it when that
            // reader is gone begins anew.
            entries[node]?.validator = nil
            return .uncached
        }
        if entries.count >= limit { makeRoom() }
        entries[node] = Entry(validator: validator, readers: 1)
        return .refill
    }

    /// Somebody for whom it was opened reads its beginning.
    package mutating func begin(_ node: NodeID) { entries[node]?.hasBegun = true }

    package mutating func close(_ node: NodeID) { entries[node]?.readers -= 1 }

    /// Whoever was told ``Answer/refill`` is told ``Answer/uncached`` after all.
    package mutating func giveUp(_ node: NodeID) {
        invalidate(node)
        close(node)
    }

    /// Gives up half of those that nobody reads, others each time: a search that goes through more than there is room for
    /// finds some of them, and none stays for good.
    private mutating func makeRoom() {
        clearances &+= 1
        var readers = 0
        entries = entries.filter { node, entry in
            if entry.readers > 0 { readers += 1 }
            return entry.readers > 0 || isSpared(node)
        }
        limit = max(capacity, 2 * readers)
    }

    /// By a bit of a product, which does not depend on where the dictionary has the node.
    private func isSpared(_ node: NodeID) -> Bool {
        ((node.rawValue &+ clearances &* 0xD1B5_4A32_D192_ED03) &* 0x9E37_79B9_7F4A_7C15) >> 63 == 0
    }

    /// What was told is not for everybody, or not for long.
    package mutating func invalidate(_ node: NodeID) { entries[node]?.validator = nil }
}
