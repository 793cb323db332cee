// SPDX-License-Identifier: Apache-2.0

/// Pseudorandom numbers that depend only on a seed (xorshift64*).
package struct SeededRandom {
    private var state: UInt64

    package init(_ seed: UInt64) { state = seed &* 0x9E37_79B9_7F4A_7C15 | 1 }

    /// Returns a number from 0 up to `bound` - 1; `bound` must be positive.
    package mutating func below(_ bound: Int) -> Int {
        state ^= state >> 12
        state ^= state << 25
        state ^= state >> 27
        return Int((state &* 0x2545_F491_4F6C_DD1D) >> 33) % bound
    }

    mutating func isLucky(_ percent: Int) -> Bool { below(100) < percent }

    package mutating func one<Element>(of elements: [Element]) -> Element? {
        elements.isEmpty ? nil : elements[below(elements.count)]
    }

    /// Returns a whole number of milliseconds from a range.
    mutating func milliseconds(_ range: ClosedRange<Int>) -> UInt64 {
        UInt64(range.lowerBound + below(range.count))
    }
}
