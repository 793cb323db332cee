// SPDX-License-Identifier: Apache-2.0

extension Dictionary {
    /// Gives back the room of very many entries that are gone; a dictionary keeps it otherwise.
    ///
    /// So few are copied for it that a removal costs no more for that.
    package mutating func shrinkIfSparse() {
        guard capacity > 1024, count < capacity / 8 else { return }
        self = filter { _ in true }
    }
}
