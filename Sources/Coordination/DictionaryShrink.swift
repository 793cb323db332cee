// SPDX-License-Identifier: Apache-2.0

extension Dictionary {
    /// Frees the memory of removed entries; a dictionary never frees this memory by itself.
    ///
    /// The entries are copied only when their number has fallen to an eighth of the capacity, so that copies are rare.
    package mutating func shrinkIfSparse() {
        guard capacity > 1024, count < capacity / 8 else { return }
        // Not `filter`: if all entries match, `filter` returns the same storage, which is not smaller.
        var smaller = Dictionary(minimumCapacity: count)
        for (key, value) in self { smaller[key] = value }
        self = smaller
    }
}
