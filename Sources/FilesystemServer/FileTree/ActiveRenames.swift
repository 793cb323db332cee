// SPDX-License-Identifier: Apache-2.0
import Synchronization

/// Counts the renames that have begun in the source, but have not changed the names of the nodes yet.
///
/// The daemon opens a node without a descriptor by the node's name. While a counted rename is running, this name may be out of
/// date.
final class ActiveRenames: Sendable {
    /// The longest time that an open waits for running renames, in nanoseconds. A rename takes microseconds, unless its thread
    /// is not scheduled.
    static let longest: UInt64 = 20_000_000

    private let count = Atomic<Int>(0)

    var isEmpty: Bool { count.load(ordering: .sequentiallyConsistent) == 0 }
    func begin() { count.add(1, ordering: .sequentiallyConsistent) }
    func end() { count.subtract(1, ordering: .sequentiallyConsistent) }
}
