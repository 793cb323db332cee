// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Claims in the order of their numbers.
///
/// The first is kept inline, so that a lone claim allocates nothing; the rest is an array that is used up
/// from its front without being moved, so that a long queue drains in linear time.
struct ClaimQueue: RandomAccessCollection, Sendable {
    private var head: ClaimID?
    private var rest: [ClaimID] = []
    /// Where `rest` begins; what lies before is used up.
    private var used = 0

    var startIndex: Int { 0 }
    var endIndex: Int { head == nil ? 0 : 1 + rest.count - used }
    var isEmpty: Bool { head == nil }

    subscript(position: Int) -> ClaimID {
        if position == 0, let head { return head }
        return rest[used + position - 1]
    }

    /// The claims with smaller numbers than this one.
    func before(_ claim: ClaimID) -> Slice<ClaimQueue> { self[..<place(of: claim)] }

    mutating func insert(_ claim: ClaimID) {
        guard let first = head else {
            head = claim
            return
        }
        if claim < first {
            head = claim
            return insertBehindHead(first)
        }
        insertBehindHead(claim)
    }

    mutating func remove(_ claim: ClaimID) {
        guard let first = head else { return }
        if first == claim { return removeHead() }
        let index = used + place(of: claim) - 1
        guard index < rest.count, rest[index] == claim else { return }
        rest.remove(at: index)
    }

    private mutating func insertBehindHead(_ claim: ClaimID) {
        guard let last = rest.last, claim < last else {
            rest.append(claim)
            return
        }
        rest.insert(claim, at: used + place(of: claim) - 1)
    }

    private mutating func removeHead() {
        guard used < rest.count else {
            head = nil
            return
        }
        head = rest[used]
        used += 1
        // Used-up entries are dropped when they are half of the array: each is moved over once at most.
        if used * 2 >= rest.count {
            rest.removeFirst(used)
            used = 0
        }
    }

    /// How many claims have smaller numbers.
    private func place(of claim: ClaimID) -> Int {
        var (low, high) = (0, count)
        // Late claims are looked up most.
        if high > 0, self[high - 1] < claim { return high }
        while low < high {
            let middle = (low + high) / 2
            if self[middle] < claim { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
