// SPDX-License-Identifier: Apache-2.0
import Arbitration
import Coordination
import Testing

/// Two items in a small tree, and how the items are related, such as the same item or a directory and a file in it.
struct Pairing: CustomTestStringConvertible, Sendable {
    struct ItemSpot: Sendable {
        let item: UInt64
        let directory: UInt64?
        var link: UInt64?

        func part(_ access: Access) -> ClaimRequest.Part {
            let isResolved = access == .read(.resolvesSymbolicLink)
            return ClaimRequest.Part(
                ItemID(item), access,
                at: Place(in: directory.map { ItemID($0) }, link: link.map { LinkID($0) }),
                via: isResolved ? ItemID(99) : nil)
        }
    }

    let testDescription: String
    let one: ItemSpot
    let other: ItemSpot
    var isDirectoryAbove = false

    init(_ description: String, _ one: ItemSpot, _ other: ItemSpot, isDirectoryAbove: Bool = false) {
        testDescription = description
        self.one = one
        self.other = other
        self.isDirectoryAbove = isDirectoryAbove
    }

    /// The directories: 1 is the root, and 2 to 4 are nested. Package 5 lies in 2, directory 7 in 5, and package 6 in
    /// 7.
    static let tree: [ArbiterEvent] = [
        .placed(ItemID(1), DirectoryInfo(in: nil)),
        .placed(ItemID(2), DirectoryInfo(in: ItemID(1))),
        .placed(ItemID(3), DirectoryInfo(in: ItemID(2))),
        .placed(ItemID(4), DirectoryInfo(in: ItemID(3))),
        .placed(ItemID(5), DirectoryInfo(in: ItemID(2), isPackage: true)),
        .placed(ItemID(7), DirectoryInfo(in: ItemID(5))),
        .placed(ItemID(6), DirectoryInfo(in: ItemID(7), isPackage: true)),
    ]
    private static let package = ItemSpot(item: 5, directory: 2)
    private static let inPackage = ItemSpot(item: 50, directory: 5)
    private static let besideIt = ItemSpot(item: 51, directory: 5)
    private static let inner = ItemSpot(item: 6, directory: 7)
    private static let inInner = ItemSpot(item: 60, directory: 6)

    static let ofOneUnit = [
        Self("one file", ItemSpot(item: 10, directory: 1), ItemSpot(item: 10, directory: 1)),
        Self("one plain directory", ItemSpot(item: 2, directory: 1), ItemSpot(item: 2, directory: 1)),
        Self("two files in one package", inPackage, besideIt),
        Self("a package and a file in it", package, inPackage),
        Self("a file in a package in a package, and one in the outer", inInner, besideIt),
        Self("a package and a file in a package in it", package, inInner),
        Self("a package in a package, and a file in the outer", inner, besideIt),
        Self(
            "a file in a package by its name and by a name outside",
            ItemSpot(item: 50, directory: 5, link: 1),
            ItemSpot(item: 50, directory: 1, link: 2)),
    ]

    private static let directory = ItemSpot(item: 2, directory: 1)
    static let ofDirectories = [
        Self(
            "a directory and a file in it", directory, ItemSpot(item: 20, directory: 2),
            isDirectoryAbove: true),
        Self("a directory and one in it", directory, ItemSpot(item: 3, directory: 2), isDirectoryAbove: true),
        Self(
            "a directory and a file three levels below", directory, ItemSpot(item: 40, directory: 4),
            isDirectoryAbove: true),
        Self("a directory and a package in it", directory, package, isDirectoryAbove: true),
        Self("a directory and a file in a package below", directory, inPackage, isDirectoryAbove: true),
        Self("a directory and a file in a package in a package", directory, inInner, isDirectoryAbove: true),
    ]
}

/// Two accesses by unrelated programs, one after the other. Each trial has an arbiter of its own.
struct ConflictTrial {
    enum Outcome: Equatable {
        /// The second access was granted while the first access was held.
        case besideEachOther
        /// The second access was granted only after the first access had ended.
        case afterEachOther
        case something(String)
    }

    private var arbiter = Self.arbiter
    private let nature: ClaimRequest.Nature
    private let first: ClaimRequest.Part
    private let second: ClaimRequest.Part
    private let isQueued: Bool
    private var granted: Set<ClaimID> = []

    /// An arbiter that has received the places of the directories and no other event.
    private static let arbiter: Arbiter = {
        var arbiter = Arbiter(bounds: Bounds())
        var effects: [Effect] = []
        for event in Pairing.tree { arbiter.handle(event, at: Instant(nanoseconds: 0), into: &effects) }
        return arbiter
    }()
    private static let blocker = ClaimID(1)
    private static let firstClaim = ClaimID(2)
    private static let secondClaim = ClaimID(3)

    init(
        _ nature: ClaimRequest.Nature, _ first: ClaimRequest.Part, _ second: ClaimRequest.Part, isQueued: Bool
    ) {
        self.nature = nature
        self.first = first
        self.second = second
        self.isQueued = isQueued
    }

    func outcome() -> Outcome {
        var world = self
        return world.play()
    }

    private mutating func play() -> Outcome {
        // A third claim holds both items before the trial. So both accesses of the trial wait in the queue until the third
        // claim ends.
        if isQueued {
            tell(.claimed(ClaimRequest(Self.blocker, .aware, writing(first), [writing(second)])))
        }
        tell(.claimed(ClaimRequest(Self.firstClaim, nature, first)))
        tell(.claimed(ClaimRequest(Self.secondClaim, nature, second)))
        if isQueued {
            guard granted == [Self.blocker] else { return .something("\(granted) while all is taken") }
            tell(.ended(Self.blocker))
        }
        guard granted.contains(Self.firstClaim) else { return .something("the first waits") }
        if granted.contains(Self.secondClaim) { return .besideEachOther }
        tell(.ended(Self.firstClaim))
        return granted.contains(Self.secondClaim) ? .afterEachOther : .something("the second waits for ever")
    }

    private func writing(_ part: ClaimRequest.Part) -> ClaimRequest.Part {
        ClaimRequest.Part(part.item, .write(.updating), at: part.place)
    }

    /// Sends an event to the arbiter. When the arbiter asks for the party of a claim, the party is immediately identified.
    private mutating func tell(_ event: ArbiterEvent) {
        var effects: [Effect] = []
        arbiter.handle(event, at: Instant(nanoseconds: 0), into: &effects)
        for effect in effects {
            if case .grant(let claim, _) = effect { granted.insert(claim) }
            if case .identify(let claim) = effect { tell(.identified(claim, party(of: claim))) }
        }
    }

    /// The party that makes a claim. Each claim has its own process, and an aware claim also its own purpose.
    private func party(of claim: ClaimID) -> Party {
        let number = 100 + Int32(truncatingIfNeeded: claim.rawValue)
        var party = Party(process: ProcessID(number: number, started: 1), ancestors: [])
        if nature == .aware || claim == Self.blocker { party.purpose = Purpose("purpose \(claim.rawValue)") }
        return party
    }
}
