// SPDX-License-Identifier: Apache-2.0

/// The number of one name of an item with several names.
public struct LinkID: Hashable, Comparable, Sendable, CustomStringConvertible {
    public let rawValue: UInt64
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }
    public static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }
    public var description: String { "l\(rawValue)" }
}

/// The name by which an item is reached: its directory, and which of its names.
public struct Place: Hashable, Sendable {
    // Numbers in place of optionals save memory: each of very many claims has a place.
    private var directoryNumber: UInt64
    private var linkNumber: UInt64
    private static let none = UInt64.max

    /// Nil for the root, for an item without a name, and where the directory is unknown.
    public var directory: ItemID? {
        get { directoryNumber == Self.none ? nil : ItemID(directoryNumber) }
        set { directoryNumber = newValue?.rawValue ?? Self.none }
    }
    /// Nil for an item with one name. Contents belong to the item, but names are moved and deleted one by one.
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

/// The properties of a directory that the arbiter needs.
public struct DirectoryInfo: Hashable, Sendable {
    /// Nil for the root.
    public var parent: ItemID?
    /// A package: an access to an item in it is an access to all of it.
    public var isPackage: Bool

    public init(in parent: ItemID?, isPackage: Bool = false) {
        self.parent = parent
        self.isPackage = isPackage
    }
}

/// A change of a name.
public struct Move: Hashable, Sendable {
    public var from: Place
    public var to: Place
    /// The item that has the former name from now on; nil if no claim can wait for it.
    public var placeholder: ItemID?
    /// The document that goes on under the new name: a save has renamed a file over it.
    public var replacedDocument: ItemID?
    /// The second half of an exchange: the item that had the new name already has the former name.
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
