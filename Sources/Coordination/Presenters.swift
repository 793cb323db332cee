// SPDX-License-Identifier: Apache-2.0

/// Names one presenter for its whole life.
public struct PresenterID: Hashable, Comparable, Sendable, CustomStringConvertible {
    public let rawValue: UInt64
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }
    public static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }
    public var description: String { "p\(rawValue)" }
}

/// Names one request to a presenter, until it is answered or forfeited.
public struct QuestionID: Hashable, Comparable, Sendable, CustomStringConvertible {
    public let rawValue: UInt64
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }
    public static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }
    public var description: String { "?\(rawValue)" }
}

/// Names one turn: what one program does with a presented item, as its presenter hears of it.
///
/// All accesses of one process that follow each other closely are one turn, so that a save in several steps is
/// one relinquishment, one change and one reacquisition.
public struct AccessSessionID: Hashable, Comparable, Sendable, CustomStringConvertible {
    public let rawValue: UInt64
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }
    public static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }
    public var description: String { "t\(rawValue)" }
}

/// What a presenter is asked, and has to answer in time.
///
/// The names and their meaning are NSFilePresenter's.
public enum PresenterRequest: String, Hashable, Sendable, CaseIterable {
    case relinquishToReader
    case relinquishToWriter
    case save
    case accommodateDeletion
    /// The same for something in the directory that is presented.
    case accommodateSubitemDeletion

    public var isRelinquishment: Bool { self == .relinquishToReader || self == .relinquishToWriter }
    public var isDeletion: Bool { self == .accommodateDeletion || self == .accommodateSubitemDeletion }
}

/// What a presenter is told, with no answer expected.
public enum PresenterNotice: String, Hashable, Sendable, CaseIterable {
    /// The turn it relinquished to is over.
    case reacquire
    /// Contents or attributes were written.
    case didChange
    /// The item, or a directory above it, has another name.
    case didMove
    /// Something new is in the directory that is presented, at any depth.
    case subitemDidAppear
    /// Contents or attributes of something in it were written, or it is gone: the cause says which.
    case subitemDidChange
    /// Something in it has another name, which may be outside.
    case subitemDidMove
}

/// The messages that a presenter implements; those it does not count as consent and are not sent.
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

/// A registration by a connection for an item.
public struct Presenter: Hashable, Sendable {
    public let id: PresenterID
    /// Nil as long as what it shows does not exist.
    public let item: ItemID?
    /// The name by which it shows the item.
    public let place: Place
    /// Whose process shows the item; its own accesses and its children's are not put to it.
    public let party: Party
    public let messages: PresenterMessages
    /// To whose share it counts what the presenter hears of; nil if that is not counted.
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

/// How a presenter answered.
public enum Answer: String, Hashable, Sendable {
    case done
    /// It could not do what it was asked: aware callers fail, unmodified programs go ahead.
    case failed
}

/// Who did or wants to do what, for those who are asked and told.
public struct Cause: Hashable, Sendable {
    public let party: Party
    public let access: Access

    public init(_ party: Party, _ access: Access) {
        self.party = party
        self.access = access
    }
}

/// One request to a presenter.
public struct Question: Hashable, Sendable {
    public let id: QuestionID
    public let presenter: PresenterID
    public let accessSession: AccessSessionID
    public let request: PresenterRequest
    /// What is to be deleted in the directory that is presented.
    public let subitem: ItemID?
    public let cause: Cause
    public let asked: Instant
    /// Moves with the presenter's progress.
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

/// One thing a presenter is told.
public struct Notice: Hashable, Sendable {
    /// What happened to something in a directory that is presented.
    public struct Subitem: Hashable, Sendable {
        public let item: ItemID
        /// Its name now, or the last it had.
        public let place: Place
        /// The name it had before it was moved.
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
