// SPDX-License-Identifier: Apache-2.0
/// Runs a body once for every combination of its choices, each of which has a limited number of values.
///
///     var choices = ExhaustiveChoices()
///     while choices.next() { … choices.below(3) … }
///
/// The choices of a run are the digits of a counter. The next run takes the same digits with one change: the last digit that
/// can still grow is increased by one, and the digits after it are removed.
public struct ExhaustiveChoices {
    private var digits: [(value: Int, bound: Int)] = []
    private var position = 0
    private var started = false

    public init() {}

    public mutating func next() -> Bool {
        defer { position = 0 }
        guard started else {
            started = true
            return true
        }
        while let last = digits.popLast() {
            if last.value + 1 < last.bound {
                digits.append((last.value + 1, last.bound))
                return true
            }
        }
        return false
    }

    /// Returns a number in `0..<bound`. Each of these numbers is returned in at least one run.
    public mutating func below(_ bound: Int) -> Int {
        precondition(bound > 0)
        if position == digits.count { digits.append((0, bound)) }
        defer { position += 1 }
        return digits[position].value
    }

    /// Returns an element of the array. Each element is returned in at least one run.
    public mutating func oneOf<Element>(_ elements: [Element]) -> Element { elements[below(elements.count)] }
}
