// SPDX-License-Identifier: Apache-2.0
import Coordination

/// A number for all parties with the same process, ancestors and purpose. Claims of parties with one number are exempt
/// from each other.
///
/// Zero is the number of an unknown party, which is exempt from no party.
typealias PartyNumber = UInt32

/// A list of claims in the order of their numbers.
///
/// The first claim is stored inline, so that a single claim allocates no memory. The other claims are in chunks of
/// bounded length, so that a removal from a long queue moves only the claims of one chunk. If all claims of a chunk
/// have one party, a search for claims of other parties skips the chunk.
struct ClaimQueue: Sequence, Sendable {
    fileprivate struct Member: Sendable {
        let id: ClaimID
        var partyNumber: PartyNumber
    }

    fileprivate struct Chunk: Sendable {
        static let most = 64

        var members: [Member]
        /// The party number of all members; nil if the members have different numbers.
        private(set) var partyNumber: PartyNumber?

        init(_ members: [Member]) {
            self.members = members
            updatePartyNumber()
        }

        mutating func updatePartyNumber() {
            partyNumber = members.first?.partyNumber
            for member in members where member.partyNumber != partyNumber {
                partyNumber = nil
                return
            }
        }

        mutating func append(_ member: Member) {
            if members.isEmpty {
                partyNumber = member.partyNumber
            } else if partyNumber != member.partyNumber {
                partyNumber = nil
            }
            members.append(member)
        }

        /// Whether the given party is known, and all members are claims of this party.
        func isAll(of other: PartyNumber) -> Bool { other != 0 && partyNumber == other }

        /// How many claims of the chunk were made before the given claim, and so have smaller numbers.
        func place(of claim: ClaimID) -> Int {
            var (low, high) = (0, members.count)
            while low < high {
                let middle = (low + high) / 2
                if members[middle].id < claim { low = middle + 1 } else { high = middle }
            }
            return low
        }
    }

    /// The index of a chunk, and the index of a member in the chunk.
    private struct Position {
        var piece: Int
        var offset: Int
    }

    private var head: Member?
    /// All claims except the first, in chunks. No chunk is empty.
    private var rest: [Chunk] = []
    private(set) var count = 0

    var isEmpty: Bool { head == nil }
    var first: ClaimID? { head?.id }
    var last: ClaimID? { rest.last?.members.last?.id ?? head?.id }

    struct Iterator: IteratorProtocol {
        fileprivate let queue: ClaimQueue
        private var piece = 0
        private var offset = -1

        fileprivate init(_ queue: ClaimQueue) { self.queue = queue }

        mutating func next() -> ClaimID? {
            if offset < 0 {
                offset = 0
                return queue.head?.id
            }
            guard piece < queue.rest.count else { return nil }
            defer {
                offset += 1
                if offset == queue.rest[piece].members.count { (piece, offset) = (piece + 1, 0) }
            }
            return queue.rest[piece].members[offset].id
        }
    }

    func makeIterator() -> Iterator { Iterator(self) }

    /// Whether the queue has a claim with a smaller number than this claim.
    func hasAny(before claim: ClaimID) -> Bool { head.map { $0.id < claim } ?? false }

    /// The claims of the queue with a smaller number than this claim.
    func before(_ claim: ClaimID) -> [ClaimID] {
        var found: [ClaimID] = []
        for id in self {
            guard id < claim else { break }
            found.append(id)
        }
        return found
    }

    /// The last claim of the queue with a smaller number than this claim.
    func last(before claim: ClaimID) -> ClaimID? {
        let position = position(of: claim)
        if position.offset > 0 { return rest[position.piece].members[position.offset - 1].id }
        if position.piece > 0 { return rest[position.piece - 1].members.last?.id }
        return head.flatMap { $0.id < claim ? $0.id : nil }
    }

    /// Calls the body with the last `most` claims, the one with the greatest number first.
    func forEachOfLast(_ most: Int, _ body: (ClaimID) -> Void) {
        var left = most
        for piece in rest.reversed() {
            for member in piece.members.reversed() {
                guard left > 0 else { return }
                left -= 1
                body(member.id)
            }
        }
        if left > 0, let head { body(head.id) }
    }

    /// Whether the queue has an identified claim with a greater number than this claim.
    func hasKnown(after claim: ClaimID) -> Bool {
        let position = position(of: claim)
        for piece in rest.indices.reversed() where piece >= position.piece {
            if rest[piece].partyNumber == 0 { continue }
            let offset = piece == position.piece ? position.offset : 0
            if rest[piece].members[offset...].contains(where: { $0.id > claim && $0.partyNumber != 0 }) {
                return true
            }
        }
        return head.map { $0.id > claim && $0.partyNumber != 0 } ?? false
    }

    /// The last matching claim of any party except the given party. If a claim is given, only claims before it are
    /// searched.
    ///
    /// The search skips the claims of the given party without a look-up, because one program can have very many claims.
    func lastStranger(
        of partyNumber: PartyNumber, before claim: ClaimID? = nil, where matches: (ClaimID) -> Bool
    ) -> ClaimID? {
        let end = claim.map(position) ?? Position(piece: rest.count, offset: 0)
        return lastStranger(of: partyNumber, before: end, downTo: 0, ()) { _, id in matches(id) }
            ?? stranger(inHead: partyNumber, claim, ()) { _, id in matches(id) }
    }

    /// Any matching claim of any party except the given party. If a claim is given, only claims before it are searched.
    ///
    /// The seed decides where the search begins, so callers with different seeds find different claims. When one of
    /// these claims ends, only the few callers that found this claim must find another claim.
    func someStranger(
        of partyNumber: PartyNumber, before claim: ClaimID? = nil, seed: ClaimID,
        where matches: (ClaimID) -> Bool
    ) -> ClaimID? {
        someStranger(of: partyNumber, before: claim, seed: seed, in: ()) { _, id in matches(id) }
    }

    /// Any matching claim of any party except the given party. The closure gets its context as an argument.
    ///
    /// A closure that captured a large value would copy the value.
    func someStranger<Context>(
        of partyNumber: PartyNumber, before claim: ClaimID? = nil, seed: ClaimID,
        in context: borrowing Context, where matches: (borrowing Context, ClaimID) -> Bool
    ) -> ClaimID? {
        let end = claim.map(position) ?? Position(piece: rest.count, offset: 0)
        let hash = (seed.rawValue &* 0x9E37_79B9_7F4A_7C15) >> 16
        let pieces = end.piece + (end.offset > 0 ? 1 : 0)
        guard pieces > 0 else { return stranger(inHead: partyNumber, claim, context, matches) }
        let piece = Int(hash % UInt64(pieces))
        let length = piece == end.piece ? end.offset : rest[piece].members.count
        let start = Position(piece: piece, offset: Int((hash >> 24) % UInt64(length)) + 1)
        if let found = lastStranger(of: partyNumber, before: start, downTo: 0, context, matches) {
            return found
        }
        if let found = stranger(inHead: partyNumber, claim, context, matches) { return found }
        return lastStranger(of: partyNumber, before: end, downTo: piece, context, matches)
    }

    private func stranger<Context>(
        inHead partyNumber: PartyNumber, _ claim: ClaimID?, _ context: borrowing Context,
        _ matches: (borrowing Context, ClaimID) -> Bool
    ) -> ClaimID? {
        guard let head, claim.map({ head.id < $0 }) ?? true,
            head.partyNumber != partyNumber || partyNumber == 0
        else { return nil }
        return matches(context, head.id) ? head.id : nil
    }

    private func lastStranger<Context>(
        of partyNumber: PartyNumber, before end: Position, downTo least: Int, _ context: borrowing Context,
        _ matches: (borrowing Context, ClaimID) -> Bool
    ) -> ClaimID? {
        var (index, offset) = (end.piece, end.offset)
        while index >= least {
            if offset > 0, !rest[index].isAll(of: partyNumber) {
                let members = rest[index].members
                for place in (0..<offset).reversed() {
                    let member = members[place]
                    if member.partyNumber == partyNumber, partyNumber != 0 { continue }
                    if matches(context, member.id) { return member.id }
                }
            }
            index -= 1
            if index >= least { offset = rest[index].members.count }
        }
        return nil
    }

    /// The first matching claim of any party except the given party.
    func firstStranger(of partyNumber: PartyNumber, where matches: (ClaimID) -> Bool) -> ClaimID? {
        if let head, head.partyNumber != partyNumber || partyNumber == 0, matches(head.id) { return head.id }
        for piece in rest where !piece.isAll(of: partyNumber) {
            for member in piece.members where member.partyNumber != partyNumber || partyNumber == 0 {
                if matches(member.id) { return member.id }
            }
        }
        return nil
    }

    /// All claims of all parties except the given party.
    func strangers(of partyNumber: PartyNumber) -> [ClaimID] {
        var found: [ClaimID] = []
        _ = firstStranger(of: partyNumber) { id in
            found.append(id)
            return false
        }
        return found
    }

    mutating func insert(_ claim: ClaimID, _ partyNumber: PartyNumber) {
        let new = Member(id: claim, partyNumber: partyNumber)
        count += 1
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

    /// Sets the party number of a claim, because its party is now known.
    mutating func name(_ claim: ClaimID, _ partyNumber: PartyNumber) {
        if head?.id == claim {
            head?.partyNumber = partyNumber
            return
        }
        guard let found = find(claim) else { return }
        rest[found.piece].members[found.offset].partyNumber = partyNumber
        rest[found.piece].updatePartyNumber()
    }

    mutating func remove(_ claim: ClaimID) {
        guard let first = head else { return }
        if first.id == claim {
            count -= 1
            guard !rest.isEmpty else { return head = nil }
            head = rest[0].members[0]
            return remove(at: Position(piece: 0, offset: 0))
        }
        guard let found = find(claim) else { return }
        count -= 1
        remove(at: found)
    }

    private mutating func remove(at place: Position) {
        if rest[place.piece].members.count == 1 {
            rest.remove(at: place.piece)
        } else {
            rest[place.piece].members.remove(at: place.offset)
            if rest[place.piece].partyNumber == nil { rest[place.piece].updatePartyNumber() }
        }
    }

    private mutating func insertBehindHead(_ new: Member) {
        let last = rest.count - 1
        guard last >= 0 else { return rest.append(Chunk([new])) }
        if let end = rest[last].members.last, end.id < new.id {
            if rest[last].members.count < Chunk.most {
                rest[last].append(new)
            } else {
                rest.append(Chunk([new]))
            }
            return
        }
        var place = position(of: new.id)
        if rest[place.piece].members.count >= Chunk.most {
            let half = Chunk.most / 2
            let back = Chunk(Array(rest[place.piece].members[half...]))
            rest[place.piece].members.removeLast(rest[place.piece].members.count - half)
            rest.insert(back, at: place.piece + 1)
            place = position(of: new.id)
        }
        rest[place.piece].members.insert(new, at: place.offset)
        rest[place.piece].updatePartyNumber()
    }

    private func find(_ claim: ClaimID) -> Position? {
        let place = position(of: claim)
        guard place.piece < rest.count, place.offset < rest[place.piece].members.count,
            rest[place.piece].members[place.offset].id == claim
        else { return nil }
        return place
    }

    /// The position of a claim in the chunks; if the claim is not in the queue, the position at which it would be
    /// inserted.
    ///
    /// A position before the first member of a chunk is in that chunk. A position behind all claims is in no chunk.
    private func position(of claim: ClaimID) -> Position {
        // Most look-ups are for claims at the end of the queue, so the last claim is compared first.
        guard let last = last, last >= claim, !rest.isEmpty else {
            return Position(piece: rest.count, offset: 0)
        }
        // Finds the first chunk that ends with this claim or with a later one.
        var (low, high) = (0, rest.count - 1)
        while low < high {
            let middle = (low + high) / 2
            if let end = rest[middle].members.last, end.id < claim { low = middle + 1 } else { high = middle }
        }
        return Position(piece: low, offset: rest[low].place(of: claim))
    }
}
