// SPDX-License-Identifier: Apache-2.0

extension Dictionary {
    /// Gives back the memory of removed entries; a dictionary does not do so itself.
    ///
    /// The entries are copied once for each time that their number falls to an eighth, so the cost of a removal stays
    /// constant.
    package mutating func shrinkIfSparse() {
        guard capacity > 1024, count < capacity / 8 else { return }
        // Not `filter`: it returns the same storage if all entries stay.
        var smaller = Dictionary(minimumCapacity: count)
        for (key, value) in self { smaller[key] = value }
        self = smaller
    }
}
