// SPDX-License-Identifier: Apache-2.0

/// The names that have no file, and the waiters of each name: the documents that get the next file with the name.
///
/// A look-up reads the status of a file first, and gives the file to a waiter after that. If the file loses the name in between,
/// the waiter must not get the removed file. So a look-up takes these steps:
///
/// 1. It takes a ``Look`` at the name.
/// 2. It reads the status, and ends if the name does not lead to the file.
/// 3. It gives the file to a waiter, but only if the look is still valid. Otherwise it starts again.
///
/// A look becomes invalid when a waiter begins to wait for the name. This happens when a document loses a file with the name, and
/// only after the file is gone. So a loss before the look shows in the status, and a later loss makes the look invalid.
package struct AwaitedNames<Name: Hashable & Sendable, Waiter: AnyObject & Sendable>: Sendable {
    /// The waiters of a name at one moment. It is valid until a further waiter begins to wait, or the last one ends its wait.
    package struct Look: Sendable {
        fileprivate let name: Name
        fileprivate let serial: UInt64
    }

    private struct Wait: Sendable {
        /// The number of the latest insertion.
        var serial: UInt64 = 0
        var waiters: [Waiter] = []
    }

    private var waits: [Name: Wait] = [:]
    private var lastSerial: UInt64 = 0

    package init() {}

    /// The number of names that have a waiter.
    package var count: Int { waits.count }
    /// All waiters, in no order.
    package var all: [Waiter] { waits.values.flatMap(\.waiters) }

    /// The waiters of a name, the oldest first.
    package subscript(name: Name) -> [Waiter] { waits[name]?.waiters ?? [] }

    /// Adds a waiter. Makes all earlier looks at the name invalid.
    package mutating func insert(_ waiter: Waiter, at name: Name) {
        lastSerial += 1
        waits[name, default: Wait()].waiters.append(waiter)
        waits[name]?.serial = lastSerial
    }

    package mutating func remove(_ waiter: Waiter, at name: Name) {
        waits[name]?.waiters.removeAll { $0 === waiter }
        if waits[name]?.waiters.isEmpty == true { waits[name] = nil }
    }

    /// Returns a look at a name; nil if no waiter waits for the name.
    package func look(at name: Name) -> Look? { waits[name].map { Look(name: name, serial: $0.serial) } }

    package func isValid(_ look: Look) -> Bool { waits[look.name]?.serial == look.serial }
}
