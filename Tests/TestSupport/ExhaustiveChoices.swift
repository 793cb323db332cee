// SPDX-License-Identifier: Apache-2.0
/// Enumerates every run of a body that makes bounded choices.
///
///     var choices = ExhaustiveChoices()
///     while choices.next() { … choices.below(3) … }
///
/// It works like an odometer. Each run replays the recorded digits. Then the rightmost digit that can still increase is
/// increased, and later digits are removed.
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

    /// Returns a number in `0..<bound`; all runs together return every one of them.
    public mutating func below(_ bound: Int) -> Int {
        precondition(bound > 0)
        if position == digits.count { digits.append((0, bound)) }
        defer { position += 1 }
        return digits[position].value
    }

    /// Returns an element; all runs together return each of them.
    public mutating func oneOf<Element>(_ elements: [Element]) -> Element { elements[below(elements.count)] }
}
