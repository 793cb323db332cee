// SPDX-License-Identifier: Apache-2.0

/// The number of one of the names of an item with several names.
public struct LinkID: Hashable, Comparable, Sendable, CustomStringConvertible {
    public let rawValue: UInt64
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }
    public static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }
    public var description: String { "l\(rawValue)" }
}

/// A name by which an item is reached: the directory of the name, and the number of the name.
public struct Place: Hashable, Sendable {
    // Stored as plain numbers, which need less memory than optionals, because very many claims have a place.
    private var directoryNumber: UInt64
    private var linkNumber: UInt64
    private static let none = UInt64.max

    /// The directory of the name. Nil for the root, for an item without a name, and if the directory is unknown.
    public var directory: ItemID? {
        get { directoryNumber == Self.none ? nil : ItemID(directoryNumber) }
        set { directoryNumber = newValue?.rawValue ?? Self.none }
    }
    /// The number that Truce gives to one name of an item with several names; nil if the item has only one name. A
    /// program moves or deletes one name at a time, so the names must be distinguished.
    public var link: LinkID? {
        get { linkNumber == Self.none ? nil : LinkID(linkNumber) }
        set { linkNumber = newValue?.rawValue ?? Self.none }
    }

    public init(in directory: ItemID? = nil, link: LinkID? = nil) {
        directoryNumber = directory?.rawValue ?? Self.none
        linkNumber = link?.rawValue ?? Self.none
    }

    /// Whether both places can stand for the same name. A place without a name number (`link`) matches every place.
    public func isSameName(as other: Place) -> Bool {
        linkNumber == Self.none || other.linkNumber == Self.none || linkNumber == other.linkNumber
    }
}

/// The properties of a directory that the arbiter needs.
public struct DirectoryInfo: Hashable, Sendable {
    /// The directory above; nil for the root of the mount.
    public var parent: ItemID?
    /// Whether the directory is a package: an access to an item in a package is an access to the whole package.
    public var isPackage: Bool

    public init(in parent: ItemID?, isPackage: Bool = false) {
        self.parent = parent
        self.isPackage = isPackage
    }
}

/// The move of an item from one name to another.
public struct Move: Hashable, Sendable {
    public var from: Place
    public var to: Place
    /// A new item that stands for the former name. Claims can wait for this item. Nil if no claim can wait for the
    /// name.
    public var placeholder: ItemID?
    /// The document that the moved file is from now on, because a save has renamed the file to the name of the
    /// document.
    public var replacedDocument: ItemID?
    /// Whether this move is the second half of an exchange of two names. In this case the other item already has this
    /// item's former name.
    public var isSecondHalf: Bool

    public init(
        from: Place = Place(), to: Place = Place(), placeholder: ItemID? = nil,
        replacedDocument: ItemID? = nil,
        isSecondHalf: Bool = false
    ) {
        self.from = from
        self.to = to
        self.placeholder = placeholder
        self.replacedDocument = replacedDocument
        self.isSecondHalf = isSecondHalf
    }
}
