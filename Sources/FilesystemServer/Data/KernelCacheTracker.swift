// SPDX-License-Identifier: Apache-2.0
package import FuseBridge

/// Decides for which directories and files the kernel may use its cached names or contents.
///
/// The kernel updates its cache when a directory or file changes through the mount. The daemon detects changes around the mount
/// at each open: it compares the size and times, the `Validator`. The cache is valid as long as the validator equals the
/// validator at the open that filled the cache.
package struct KernelCacheTracker<Validator: Equatable> {
    package enum CacheAction {
        /// The kernel uses its cache. The cache holds the data already, or another reader is filling it.
        case reuse
        /// The kernel drops its cache, reads the data anew, and caches what it reads.
        case refill
        /// The kernel reads the data only for this open. Later opens must not use what this open has cached.
        case uncached
    }

    private struct Entry {
        var validator: Validator?
        /// The number of opens whose reads the kernel caches.
        var readers = 0
        /// Whether the first reader has begun to read. Before this, the kernel may still have its old cache.
        var hasBegun = false
    }

    private var entries: [NodeID: Entry] = [:]
    /// The number of entries that the table is meant to have. It has more only if more than half of the entries have
    /// readers. Entries without readers can be dropped, because the kernel has probably dropped the cached contents of
    /// many of their files.
    private let capacity: Int
    /// The number of entries at which ``makeRoom()`` drops some of them.
    private var limit: Int
    private var clearances: UInt64 = 0

    package init(capacity: Int = 1 << 14) {
        self.capacity = capacity
        limit = capacity
    }

    package var count: Int { entries.count }

    /// Decides whether the kernel uses its cache for a file or directory that is being opened. Unless the result is `uncached`,
    /// the caller calls ``close(_:)`` later.
    package mutating func open(_ node: NodeID, looking validator: Validator) -> CacheAction {
        var entry = entries[node, default: Entry()]
        if entry.validator == validator {
            guard entry.hasBegun || entry.readers == 0 else { return .uncached }
            entry.readers += 1
            // If `hasBegun` is still false, the reader that was to fill the cache has closed the file without reading.
            entry.hasBegun = true
            entries[node] = entry
            return .reuse
        }
        guard entry.readers == 0 else {
            // The kernel may still be reading old data for an earlier reader of the file, and caching that data. When
            // the earlier reader has closed the file, the next open starts a new cache.
            entries[node]?.validator = nil
            return .uncached
        }
        if entries.count >= limit { makeRoom() }
        entries[node] = Entry(validator: validator, readers: 1)
        return .refill
    }

    /// Notes that a reader has begun to read. From this moment the kernel no longer has its old cache.
    package mutating func begin(_ node: NodeID) { entries[node]?.hasBegun = true }

    package mutating func close(_ node: NodeID) { entries[node]?.readers -= 1 }

    /// Changes the result of ``open(_:looking:)`` from ``CacheAction/refill`` to ``CacheAction/uncached`` after the call.
    package mutating func giveUp(_ node: NodeID) {
        invalidate(node)
        close(node)
    }

    /// Drops about half of the entries without readers. Each call selects the entries anew. So even if a program reads more
    /// files than the table has room for, some entries remain, and no entry remains permanently.
    private mutating func makeRoom() {
        clearances &+= 1
        var readers = 0
        entries = entries.filter { node, entry in
            if entry.readers > 0 { readers += 1 }
            return entry.readers > 0 || isSpared(node)
        }
        limit = max(capacity, 2 * readers)
    }

    /// Whether an entry without readers remains when half of these entries are dropped. The decision depends on the node's
    /// number and on the number of calls so far, and not on the order of the dictionary.
    private func isSpared(_ node: NodeID) -> Bool {
        ((node.rawValue &+ clearances &* 0xD1B5_4A32_D192_ED03) &* 0x9E37_79B9_7F4A_7C15) >> 63 == 0
    }

    /// Makes the next open of the file or directory fill the cache anew.
    package mutating func invalidate(_ node: NodeID) { entries[node]?.validator = nil }
}
