// SPDX-License-Identifier: Apache-2.0

// The declarations in this file are public, unlike the rest of the module. The compiler specialises and inlines public
// declarations in other modules, but not `package` declarations.

/// The number by which the kernel knows an inode, from the reply that introduces the inode to the last FORGET.
public struct NodeID: Hashable, Sendable {
    public let rawValue: UInt64
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }
    public static let root = NodeID(1)
    @inlinable public func _rawHashValue(seed: Int) -> Int { spread(rawValue) }
}

/// The number of an open file or directory, from the answer to its OPEN to its RELEASE.
public struct HandleID: Hashable, Sendable {
    public let rawValue: UInt64
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }
    @inlinable public func _rawHashValue(seed: Int) -> Int { spread(rawValue) }
}

/// Hashes the number of a node or handle. Each request looks up such a number, so the hash must be fast.
///
/// The hash omits the secret that Swift's dictionaries use, because the secret takes more time than the rest of the look-up.
/// Without the secret, a user could make a billion files to find some with equal hashes. A look-up would then compare these
/// files one after another, which takes only some microseconds.
///
/// The upper half of the number is folded into the lower half. Without this, the lower bits of the product would not depend on
/// the upper half.
@usableFromInline
func spread(_ number: UInt64) -> Int {
    Int(truncatingIfNeeded: ((number ^ number >> 32) &* 0x9E37_79B9_7F4A_7C15) >> 32)
}
