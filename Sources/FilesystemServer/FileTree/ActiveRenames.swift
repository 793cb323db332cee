// SPDX-License-Identifier: Apache-2.0
import Synchronization

/// Renames between the step below and the moment when the nodes have their new names.
///
/// A node without a descriptor is opened by its name, which may be the former one meanwhile.
final class ActiveRenames: Sendable {
    /// How long a look waits for them, in nanoseconds: they take microseconds, unless their thread does not run.
    static let longest: UInt64 = 20_000_000

    private let count = Atomic<Int>(0)

    var isEmpty: Bool { count.load(ordering: .sequentiallyConsistent) == 0 }
    func begin() { count.add(1, ordering: .sequentiallyConsistent) }
    func end() { count.subtract(1, ordering: .sequentiallyConsistent) }
}
