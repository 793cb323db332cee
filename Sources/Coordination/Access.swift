// SPDX-License-Identifier: Apache-2.0

/// The access that a claim asks for: a read, or a write with one of the options of Apple's NSFileCoordinator.
public enum Access: Hashable, Sendable {
    case read(ReadingOptions = [])
    case write(WritingOption)

    public var isWrite: Bool { if case .write = self { true } else { false } }

    /// Whether the access may change the contents of an item.
    public var changesContents: Bool {
        switch self {
        case .read, .write(.contentIndependentMetadataOnly), .write(.forMoving): false
        case .write(.updating), .write(.forMerging), .write(.forDeleting), .write(.forReplacing): true
        }
    }

    /// Whether this access to a directory also needs all items in the directory.
    public var isStructural: Bool { if case .write(let option) = self { option.isStructural } else { false } }

    /// Whether the access removes an item: it deletes the item, or replaces the item that had the name.
    public var isDeletion: Bool { self == .write(.forDeleting) || self == .write(.forReplacing) }

    /// Whether two claims with these accesses are allowed to be held on one item at the same time. This is so only if
    /// both accesses are reads.
    public func isCompatible(with other: Access) -> Bool { !isWrite && !other.isWrite }
}

/// The options of a read, in any combination.
///
/// The names, numbers and meanings are those of Apple's NSFileCoordinator.
public struct ReadingOptions: OptionSet, Hashable, Sendable {
    public let rawValue: UInt8
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The read does not ask presenters to save first.
    public static let withoutChanges = Self(rawValue: 1)
    /// If the item is a symbolic link, its target is read.
    public static let resolvesSymbolicLink = Self(rawValue: 2)
    /// The read causes no download of contents. It needs the same locks, and causes the same questions, as a read
    /// without this option.
    public static let immediatelyAvailableMetadataOnly = Self(rawValue: 4)
    /// The reader makes a copy and then ends the claim. Until then the claim is treated like the claim of any other
    /// read.
    public static let forUploading = Self(rawValue: 8)
}

/// The option of a write.
///
/// The names and their meanings are those of Apple's NSFileCoordinator.
public enum WritingOption: String, Hashable, Sendable, CaseIterable {
    /// The contents of the item are updated; Apple writes this option as `[]`.
    case updating
    case forMerging
    /// Only metadata are changed. The locks and messages are the same as for `updating`, because Apple documents no
    /// difference.
    case contentIndependentMetadataOnly
    case forDeleting
    case forMoving
    case forReplacing

    /// Whether a write of a directory with this option also needs all items in the directory.
    public var isStructural: Bool { self == .forDeleting || self == .forMoving || self == .forReplacing }
}
