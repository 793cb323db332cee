// SPDX-License-Identifier: Apache-2.0
import Coordination

/// What can be staked: an item, or apart from it the contents of a plain directory.
enum NaiveThing: Hashable {
    case item(ItemID)
    case contents(ItemID)
}

struct NaiveStake {
    let thing: NaiveThing
    let isWrite: Bool
}

/// Where things are, and what claims stake.
extension NaiveArbiter {
    /// The directories above, the nearest first.
    func ancestors(of item: ItemID, at place: Place) -> [ItemID] {
        var chain: [ItemID] = []
        var next = directories[item].map { $0.parent } ?? place.directory
        while let directory = next, !chain.contains(directory) {
            chain.append(directory)
            next = directories[directory]?.parent
        }
        return chain
    }

    func isPackage(_ item: ItemID) -> Bool { directories[item]?.isPackage ?? false }

    /// The outermost package at or above.
    func unit(of item: ItemID, at place: Place) -> ItemID? {
        ([item] + ancestors(of: item, at: place)).last { isPackage($0) }
    }

    func isPlain(_ directory: ItemID) -> Bool {
        directories[directory] != nil && unit(of: directory, at: Place()) == nil
    }

    /// S1, S2, S3; two in one thing count as one (G1).
    func stakes(of claim: NaiveClaim) -> [NaiveStake] {
        // B1.
        if claim.nature == .batch { return [] }
        return claim.parts.flatMap { stakes($0.item, $0.place, $0.access) }
    }

    private func stakes(_ item: ItemID, _ place: Place, _ access: Access) -> [NaiveStake] {
        var stakes = [NaiveStake(thing: .item(item), isWrite: access.isWrite)]
        if let unit = unit(of: item, at: place), unit != item {
            stakes.append(NaiveStake(thing: .item(unit), isWrite: access.isWrite))
        }
        for directory in ancestors(of: item, at: place) where isPlain(directory) {
            stakes.append(NaiveStake(thing: .contents(directory), isWrite: false))
        }
        if access.isStructural, isPlain(item) { stakes.append(NaiveStake(thing: .contents(item), isWrite: true)) }
        return stakes
    }

    /// Whether each writes, for everything that both stake and one of them writes.
    func meetings(_ one: Int, _ other: Int) -> [(Bool, Bool)] {
        let ours = stakes(of: claims[one])
        let theirs = stakes(of: claims[other])
        let shared = Set(ours.map(\.thing)).intersection(theirs.map(\.thing))
        return shared.compactMap { thing in
            let mine = ours.contains { $0.thing == thing && $0.isWrite }
            let yours = theirs.contains { $0.thing == thing && $0.isWrite }
            guard mine || yours else { return nil }
            if case .contents = thing, isUnentered(mine ? other : one, besides: mine ? one : other) {
                return nil
            }
            return (mine, yours)
        }
    }

    func meets(_ one: Int, _ other: Int) -> Bool { !meetings(one, other).isEmpty }

    /// S4: a change of names enters only aware claims, of those who were there before it.
    private func isUnentered(_ reader: Int, besides writer: Int) -> Bool {
        claims[writer].nature == .nameChange && claims[reader].nature != .aware && reader < writer
    }

    /// Whether somebody who writes the item now would meet what a claim stakes (P15).
    func wouldMeet(_ item: ItemID, _ place: Place, _ claim: NaiveClaim) -> Bool {
        let ours = stakes(item, place, .write(.updating))
        return stakes(of: claim).contains { theirs in
            ours.contains { $0.thing == theirs.thing && ($0.isWrite || theirs.isWrite) }
        }
    }
}
