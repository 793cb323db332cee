// SPDX-License-Identifier: Apache-2.0

/// A queue that returns its elements in the order in which they were appended.
package struct FIFOQueue<Element: Sendable>: Sendable {
    private var elements: [Element] = []
    /// The number of removed elements that are still stored. When they are more than half of all stored elements, all
    /// of them are freed.
    private var taken = 0

    package init() {}

    package var isEmpty: Bool { taken == elements.count }
    package var count: Int { elements.count - taken }
    package var first: Element? { isEmpty ? nil : elements[taken] }

    package func prefix(_ limit: Int) -> [Element] { Array(elements[taken...].prefix(limit)) }

    package mutating func append(_ element: Element) { elements.append(element) }

    package mutating func popFirst() -> Element? {
        guard let first else { return nil }
        taken += 1
        if 2 * taken > elements.count { drop() }
        return first
    }

    package mutating func keep(_ isKept: (Element) -> Bool) {
        drop()
        elements.removeAll { !isKept($0) }
    }

    private mutating func drop() {
        elements.removeFirst(taken)
        taken = 0
    }
}
