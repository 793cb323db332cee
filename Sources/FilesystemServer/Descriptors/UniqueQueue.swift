// SPDX-License-Identifier: Apache-2.0

/// A first-in, first-out queue that holds each element at most once.
package struct UniqueQueue<Element: Hashable & Sendable>: Sendable {
    private var elements: [Element] = []
    private var head = 0
    private var queued: Set<Element> = []

    package init() {}

    package var count: Int { elements.count - head }

    package mutating func push(_ element: Element) {
        if queued.insert(element).inserted { elements.append(element) }
    }

    package mutating func pop() -> Element? {
        guard head < elements.count else { return nil }
        let element = elements[head]
        queued.remove(element)
        head += 1
        if head > elements.count / 2 {
            elements.removeFirst(head)
            head = 0
        }
        return element
    }
}
