// SPDX-License-Identifier: Apache-2.0

/// Names one of the names of an item that has several.
public struct LinkID: Hashable, Comparable, Sendable, CustomStringConvertible {
    public let rawValue: UInt64
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }
    public static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }
    public var description: String { "l\(rawValue)" }
}

/// Where an item is reached: in which directory, and by which of its names.
public struct Place: Hashable, Sendable {
    // One number each: a claim has a place, and there are very many claims.
    private var directoryNumber: UInt64
    private var linkNumber: UInt64
    private static let none = UInt64.max

    /// Nil for the root, for what has no name, and where nobody has said so.
    public var directory: ItemID? {
        get { directoryNumber == Self.none ? nil : ItemID(directoryNumber) }
        set { directoryNumber = newValue?.rawValue ?? Self.none }
    }
    /// Nil for an item with one name: contents are the item's, but names are moved and deleted one by one.
    public var link: LinkID? {
        get { linkNumber == Self.none ? nil : LinkID(linkNumber) }
        set { linkNumber = newValue?.rawValue ?? Self.none }
    }

    public init(in directory: ItemID? = nil, link: LinkID? = nil) {
        directoryNumber = directory?.rawValue ?? Self.none
        linkNumber = link?.rawValue ?? Self.none
    }

    /// Whether both may be the same name.
    public func isSameName(as other: Place) -> Bool {
        linkNumber == Self.none || other.linkNumber == Self.none || linkNumber == other.linkNumber
    }
}

/// What has to be known of a directory.
public struct DirectoryInfo: Hashable, Sendable {
    /// Nil for the root.
    public var parent: ItemID?
    /// One file to its user: whoever accesses something in it accesses all of it.
    public var isPackage: Bool

    public init(in parent: ItemID?, isPackage: Bool = false) {
        self.parent = parent
        self.isPackage = isPackage
    }
}

/// What became of a name.
public struct Move: Hashable, Sendable {
    public var from: Place
    public var to: Place
    /// Stands for the former name from now on; nil if nobody can be waiting for it.
    public var placeholder: ItemID?
    /// The document whose name it takes and that goes on under it: a file renamed over a document in a save.
    public var over: ItemID?
    /// Of an exchange: what had the new name has taken the former one already.
    public var isSecondHalf: Bool

    public init(
        from: Place = Place(), to: Place = Place(), placeholder: ItemID? = nil, over: ItemID? = nil,
        isSecondHalf: Bool = false
    ) {
        self.from = from
        self.to = to
        self.placeholder = placeholder
        self.over = over
        self.isSecondHalf = isSecondHalf
    }
}
