// SPDX-License-Identifier: Apache-2.0
import Arbitration
import Coordination
import Testing

/// Two things in one small tree, and how they belong together.
struct Pairing: CustomTestStringConvertible, Sendable {
    struct Spot: Sendable {
        let item: UInt64
        let directory: UInt64?
        var link: UInt64?

        func part(_ access: Access) -> Request.Part {
            let isResolved = access == .read(.resolvesSymbolicLink)
            return Request.Part(
                ItemID(item), access,
                at: Place(in: directory.map { ItemID($0) }, link: link.map { LinkID($0) }),
                via: isResolved ? ItemID(99) : nil)
        }
    }

    let testDescription: String
    let one: Spot
    let other: Spot
    var isDirectoryAbove = false

    init(_ description: String, _ one: Spot, _ other: Spot, isDirectoryAbove: Bool = false) {
        testDescription = description
        self.one = one
        self.other = other
        self.isDirectoryAbove = isDirectoryAbove
    }

    /// The directories: 1 is the root, 2 to 4 lie in each other, and so do the package 5, the directory 7 in it and
    /// the package 6 in that.
    static let tree: [Event] = [
        .placed(ItemID(1), Directory(in: nil)),
        .placed(ItemID(2), Directory(in: ItemID(1))),
        .placed(ItemID(3), Directory(in: ItemID(2))),
        .placed(ItemID(4), Directory(in: ItemID(3))),
        .placed(ItemID(5), Directory(in: ItemID(2), isPackage: true)),
        .placed(ItemID(7), Directory(in: ItemID(5))),
        .placed(ItemID(6), Directory(in: ItemID(7), isPackage: true)),
    ]
    private static let package = Spot(item: 5, directory: 2)
    private static let inPackage = Spot(item: 50, directory: 5)
    private static let besideIt = Spot(item: 51, directory: 5)
    private static let inner = Spot(item: 6, directory: 7)
    private static let inInner = Spot(item: 60, directory: 6)

    static let ofOneUnit = [
        Self("one file", Spot(item: 10, directory: 1), Spot(item: 10, directory: 1)),
        Self("one plain directory", Spot(item: 2, directory: 1), Spot(item: 2, directory: 1)),
        Self("two files in one package", inPackage, besideIt),
        Self("a package and a file in it", package, inPackage),
        Self("a file in a package in a package, and one in the outer", inInner, besideIt),
        Self("a package and a file in a package in it", package, inInner),
        Self("a package in a package, and a file in the outer", inner, besideIt),
        Self(
            "a file in a package by its name and by a name outside", Spot(item: 50, directory: 5, link: 1),
            Spot(item: 50, directory: 1, link: 2)),
    ]

    private static let directory = Spot(item: 2, directory: 1)
    static let ofDirectories = [
        Self("a directory and a file in it", directory, Spot(item: 20, directory: 2), isDirectoryAbove: true),
        Self("a directory and one in it", directory, Spot(item: 3, directory: 2), isDirectoryAbove: true),
        Self(
            "a directory and a file three levels below", directory, Spot(item: 40, directory: 4),
            isDirectoryAbove: true),
        Self("a directory and a package in it", directory, package, isDirectoryAbove: true),
        Self("a directory and a file in a package below", directory, inPackage, isDirectoryAbove: true),
        Self("a directory and a file in a package in a package", directory, inInner, isDirectoryAbove: true),
    ]
}

/// Two accesses by strangers, one after the other, in a world of their own.
struct Encounter {
    enum Outcome: Equatable {
        /// The second was granted while the first was held.
        case besideEachOther
        /// The second was granted when the first had ended, and not before.
        case afterEachOther
        case something(String)
    }

    private var arbiter = Self.arbiter
    private let nature: Request.Nature
    private let first: Request.Part
    private let second: Request.Part
    private let isQueued: Bool
    private var granted: Set<ClaimID> = []

    /// Who knows the directories, and nothing else yet.
    private static let arbiter: Arbiter = {
        var arbiter = Arbiter(bounds: Bounds())
        var effects: [Effect] = []
        for event in Pairing.tree { arbiter.handle(event, at: Instant(nanoseconds: 0), into: &effects) }
        return arbiter
    }()
    private static let blocker = ClaimID(1)
    private static let firstClaim = ClaimID(2)
    private static let secondClaim = ClaimID(3)

    init(_ nature: Request.Nature, _ first: Request.Part, _ second: Request.Part, isQueued: Bool) {
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
        // Somebody has everything, so that both queue up behind it.
        if isQueued {
            tell(.claimed(Request(Self.blocker, .aware, writing(first), [writing(second)])))
        }
        tell(.claimed(Request(Self.firstClaim, nature, first)))
        tell(.claimed(Request(Self.secondClaim, nature, second)))
        if isQueued {
            guard granted == [Self.blocker] else { return .something("\(granted) while all is taken") }
            tell(.ended(Self.blocker))
        }
        guard granted.contains(Self.firstClaim) else { return .something("the first waits") }
        if granted.contains(Self.secondClaim) { return .besideEachOther }
        tell(.ended(Self.firstClaim))
        return granted.contains(Self.secondClaim) ? .afterEachOther : .something("the second waits for ever")
    }

    private func writing(_ part: Request.Part) -> Request.Part {
        Request.Part(part.item, .write(.updating), at: part.place)
    }

    /// Tells the arbiter, and says who everybody is as soon as it asks.
    private mutating func tell(_ event: Event) {
        var effects: [Effect] = []
        arbiter.handle(event, at: Instant(nanoseconds: 0), into: &effects)
        for effect in effects {
            if case .grant(let claim, _) = effect { granted.insert(claim) }
            if case .identify(let claim) = effect { tell(.identified(claim, party(of: claim))) }
        }
    }

    /// A process of its own for each; with a purpose of its own if it is an aware one.
    private func party(of claim: ClaimID) -> Party {
        let number = 100 + Int32(truncatingIfNeeded: claim.rawValue)
        var party = Party(process: ProcessID(number: number, started: 1), ancestors: [])
        if nature == .aware || claim == Self.blocker { party.purpose = Purpose("purpose \(claim.rawValue)") }
        return party
    }
}
