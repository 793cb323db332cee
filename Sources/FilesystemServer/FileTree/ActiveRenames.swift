// SPDX-License-Identifier: Apache-2.0
import Synchronization

/// Renames that have begun in the source, but have not given the nodes their new names yet.
///
/// A node without a descriptor is opened by its name. During such a rename, that may be its former name.
final class ActiveRenames: Sendable {
    /// The longest wait of a lookup for renames, in nanoseconds. A rename takes microseconds, unless its thread does not run.
    static let longest: UInt64 = 20_000_000

    private let count = Atomic<Int>(0)

    var isEmpty: Bool { count.load(ordering: .sequentiallyConsistent) == 0 }
    func begin() { count.add(1, ordering: .sequentiallyConsistent) }
    func end() { count.subtract(1, ordering: .sequentiallyConsistent) }
}
