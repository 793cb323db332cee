// SPDX-License-Identifier: Apache-2.0
/// Enumerates every run of a body that makes bounded choices.
///
///     var choices = Exhaustive()
///     while choices.next() { … choices.below(3) … }
///
/// An odometer: each run replays the remembered digits, then the rightmost digit that can still be
/// raised is raised and those after it are forgotten.
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

    /// A number in `0..<bound`; across all runs, every one of them.
    public mutating func below(_ bound: Int) -> Int {
        precondition(bound > 0)
        if position == digits.count { digits.append((0, bound)) }
        defer { position += 1 }
        return digits[position].value
    }

    /// One of these; across all runs, each of them.
    public mutating func oneOf<Element>(_ elements: [Element]) -> Element { elements[below(elements.count)] }
}
