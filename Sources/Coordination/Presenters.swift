// SPDX-License-Identifier: Apache-2.0

/// The number of a presenter for its whole life.
public struct PresenterID: Hashable, Comparable, Sendable, CustomStringConvertible {
    public let rawValue: UInt64
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }
    public static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }
    public var description: String { "p\(rawValue)" }
}

/// The number of a question, until it is answered or forfeited.
public struct QuestionID: Hashable, Comparable, Sendable, CustomStringConvertible {
    public let rawValue: UInt64
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }
    public static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }
    public var description: String { "?\(rawValue)" }
}

/// The number of an access session: all accesses of one program to a presented item, as its presenter is told of
/// them.
///
/// Accesses of one process without a longer pause are one session. So a save in several steps is one relinquishment,
/// one change and one reacquisition.
public struct AccessSessionID: Hashable, Comparable, Sendable, CustomStringConvertible {
    public let rawValue: UInt64
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }
    public static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }
    public var description: String { "t\(rawValue)" }
}

/// A question to a presenter, to be answered in time.
///
/// The names and their meaning are NSFilePresenter's.
public enum PresenterRequest: String, Hashable, Sendable, CaseIterable {
    case relinquishToReader
    case relinquishToWriter
    case save
    case accommodateDeletion
    /// The same for an item in the presented directory.
    case accommodateSubitemDeletion

    public var isRelinquishment: Bool { self == .relinquishToReader || self == .relinquishToWriter }
    public var isDeletion: Bool { self == .accommodateDeletion || self == .accommodateSubitemDeletion }
}

/// A notice to a presenter, without an answer.
public enum PresenterNotice: String, Hashable, Sendable, CaseIterable {
    /// The access session for which it relinquished the item is over.
    case reacquire
    /// Contents or attributes were written.
    case didChange
    /// The item, or a directory above it, has a new name.
    case didMove
    /// A new item is in the presented directory, at any depth.
    case subitemDidAppear
    /// Contents or attributes of an item in the directory were written, or it was deleted; the cause tells which.
    case subitemDidChange
    /// An item in the directory has a new name, which may be outside the directory.
    case subitemDidMove
}

/// The messages that a presenter implements; others are not sent and count as consent.
public struct PresenterMessages: OptionSet, Hashable, Sendable {
    public let rawValue: UInt16
    public init(rawValue: UInt16) { self.rawValue = rawValue }

    public static let relinquishToReader = Self(rawValue: 1 << 0)
    public static let relinquishToWriter = Self(rawValue: 1 << 1)
    public static let save = Self(rawValue: 1 << 2)
    public static let accommodateDeletion = Self(rawValue: 1 << 3)
    public static let reacquire = Self(rawValue: 1 << 4)
    public static let didChange = Self(rawValue: 1 << 5)
    public static let didMove = Self(rawValue: 1 << 6)
    public static let accommodateSubitemDeletion = Self(rawValue: 1 << 7)
    public static let subitemDidAppear = Self(rawValue: 1 << 8)
    public static let subitemDidChange = Self(rawValue: 1 << 9)
    public static let subitemDidMove = Self(rawValue: 1 << 10)
    public static let all = Self(rawValue: 0x7FF)

    public init(_ request: PresenterRequest) {
        switch request {
        case .relinquishToReader: self = .relinquishToReader
        case .relinquishToWriter: self = .relinquishToWriter
        case .save: self = .save
        case .accommodateDeletion: self = .accommodateDeletion
        case .accommodateSubitemDeletion: self = .accommodateSubitemDeletion
        }
    }

    public init(_ notice: PresenterNotice) {
        switch notice {
        case .reacquire: self = .reacquire
        case .didChange: self = .didChange
        case .didMove: self = .didMove
        case .subitemDidAppear: self = .subitemDidAppear
        case .subitemDidChange: self = .subitemDidChange
        case .subitemDidMove: self = .subitemDidMove
        }
    }
}

/// A registration of a connection for an item.
public struct Presenter: Hashable, Sendable {
    public let id: PresenterID
    /// Nil while the presented item does not exist.
    public let item: ItemID?
    /// The name by which it presents the item.
    public let place: Place
    /// The party of the presenter; its own accesses and its children's cause no questions to it.
    public let party: Party
    public let messages: PresenterMessages
    /// The guest that is charged for the presenter's events; nil if they are not counted.
    public let guest: UInt32?

    public init(
        _ id: PresenterID, of item: ItemID?, at place: Place = Place(), by party: Party,
        _ messages: PresenterMessages, guest: UInt32? = nil
    ) {
        self.guest = guest
        self.id = id
        self.item = item
        self.place = place
        self.party = party
        self.messages = messages
    }
}

/// The answer of a presenter.
public enum Answer: String, Hashable, Sendable {
    case done
    /// The presenter could not do it: aware accesses fail, accesses of unmodified programs go ahead.
    case failed
}

/// The party and the access that caused a question or notice.
public struct Cause: Hashable, Sendable {
    public let party: Party
    public let access: Access

    public init(_ party: Party, _ access: Access) {
        self.party = party
        self.access = access
    }
}

/// A question to a presenter.
public struct Question: Hashable, Sendable {
    public let id: QuestionID
    public let presenter: PresenterID
    public let accessSession: AccessSessionID
    public let request: PresenterRequest
    /// The item in the presented directory that is to be deleted.
    public let subitem: ItemID?
    public let cause: Cause
    public let asked: Instant
    /// Later after each progress of the presenter.
    public var deadline: Instant

    public init(
        id: QuestionID, presenter: PresenterID, accessSession: AccessSessionID, request: PresenterRequest,
        subitem: ItemID? = nil, cause: Cause, asked: Instant, deadline: Instant
    ) {
        self.id = id
        self.presenter = presenter
        self.accessSession = accessSession
        self.request = request
        self.subitem = subitem
        self.cause = cause
        self.asked = asked
        self.deadline = deadline
    }
}

/// A notice to a presenter.
public struct Notice: Hashable, Sendable {
    /// The item in a presented directory that a notice is about.
    public struct Subitem: Hashable, Sendable {
        public let item: ItemID
        /// Its present name, or its last one.
        public let place: Place
        /// Its name before the move.
        public let former: Place?

        public init(_ item: ItemID, at place: Place, from former: Place? = nil) {
            self.item = item
            self.place = place
            self.former = former
        }
    }

    public let presenter: PresenterID
    public let accessSession: AccessSessionID
    public let kind: PresenterNotice
    public let subitem: Subitem?
    public let cause: Cause

    public init(
        _ kind: PresenterNotice, of subitem: Subitem? = nil, to presenter: PresenterID,
        in accessSession: AccessSessionID,
        _ cause: Cause
    ) {
        self.presenter = presenter
        self.accessSession = accessSession
        self.kind = kind
        self.subitem = subitem
        self.cause = cause
    }
}
