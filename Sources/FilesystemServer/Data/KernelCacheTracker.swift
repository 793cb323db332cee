// SPDX-License-Identifier: Apache-2.0
package import FuseBridge

/// Tracks for which directories and files the kernel may use the names or contents in its cache.
///
/// The kernel updates its cache when a directory or file changes through the mount. The daemon detects other changes at each
/// open: it compares the size and times, the `Validator`. The cache is valid while the validator equals that of the open which
/// filled the cache.
package struct KernelCacheTracker<Validator: Equatable> {
    package enum CacheAction {
        /// The kernel uses its cache, which holds the data or is being filled by another reader.
        case reuse
        /// The kernel drops its cache, reads the data anew, and caches what it reads.
        case refill
        /// The kernel reads for this open only. Later opens must not use the cache.
        case uncached
    }

    private struct Entry {
        var validator: Validator?
        /// The number of opens whose reads the kernel caches.
        var readers = 0
        /// Whether the first reader has begun to read. Until then, the kernel may still have its old cache.
        var hasBegun = false
    }

    private var entries: [NodeID: Entry] = [:]
    /// The number of entries to track, unless more than half of them have readers. The kernel has probably dropped the cache of
    /// many files without readers.
    private let capacity: Int
    /// The number of entries at which ``makeRoom()`` drops some of them.
    private var limit: Int
    private var clearances: UInt64 = 0

    package init(capacity: Int = 1 << 14) {
        self.capacity = capacity
        limit = capacity
    }

    package var count: Int { entries.count }

    /// Decides about the cache when a file or directory is opened. Unless the result is `uncached`, the caller later calls
    /// ``close(_:)``.
    package mutating func open(_ node: NodeID, looking validator: Validator) -> CacheAction {
        var entry = entries[node, default: Entry()]
        if entry.validator == validator {
            guard entry.hasBegun || entry.readers == 0 else { return .uncached }
            entry.readers += 1
            // If the entry has no readers, the opener that was told to refill the cache has closed the file again.
            entry.hasBegun = true
            entries[node] = entry
            return .reuse
        }
        guard entry.readers == 0 else {
            // The kernel may still get data for an earlier reader after this open, and put it into its cache. The next open
            // after that reader's close starts a new cache.
            entries[node]?.validator = nil
            return .uncached
        }
        if entries.count >= limit { makeRoom() }
        entries[node] = Entry(validator: validator, readers: 1)
        return .refill
    }

    /// Notes that a reader has begun to read, so that the kernel has dropped its old cache.
    package mutating func begin(_ node: NodeID) { entries[node]?.hasBegun = true }

    package mutating func close(_ node: NodeID) { entries[node]?.readers -= 1 }

    /// Changes an answer from ``CacheAction/refill`` to ``CacheAction/uncached`` after ``open(_:looking:)`` has returned it.
    package mutating func giveUp(_ node: NodeID) {
        invalidate(node)
        close(node)
    }

    /// Drops about half of the entries without readers, a different half at each call. So a search through more files than the
    /// capacity still finds some entries, and no entry remains permanently.
    private mutating func makeRoom() {
        clearances &+= 1
        var readers = 0
        entries = entries.filter { node, entry in
            if entry.readers > 0 { readers += 1 }
            return entry.readers > 0 || isSpared(node)
        }
        limit = max(capacity, 2 * readers)
    }

    /// Whether an entry without readers stays in the table when half of these entries are dropped. A bit of a product decides,
    /// so that the order of the dictionary has no influence.
    private func isSpared(_ node: NodeID) -> Bool {
        ((node.rawValue &+ clearances &* 0xD1B5_4A32_D192_ED03) &* 0x9E37_79B9_7F4A_7C15) >> 63 == 0
    }

    /// Makes later opens fill the cache anew.
    package mutating func invalidate(_ node: NodeID) { entries[node]?.validator = nil }
}
