// SPDX-License-Identifier: Apache-2.0

/// What a claimant intends to do with an item: read it, or write it in one of Apple's senses.
public enum Access: Hashable, Sendable {
    case read
    case write(WritingOption)

    public var isWrite: Bool { if case .write = self { true } else { false } }

    /// Whether two claims of these kinds may be held on one item at once: readers beside readers only.
    public func isCompatible(with other: Access) -> Bool { !isWrite && !other.isWrite }
}

/// The one option a write may carry.
///
/// The names and their meaning are NSFileCoordinator's.
public enum WritingOption: String, Hashable, Sendable, CaseIterable {
    /// Apple's `[]`: the item is updated.
    case updating
    case forMerging
    case forDeleting
    case forMoving
    case forReplacing
}
