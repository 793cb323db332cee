// SPDX-License-Identifier: Apache-2.0
package import FuseBridge

/// Which directories' names and files' contents the kernel may give out again without asking.
///
/// It corrects them by itself when they change through the mount. That nothing has changed below is seen each time one is
/// opened, by its size and times, the `Look`: what the kernel has is good while it looks as it did when it was opened
/// to be read.
package struct KernelCache<Look: Equatable> {
    package enum Answer {
        /// The kernel has it, or reads it now and has it then.
        case kept
        /// It drops what it has, reads, and keeps that.
        case fresh
        /// It reads for whoever opens it now, and what it has from then on is not known.
        case passing
    }

    private struct Entry {
        var look: Look?
        /// Who has it open, and the kernel keeps what they read.
        var readers = 0
        /// Whether the first of them has come to read: until then the kernel may not have dropped what it had.
        var hasBegun = false
    }

    private var entries: [NodeID: Entry] = [:]
    /// What is known of those that nobody is reading; the kernel has forgotten many of them.
    private let capacity: Int

    package init(capacity: Int = 1 << 14) { self.capacity = capacity }

    /// Unless it is answered by `passing`, ``close(_:)`` follows.
    package mutating func open(_ node: NodeID, looking look: Look) -> Answer {
        var entry = entries[node, default: Entry()]
        if entry.look == look {
            guard entry.hasBegun || entry.readers == 0 else { return .passing }
            entry.readers += 1
            // If nobody reads it, whoever opened it to read has been told that it is open, and has closed it.
            entry.hasBegun = true
            entries[node] = entry
            return .kept
        }
        guard entry.readers == 0 else {
            // What an earlier reader was told may reach the kernel's memory later than this; whoever opens it when that
            // reader is gone begins anew.
            entries[node]?.look = nil
            return .passing
        }
        if entries.count >= capacity { entries = entries.filter { $0.value.readers > 0 } }
        entries[node] = Entry(look: look, readers: 1)
        return .fresh
    }

    /// Somebody for whom it was opened reads its beginning.
    package mutating func begin(_ node: NodeID) { entries[node]?.hasBegun = true }

    package mutating func close(_ node: NodeID) { entries[node]?.readers -= 1 }

    /// What was told is not for everybody, or not for long.
    package mutating func doubt(_ node: NodeID) { entries[node]?.look = nil }
}
