// SPDX-License-Identifier: Apache-2.0
package import FuseBridge

/// Tracks which directories' names and files' contents the kernel may use from its cache.
///
/// The kernel updates its cache when they change through the mount. Other changes are detected at each open by size and
/// times, the `Validator`. The cache is valid while the validator equals that of the open for which it was filled.
package struct KernelCacheTracker<Validator: Equatable> {
    package enum CacheAction {
        /// The kernel has the data cached, or is reading it now.
        case reuse
        /// The kernel drops its cache, reads, and caches the result.
        case refill
        /// The kernel reads for the present open only, and its cache is unknown afterwards.
        case uncached
    }

    private struct Entry {
        var validator: Validator?
        /// The number of opens for which the kernel caches the data that it reads.
        var readers = 0
        /// Whether the first reader has begun to read. Before that, the kernel may not have dropped its old cache.
        var hasBegun = false
    }

    private var entries: [NodeID: Entry] = [:]
    /// The number of entries to track, unless more are being read. The kernel has probably forgotten many unread ones.
    private let capacity: Int
    /// The number of entries at which some are dropped.
    private var limit: Int
    private var clearances: UInt64 = 0

    package init(capacity: Int = 1 << 14) {
        self.capacity = capacity
        limit = capacity
    }

    package var count: Int { entries.count }

    /// Opens a file or directory. Unless the result is `uncached`, ``close(_:)`` follows.
    package mutating func open(_ node: NodeID, looking validator: Validator) -> CacheAction {
        var entry = entries[node, default: Entry()]
        if entry.validator == validator {
            guard entry.hasBegun || entry.readers == 0 else { return .uncached }
            entry.readers += 1
            // Without readers, the opener that was to refill the cache has opened and closed the file.
            entry.hasBegun = true
            entries[node] = entry
            return .reuse
        }
        guard entry.readers == 0 else {
            // Data for an earlier reader may reach the kernel's cache later than this open. The next open after that
            // reader's close starts a new cache.
            entries[node]?.validator = nil
            return .uncached
        }
        if entries.count >= limit { makeRoom() }
        entries[node] = Entry(validator: validator, readers: 1)
        return .refill
    }

    /// Notes that a reader has begun to read.
    package mutating func begin(_ node: NodeID) { entries[node]?.hasBegun = true }

    package mutating func close(_ node: NodeID) { entries[node]?.readers -= 1 }

    /// Turns an answer ``CacheAction/refill`` into ``CacheAction/uncached`` afterwards.
    package mutating func giveUp(_ node: NodeID) {
        invalidate(node)
        close(node)
    }

    /// Drops half of the entries without readers, a different half each time. A scan larger than the capacity still finds
    /// some entries, and none stays for good.
    private mutating func makeRoom() {
        clearances &+= 1
        var readers = 0
        entries = entries.filter { node, entry in
            if entry.readers > 0 { readers += 1 }
            return entry.readers > 0 || isSpared(node)
        }
        limit = max(capacity, 2 * readers)
    }

    /// Chosen by a bit of a product, which does not depend on the dictionary's order.
    private func isSpared(_ node: NodeID) -> Bool {
        ((node.rawValue &+ clearances &* 0xD1B5_4A32_D192_ED03) &* 0x9E37_79B9_7F4A_7C15) >> 63 == 0
    }

    /// Marks the cache as not valid for later opens.
    package mutating func invalidate(_ node: NodeID) { entries[node]?.validator = nil }
}
