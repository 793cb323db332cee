// SPDX-License-Identifier: Apache-2.0

/// The number of a presenter, from its registration to its removal.
public struct PresenterID: Hashable, Comparable, Sendable, CustomStringConvertible {
    public let rawValue: UInt64
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }
    public static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }
    public var description: String { "p\(rawValue)" }
}

/// The number of a question, until a presenter answers or forfeits the question.
public struct QuestionID: Hashable, Comparable, Sendable, CustomStringConvertible {
    public let rawValue: UInt64
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }
    public static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }
    public var description: String { "?\(rawValue)" }
}

/// The number of an access session, which is all accesses of one program to a presented item without a longer pause.
///
/// A presenter is told of an access session as a whole. So a save in several steps causes a single question to
/// relinquish, a single `didChange` and a single `reacquire`.
public struct AccessSessionID: Hashable, Comparable, Sendable, CustomStringConvertible {
    public let rawValue: UInt64
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }
    public static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }
    public var description: String { "t\(rawValue)" }
}

/// The kind of a question, which a presenter has to answer in time.
///
/// The names and their meanings are those of Apple's NSFilePresenter.
public enum PresenterRequest: String, Hashable, Sendable, CaseIterable {
    case relinquishToReader
    case relinquishToWriter
    case save
    case accommodateDeletion
    /// A question to the presenter of a directory: to agree that an item in the directory is deleted.
    case accommodateSubitemDeletion

    public var isRelinquishment: Bool { self == .relinquishToReader || self == .relinquishToWriter }
    public var isDeletion: Bool { self == .accommodateDeletion || self == .accommodateSubitemDeletion }
}

/// The kind of a notice, which a presenter does not answer.
public enum PresenterNotice: String, Hashable, Sendable, CaseIterable {
    /// The access session for which the presenter relinquished the item is over.
    case reacquire
    /// A program has written contents or attributes of the presented item.
    case didChange
    /// The presented item, or a directory above it, has a new name.
    case didMove
    /// A new item is in the presented directory or in a directory below.
    case subitemDidAppear
    /// An item in the presented directory was written or deleted. The cause of the notice says whether it was deleted.
    case subitemDidChange
    /// An item in the presented directory has a new name; the new name may be outside the directory.
    case subitemDidMove
    /// The presented item has a new version in the store.
    case didGain
    /// A version of the presented item was removed from the store.
    case didLose
    /// A conflict version of the presented item was marked as resolved.
    case didResolve
    /// An item in the presented directory has a new version.
    case subitemDidGain
    /// A version of an item in the presented directory was removed.
    case subitemDidLose
    /// A conflict version of an item in the presented directory was marked as resolved.
    case subitemDidResolve
}

/// The number of a version in the store. Two versions of a store never have the same number.
public struct VersionNumber: Hashable, Sendable, CustomStringConvertible {
    public let rawValue: UInt64
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }
    public var description: String { "v\(rawValue)" }
}

/// What has happened to a version of an item (N16).
public struct VersionChange: Hashable, Sendable {
    public enum Kind: String, Hashable, Sendable, CaseIterable {
        case gained
        case lost
        /// The version was a conflict, and was marked as resolved.
        case resolved
    }

    public let kind: Kind
    /// Nil stands for several changes of this kind, of which some were left out because there were too many.
    public let version: VersionNumber?

    public init(_ kind: Kind, _ version: VersionNumber?) {
        self.kind = kind
        self.version = version
    }

    /// The notice about this change. `isSubitem` says whether the notice is for the presenter of a directory above the item.
    public func notice(ofSubitem isSubitem: Bool) -> PresenterNotice {
        switch kind {
        case .gained: isSubitem ? .subitemDidGain : .didGain
        case .lost: isSubitem ? .subitemDidLose : .didLose
        case .resolved: isSubitem ? .subitemDidResolve : .didResolve
        }
    }
}

/// The messages that a presenter implements. Other messages are not sent, and count as answered with consent.
public struct PresenterMessages: OptionSet, Hashable, Sendable {
    public let rawValue: UInt32
    public init(rawValue: UInt32) { self.rawValue = rawValue }

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
    public static let didGain = Self(rawValue: 1 << 11)
    public static let didLose = Self(rawValue: 1 << 12)
    public static let didResolve = Self(rawValue: 1 << 13)
    public static let subitemDidGain = Self(rawValue: 1 << 14)
    public static let subitemDidLose = Self(rawValue: 1 << 15)
    public static let subitemDidResolve = Self(rawValue: 1 << 16)
    public static let all = Self(rawValue: 0x1FFFF)

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
        case .didGain: self = .didGain
        case .didLose: self = .didLose
        case .didResolve: self = .didResolve
        case .subitemDidGain: self = .subitemDidGain
        case .subitemDidLose: self = .subitemDidLose
        case .subitemDidResolve: self = .subitemDidResolve
        }
    }
}

/// The registration of a connection as the presenter of an item.
public struct Presenter: Hashable, Sendable {
    public let id: PresenterID
    /// The presented item; nil while the item does not exist.
    public let item: ItemID?
    /// The name by which the presenter shows the item.
    public let place: Place
    /// The party of the presenter. Accesses of this party and of its children cause no questions to the presenter.
    public let party: Party
    public let messages: PresenterMessages
    /// The guest to which the events of this presenter are charged; nil if they are not counted.
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
    /// The presenter could not do what was asked. An aware access then fails; an access of an unmodified program is
    /// granted.
    case failed
}

/// The party and the access because of which a question or a notice is sent.
public struct Cause: Hashable, Sendable {
    public let party: Party
    public let access: Access

    public init(_ party: Party, _ access: Access) {
        self.party = party
        self.access = access
    }
}

/// A question to a presenter that is not answered yet.
public struct Question: Hashable, Sendable {
    public let id: QuestionID
    public let presenter: PresenterID
    public let accessSession: AccessSessionID
    public let request: PresenterRequest
    /// The item in the presented directory that is to be deleted; nil for a question about the presented item itself.
    public let subitem: ItemID?
    public let cause: Cause
    public let asked: Instant
    /// The moment at which the presenter forfeits the question. A progress report of the presenter makes this moment
    /// later.
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
        /// The present name of the item, or its last name if it has none now.
        public let place: Place
        /// The name of the item before the move.
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
    /// The version that the item gained or lost, or that was resolved; nil for all other notices.
    public let version: VersionNumber?

    public init(
        _ kind: PresenterNotice, of subitem: Subitem? = nil, to presenter: PresenterID,
        in accessSession: AccessSessionID,
        _ cause: Cause, version: VersionNumber? = nil
    ) {
        self.version = version
        self.presenter = presenter
        self.accessSession = accessSession
        self.kind = kind
        self.subitem = subitem
        self.cause = cause
    }
}
