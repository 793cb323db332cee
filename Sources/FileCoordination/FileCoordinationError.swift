// SPDX-License-Identifier: Apache-2.0
import ControlClient
import ControlProtocol
public import Foundation

/// Why a coordinated access did not take place; its accessor was not called.
///
/// Two errors have other types:
///
/// - A presenter's own error, if it could not save or accommodate a deletion, has its domain and code.
/// - ``FileCoordinator/cancel()`` causes `CocoaError.userCancelled`.
public struct FileCoordinationError: Error, Hashable, Sendable {
    public enum Code: Int, Hashable, Sendable {
        /// The URL is in no coordinated directory.
        case notMounted = 1
        /// The URL is no file URL.
        case notAFile = 2
        /// The parameters are invalid; the message says why.
        case invalid = 3
        /// The directory of the item does not exist.
        case notFound = 4
        /// The user has no permission, or a symbolic link leads out of the mount.
        case denied = 5
        /// The programs in `holders` blocked the access until the time limit.
        case timedOut = 6
        /// The access and the programs in `holders` waited for each other.
        case deadlock = 7
        /// There are too many presenters or accesses.
        case limit = 8
        /// The daemon of the mount is gone, or ended while the access waited or before the accessor was called.
        case disconnected = 9
        case failed = 10
    }

    /// A program that blocked the access.
    public struct Holder: Hashable, Sendable {
        /// 0 if the process cannot be named.
        public let processIdentifier: Int32
        public let userIdentifier: UInt32?
        public let program: String
    }

    public let code: Code
    /// One sentence for people; after a wait it names the holders and says since when they hold the item.
    public let message: String
    /// What to do next, or nil.
    public let suggestion: String?
    public let holders: [Holder]
    /// How long the access waited.
    public let waited: Duration

    init(
        _ code: Code, _ message: String, suggestion: String? = nil, holders: [Holder] = [],
        waited: Duration = .zero
    ) {
        self.code = code
        self.message = message
        self.suggestion = suggestion
        self.holders = holders
        self.waited = waited
    }
}

extension FileCoordinationError: LocalizedError, CustomNSError {
    public static var errorDomain: String { "FileCoordinationError" }
    public var errorCode: Int { code.rawValue }
    public var errorDescription: String? { message }
    public var recoverySuggestion: String? { suggestion }

    public var errorUserInfo: [String: Any] {
        var info: [String: Any] = [NSLocalizedDescriptionKey: message, Self.underlyingKey: self]
        if let suggestion { info[NSLocalizedRecoverySuggestionErrorKey] = suggestion }
        return info
    }

    private static var underlyingKey: String { "FileCoordinationError" }

    /// Restores the error of a coordinator from its `NSError`; nil for other errors.
    public init?(_ error: NSError) {
        guard let found = error.userInfo[Self.underlyingKey] as? FileCoordinationError else { return nil }
        self = found
    }

    var asNSError: NSError { NSError(domain: Self.errorDomain, code: errorCode, userInfo: errorUserInfo) }

    static func disconnected(_ mountpoint: String) -> FileCoordinationError {
        FileCoordinationError(
            .disconnected, "the daemon of '\(mountpoint)' is gone",
            suggestion: "'truce mount', with the same directories and options, starts it again")
    }
}

/// Converts errors of the daemon and the client.
extension FileCoordinationError {
    init(_ failure: ClientFailure) {
        let code: Code =
            switch failure.status {
            case .notFound: .notMounted
            case .denied: .denied
            case .timedOut: .timedOut
            case .done, .failed, .usage: .failed
            }
        self.init(
            code, failure.message,
            suggestion: code == .notMounted ? "mount the folder first: truce mount DIRECTORY" : nil)
    }

    init(_ failure: ProtocolFailure, waited: Duration) {
        let code: Code =
            switch failure.code {
            case ProtocolFailure.notFound("").code: .notFound
            case ProtocolFailure.denied("").code: .denied
            case ProtocolFailure.timedOut("", waitingFor: []).code: .timedOut
            case ProtocolFailure.deadlock("", among: []).code: .deadlock
            case ProtocolFailure.tooMany("").code: .limit
            case ProtocolFailure.invalidParameters("").code: .invalid
            default: .failed
            }
        self.init(
            code, failure.message, suggestion: failure.data?.suggestion,
            holders: (failure.data?.holders ?? []).map {
                Holder(processIdentifier: $0.pid, userIdentifier: $0.user, program: $0.program)
            }, waited: waited)
    }
}
