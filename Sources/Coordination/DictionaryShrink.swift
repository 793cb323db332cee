// SPDX-License-Identifier: Apache-2.0

extension Dictionary {
    /// Gives back the room of very many entries that are gone; a dictionary keeps it otherwise.
    ///
    /// The entries are copied once for each time that their number falls to an eighth, so a removal costs no more for that.
    package mutating func shrinkIfSparse() {
        guard capacity > 1024, count < capacity / 8 else { return }
        // Not `filter`: it returns the same storage if all entries stay.
        var smaller = Dictionary(minimumCapacity: count)
        for (key, value) in self { smaller[key] = value }
        self = smaller
    }
}
