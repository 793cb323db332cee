// SPDX-License-Identifier: Apache-2.0

// Public, unlike the rest of the module: the compiler specialises and inlines in other modules what is public, and not what
// is `package`.

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

/// How a dictionary spreads the numbers of files and handles, each of which is looked for in every request.
///
/// Without the secret that dictionaries mix in, which costs more than the rest of the search: a file's number is its file
/// system's and a handle's is ours, and who makes a billion files to find some that meet in one place has them searched
/// one after another, in microseconds. The upper half is folded in, because a product's lower bits do not depend on it.
@usableFromInline
func spread(_ number: UInt64) -> Int {
    Int(truncatingIfNeeded: ((number ^ number >> 32) &* 0x9E37_79B9_7F4A_7C15) >> 32)
}
