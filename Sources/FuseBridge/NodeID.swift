// SPDX-License-Identifier: Apache-2.0

// Public, unlike the rest of the module: the compiler specialises and inlines public declarations in other modules, but not
// `package` declarations.

/// Names an inode to the kernel, from the reply that introduces it to the last FORGET.
public struct NodeID: Hashable, Sendable {
    public let rawValue: UInt64
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }
    public static let root = NodeID(1)
    @inlinable public func _rawHashValue(seed: Int) -> Int { spread(rawValue) }
}

/// Names an open file or directory between its OPEN and its RELEASE.
public struct HandleID: Hashable, Sendable {
    public let rawValue: UInt64
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }
    @inlinable public func _rawHashValue(seed: Int) -> Int { spread(rawValue) }
}

/// Hashes the number of a node or handle; each request looks such a number up.
///
/// It omits the secret of Swift's dictionaries, which costs more than the rest of the lookup. The file system below chooses
/// the inode numbers, and the daemon chooses the handle numbers. A user could make a billion files to find some with equal
/// hashes. A lookup would then compare those in turn, for some microseconds. The function folds in the upper half, because
/// the lower bits of a product do not depend on it.
@usableFromInline
func spread(_ number: UInt64) -> Int {
    Int(truncatingIfNeeded: ((number ^ number >> 32) &* 0x9E37_79B9_7F4A_7C15) >> 32)
}
