// SPDX-License-Identifier: Apache-2.0
import Coordination

/// A number for claims that are exempt from each other without further looking: those of one process with the same
/// ancestors and purpose. Zero is nobody's.
typealias Kin = UInt32

/// Claims in the order of their numbers.
///
/// The first is kept inline, so that a lone claim allocates nothing; the rest is an array that is used up
/// from its front without being moved, so that a long queue drains in linear time.
struct ClaimQueue: RandomAccessCollection, Sendable {
    private struct Member: Sendable {
        let id: ClaimID
        var kin: Kin
    }

    private var head: Member?
    private var rest: [Member] = []
    /// Where `rest` begins; what lies before is used up.
    private var used = 0

    var startIndex: Int { 0 }
    var endIndex: Int { head == nil ? 0 : 1 + rest.count - used }
    var isEmpty: Bool { head == nil }

    subscript(position: Int) -> ClaimID { member(position).id }

    private func member(_ position: Int) -> Member {
        if position == 0, let head { return head }
        return rest[used + position - 1]
    }

    /// The claims with smaller numbers than this one.
    func before(_ claim: ClaimID) -> Slice<ClaimQueue> { self[..<place(of: claim)] }

    /// The last that matches of those who are not of a kin and, if a claim is given, are earlier.
    ///
    /// Threads of one program may be very many: they are passed over without being looked up.
    func lastStranger(
        of kin: Kin, before claim: ClaimID? = nil, where matches: (ClaimID) -> Bool
    ) -> ClaimID? {
        for position in (0..<(claim.map(place) ?? count)).reversed() {
            let member = member(position)
            if member.kin == kin, kin != 0 { continue }
            if matches(member.id) { return member.id }
        }
        return nil
    }

    /// The first that matches of those who are not of a kin.
    func firstStranger(of kin: Kin, where matches: (ClaimID) -> Bool) -> ClaimID? {
        for position in 0..<count {
            let member = member(position)
            if member.kin == kin, kin != 0 { continue }
            if matches(member.id) { return member.id }
        }
        return nil
    }

    /// All who are not of a kin.
    func strangers(of kin: Kin) -> [ClaimID] {
        var found: [ClaimID] = []
        _ = firstStranger(of: kin) { id in
            found.append(id)
            return false
        }
        return found
    }

    mutating func insert(_ claim: ClaimID, _ kin: Kin) {
        let new = Member(id: claim, kin: kin)
        guard let first = head else {
            head = new
            return
        }
        if claim < first.id {
            head = new
            return insertBehindHead(first)
        }
        insertBehindHead(new)
    }

    /// Notes whose a claim is.
    mutating func name(_ claim: ClaimID, _ kin: Kin) {
        let place = place(of: claim)
        guard place < count, self[place] == claim else { return }
        if place == 0 { head?.kin = kin } else { rest[used + place - 1].kin = kin }
    }

    mutating func remove(_ claim: ClaimID) {
        guard let first = head else { return }
        if first.id == claim { return removeHead() }
        let index = used + place(of: claim) - 1
        guard index >= used, index < rest.count, rest[index].id == claim else { return }
        rest.remove(at: index)
    }

    private mutating func insertBehindHead(_ new: Member) {
        guard let last = rest.last, new.id < last.id else {
            rest.append(new)
            return
        }
        rest.insert(new, at: used + place(of: new.id) - 1)
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
