// SPDX-License-Identifier: Apache-2.0

/// The names that have no file, and the waiters of each name: the documents that get the next file with the name.
///
/// A look-up reads the status of a file first, and gives the file to a waiter after that. If the file loses the name in between,
/// a waiter would get the removed file, and would never get the next one. So the table counts the losses of names:
///
/// 1. The look-up takes a ``Look`` at the name.
/// 2. It reads the status, and ends if the name does not lead to the file.
/// 3. It gives the file to a waiter, but only if the look is still valid: no name was lost after the look. Otherwise it starts
///    again.
///
/// The daemon notes a loss only after the file has lost the name. So a loss before the look shows in the status.
package struct AwaitedNames<Name: Hashable & Sendable, Waiter: AnyObject & Sendable>: Sendable {
    /// A proof that a name was awaited when its file was read. A name that was lost later makes it invalid.
    package struct Look: Sendable {
        fileprivate let losses: UInt64
    }

    private var waiters: [Name: [Waiter]] = [:]
    private var losses: UInt64 = 0

    package init() {}

    /// The number of names that have a waiter.
    package var count: Int { waiters.count }
    /// All waiters, in no order.
    package var all: [Waiter] { waiters.values.flatMap(\.self) }

    /// The waiters of a name, the oldest first.
    package subscript(name: Name) -> [Waiter] { waiters[name] ?? [] }

    package mutating func insert(_ waiter: Waiter, at name: Name) {
        waiters[name, default: []].append(waiter)
    }

    package mutating func remove(_ waiter: Waiter, at name: Name) {
        waiters[name]?.removeAll { $0 === waiter }
        if waiters[name]?.isEmpty == true { waiters[name] = nil }
    }

    /// Notes that a file has lost a name. Makes all looks invalid.
    package mutating func noteLoss() { losses += 1 }

    /// Returns a look at a name; nil if no waiter waits for the name.
    package func look(at name: Name) -> Look? { waiters[name] == nil ? nil : Look(losses: losses) }

    /// Whether no name was lost since the look.
    package func isValid(_ look: Look) -> Bool { look.losses == losses }
}
