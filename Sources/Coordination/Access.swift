// SPDX-License-Identifier: Apache-2.0

/// The access that a claim asks for: a read, or a write with one of Apple's options.
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

    /// Whether an access to a directory is also an access to everything in it.
    public var isStructural: Bool { if case .write(let option) = self { option.isStructural } else { false } }

    /// Whether the item, or the item that had its name, is gone after the access.
    public var isDeletion: Bool { self == .write(.forDeleting) || self == .write(.forReplacing) }

    /// Whether two claims with these accesses may be held on one item at once: only reads are compatible.
    public func isCompatible(with other: Access) -> Bool { !isWrite && !other.isWrite }
}

/// The options of a read, in any combination.
///
/// The names, numbers and meaning are NSFileCoordinator's.
public struct ReadingOptions: OptionSet, Hashable, Sendable {
    public let rawValue: UInt8
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// Presenters are not asked to save.
    public static let withoutChanges = Self(rawValue: 1)
    /// If the item is a symbolic link, its target is read.
    public static let resolvesSymbolicLink = Self(rawValue: 2)
    /// No contents are fetched for the read; locks and messages are those of any read.
    public static let immediatelyAvailableMetadataOnly = Self(rawValue: 4)
    /// The reader makes a copy and then ends the claim; until then it is like any read.
    public static let forUploading = Self(rawValue: 8)
}

/// The option of a write.
///
/// The names and their meaning are NSFileCoordinator's.
public enum WritingOption: String, Hashable, Sendable, CaseIterable {
    /// Apple's `[]`: the item is updated.
    case updating
    case forMerging
    /// Like `updating`: Apple publishes no other difference in locks and messages.
    case contentIndependentMetadataOnly
    case forDeleting
    case forMoving
    case forReplacing

    /// Whether the write concerns everything in a directory.
    public var isStructural: Bool { self == .forDeleting || self == .forMoving || self == .forReplacing }
}
