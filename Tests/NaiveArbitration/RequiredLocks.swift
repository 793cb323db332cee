// SPDX-License-Identifier: Apache-2.0
import Coordination

/// A resource that can be locked: an item, or the contents of a plain directory, which have a lock of their own.
enum NaiveResource: Hashable, Sendable {
    case item(ItemID)
    case contents(ItemID)
}

struct NaiveLock: Sendable {
    let thing: NaiveResource
    let isWrite: Bool
}

/// Computes the places of items and the required locks of claims.
extension NaiveArbiter {
    /// The directories above an item, the nearest directory first.
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

    /// The outermost package at or above an item.
    func outermostPackage(of item: ItemID, at place: Place) -> ItemID? {
        ([item] + ancestors(of: item, at: place)).last { isPackage($0) }
    }

    func isPlain(_ directory: ItemID) -> Bool {
        directories[directory] != nil && outermostPackage(of: directory, at: Place()) == nil
    }

    /// S1 to S3: the locks that a claim requires. Two locks of a claim on one resource count as one lock (G1).
    func requiredLocks(of claim: NaiveClaim) -> [NaiveLock] {
        // B1: a batch only asks presenters, and requires no lock.
        if claim.nature == .batch { return [] }
        var found: [NaiveLock] = []
        for lock in claim.parts.flatMap({ requiredLocks($0.item, $0.place, $0.access) }) {
            if let index = found.firstIndex(where: { $0.thing == lock.thing }) {
                if lock.isWrite { found[index] = lock }
            } else {
                found.append(lock)
            }
        }
        return found
    }

    private func requiredLocks(_ item: ItemID, _ place: Place, _ access: Access) -> [NaiveLock] {
        var requiredLocks = [NaiveLock(thing: .item(item), isWrite: access.isWrite)]
        if let outermostPackage = outermostPackage(of: item, at: place), outermostPackage != item {
            requiredLocks.append(NaiveLock(thing: .item(outermostPackage), isWrite: access.isWrite))
        }
        for directory in ancestors(of: item, at: place) where isPlain(directory) {
            requiredLocks.append(NaiveLock(thing: .contents(directory), isWrite: false))
        }
        if access.isStructural, isPlain(item) {
            requiredLocks.append(NaiveLock(thing: .contents(item), isWrite: true))
        }
        return requiredLocks
    }

    /// For each resource on which the two claims meet, whether the first and whether the second claim writes.
    func meetings(_ one: Int, _ other: Int, on only: NaiveResource? = nil) -> [(Bool, Bool)] {
        let theirs = claims[other].requiredLocks
        return claims[one].requiredLocks.compactMap { lock in
            let thing = lock.thing
            if let only, thing != only { return nil }
            guard let yours = theirs.first(where: { $0.thing == thing })?.isWrite else { return nil }
            let mine = lock.isWrite
            guard mine || yours else { return nil }
            if case .contents(let directory) = thing {
                guard mine && yours || claims[mine ? other : one].entered.contains(directory) else {
                    return nil
                }
            }
            return (mine, yours)
        }
    }

    func things(onWhichMeet one: Int, _ other: Int) -> [NaiveResource] {
        claims[one].requiredLocks.map(\.thing).filter { !meetings(one, other, on: $0).isEmpty }
    }

    func meets(_ one: Int, _ other: Int) -> Bool { !meetings(one, other).isEmpty }

    /// Computes which locks all claims require, and which of the read locks on the contents of directories count (S4).
    ///
    /// - A read lock on contents counts while another claim requires a lock to write these contents.
    /// - When the last claim that writes the contents has ended, the read lock no longer counts.
    /// - For a name change that arrives after the reader, only the read locks of aware claims count.
    mutating func enter() {
        let all = claims.map { requiredLocks(of: $0) }
        for index in claims.indices { claims[index].requiredLocks = all[index] }
        for index in claims.indices {
            defer { claims[index].isNew = false }
            var read: Set<ItemID> = []
            for lock in all[index] {
                guard case .contents(let directory) = lock.thing, !lock.isWrite else { continue }
                read.insert(directory)
                let writers = claims.indices.filter { other in
                    other != index && all[other].contains { $0.thing == lock.thing && $0.isWrite }
                }
                let isForced =
                    claims[index].nature == .aware || writers.contains { claims[$0].nature != .nameChange }
                if writers.isEmpty {
                    claims[index].entered.remove(directory)
                } else if claims[index].isNew || isForced {
                    claims[index].entered.insert(directory)
                }
            }
            claims[index].entered.formIntersection(read)
        }
    }

    /// P15: whether a write of the item at its current place would meet the required locks of a claim.
    func wouldMeet(_ item: ItemID, _ place: Place, _ claim: NaiveClaim) -> Bool {
        let ours = requiredLocks(item, place, .write(.updating))
        return claim.requiredLocks.contains { theirs in
            ours.contains { $0.thing == theirs.thing && ($0.isWrite || theirs.isWrite) }
        }
    }
}
