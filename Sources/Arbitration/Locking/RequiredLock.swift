// SPDX-License-Identifier: Apache-2.0
import Coordination

/// A resource that claims can lock: an item, or the contents of a directory (S3).
struct Resource: Hashable, Comparable, Sendable {
    private let number: UInt64

    static func item(_ item: ItemID) -> Self { Self(number: item.rawValue << 1) }
    static func contents(of directory: ItemID) -> Self { Self(number: directory.rawValue << 1 | 1) }
    static func < (one: Self, other: Self) -> Bool { one.number < other.number }

    var item: ItemID { ItemID(number >> 1) }

    func _rawHashValue(seed: Int) -> Int { Numbering.hash(number) }
    var isContents: Bool { number & 1 == 1 }
}

/// A lock that a claim must have before the claim is granted.
struct RequiredLock: Hashable, Sendable {
    let resource: Resource
    var isWrite: Bool

    init(_ resource: Resource, isWrite: Bool) {
        self.resource = resource
        self.isWrite = isWrite
    }
}

extension [RequiredLock] {
    /// G1: Adds a lock to the list. Two locks on one resource become a single lock, which is to write if either lock is
    /// to write.
    mutating func add(_ resource: Resource, isWrite: Bool) {
        if let place = firstIndex(where: { $0.resource == resource }) {
            if isWrite { self[place].isWrite = true }
        } else {
            append(RequiredLock(resource, isWrite: isWrite))
        }
    }
}
