// SPDX-License-Identifier: Apache-2.0

/// What a claimant intends to do with an item: read it, or write it in one of Apple's senses.
public enum Access: Hashable, Sendable {
    case read(ReadingOptions = [])
    case write(WritingOption)

    public var isWrite: Bool { if case .write = self { true } else { false } }

    /// Whether what it does may give an item other contents.
    public var changesContents: Bool {
        switch self {
        case .read, .write(.contentIndependentMetadataOnly), .write(.forMoving): false
        case .write(.updating), .write(.forMerging), .write(.forDeleting), .write(.forReplacing): true
        }
    }

    /// Whether a directory that is accessed so is accessed with everything in it.
    public var isStructural: Bool { if case .write(let option) = self { option.isStructural } else { false } }

    /// Whether the item, or what had its name, is not there afterwards.
    public var isDeletion: Bool { self == .write(.forDeleting) || self == .write(.forReplacing) }

    /// Whether two claims of these kinds may be held on one item at once: readers beside readers only.
    public func isCompatible(with other: Access) -> Bool { !isWrite && !other.isWrite }
}

/// The options a read may carry, in any mix.
///
/// The names, numbers and meaning are NSFileCoordinator's.
public struct ReadingOptions: OptionSet, Hashable, Sendable {
    public let rawValue: UInt8
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// Presenters are not asked to save.
    public static let withoutChanges = Self(rawValue: 1)
    /// If the item is a symbolic link, what it leads to is read.
    public static let resolvesSymbolicLink = Self(rawValue: 2)
    /// Nothing is fetched for it; locks and messages are those of any read.
    public static let immediatelyAvailableMetadataOnly = Self(rawValue: 4)
    /// A copy is made and the claim ended as soon as there is one; until then it is like any read.
    public static let forUploading = Self(rawValue: 8)
}

/// The one option a write may carry.
///
/// The names and their meaning are NSFileCoordinator's.
public enum WritingOption: String, Hashable, Sendable, CaseIterable {
    /// Apple's `[]`: the item is updated.
    case updating
    case forMerging
    /// Like `updating`: no other difference in locks and messages is published.
    case contentIndependentMetadataOnly
    case forDeleting
    case forMoving
    case forReplacing

    /// Whether it concerns everything in a directory.
    public var isStructural: Bool { self == .forDeleting || self == .forMoving || self == .forReplacing }
}
