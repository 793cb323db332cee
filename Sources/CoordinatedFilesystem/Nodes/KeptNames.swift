// SPDX-License-Identifier: Apache-2.0
package import FuseBridge

/// Which directories' names the kernel may give out again without asking.
///
/// It drops them by itself when a name comes or goes through the mount. That nothing has changed below is seen each time a
/// directory is opened, by its times, the `Look`: the kernel's names are good while the directory looks as it did when it was opened
/// to read them.
package struct KeptNames<Look: Equatable> {
    package enum Answer {
        /// The kernel has all names, or reads them now and has them then.
        case kept
        /// It reads them now, and keeps them.
        case fresh
        /// It reads them now, and keeps nothing.
        case passing
    }

    private struct Entry {
        var look: Look?
        /// Open listings whose names the kernel keeps.
        var readers = 0
        /// Whether the first of them has come to read: until then the kernel may not have dropped what it had.
        var hasBegun = false
    }

    private var entries: [NodeID: Entry] = [:]
    /// What is known of directories that nobody is reading; the kernel has forgotten many of them.
    private let capacity: Int

    package init(capacity: Int = 1 << 14) { self.capacity = capacity }

    /// Unless it is answered by `passing`, ``close(_:)`` follows.
    package mutating func open(_ directory: NodeID, looking look: Look) -> Answer {
        var entry = entries[directory, default: Entry()]
        if entry.look == look {
            guard entry.hasBegun || entry.readers == 0 else { return .passing }
            entry.readers += 1
            // If nobody reads it, whoever opened it to read has been told that it is open, and has closed it.
            entry.hasBegun = true
            entries[directory] = entry
            return .kept
        }
        guard entry.readers == 0 else {
            // What an earlier reader was told may reach the kernel's memory later than this; whoever opens the
            // directory when that reader is gone begins anew.
            entries[directory]?.look = nil
            return .passing
        }
        if entries.count >= capacity { entries = entries.filter { $0.value.readers > 0 } }
        entries[directory] = Entry(look: look, readers: 1)
        return .fresh
    }

    /// Somebody for whom it was opened reads its beginning.
    package mutating func begin(_ directory: NodeID) { entries[directory]?.hasBegun = true }

    package mutating func close(_ directory: NodeID) { entries[directory]?.readers -= 1 }

    /// What was told of the directory is not for everybody, or not for long.
    package mutating func doubt(_ directory: NodeID) { entries[directory]?.look = nil }
}
