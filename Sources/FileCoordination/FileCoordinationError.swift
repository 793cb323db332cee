// SPDX-License-Identifier: Apache-2.0
import ControlClient
import ControlProtocol
public import Foundation

/// The reason why a coordinated access failed. The accessor was not called.
///
/// Two errors have another type:
///
/// - If a presenter could not save or could not accommodate a deletion, the error has the domain and code of the presenter's
///   own error.
/// - After ``FileCoordinator/cancel()``, the error is `CocoaError.userCancelled`.
public struct FileCoordinationError: Error, Hashable, Sendable {
    public enum Code: Int, Hashable, Sendable {
        /// The item is in no directory that is mounted by Truce.
        case notMounted = 1
        /// The URL is not a file URL.
        case notAFile = 2
        /// The parameters of the call are invalid; the message gives the reason.
        case invalid = 3
        /// The directory that would contain the item does not exist.
        case notFound = 4
        /// The user has no right to access the item, or a symbolic link leads out of the mount.
        case denied = 5
        /// The access waited for the programs in `holders` until its time limit.
        case timedOut = 6
        /// The access waited for the programs in `holders`, and these programs waited for the access.
        case deadlock = 7
        /// The process has too many presenters or too many accesses.
        case limit = 8
        /// The daemon of the mount does not run, or it ended before the accessor was called.
        case disconnected = 9
        case failed = 10
        /// The item has another generation than the write was for; see ``change``. Nothing was written.
        case changed = 11
    }

    /// The change because of which a write for an earlier generation was refused.
    public struct Change: Hashable, Sendable {
        /// The generation that the item has now.
        public let generation: String
        /// The generation that the write was for.
        public let expectedGeneration: String
        /// The program that wrote the item last; nil if it is not known.
        public let author: Holder?
        /// The time of that write; nil if it is not known.
        public let date: Date?
    }

    /// A program that an access waited for.
    public struct Holder: Hashable, Sendable {
        /// The process id of the program; 0 if it is unknown.
        public let processIdentifier: Int32
        public let userIdentifier: UInt32?
        public let program: String
    }

    public let code: Code
    /// The error as one sentence for users. If the access waited, the sentence contains the names of the programs that hold the
    /// item, and the time since when they hold it.
    public let message: String
    /// A sentence that says what the user can do next; nil if there is no suggestion.
    public let suggestion: String?
    public let holders: [Holder]
    /// How long the access waited before it failed.
    public let waited: Duration
    /// The change because of which the write was refused; nil for all other errors.
    public let change: Change?

    init(
        _ code: Code, _ message: String, suggestion: String? = nil, holders: [Holder] = [],
        waited: Duration = .zero, change: Change? = nil
    ) {
        self.change = change
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

    /// Makes a ``FileCoordinationError`` from the `NSError` that a coordinator returned. The result is nil if the `NSError` is
    /// of another kind.
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

/// Converts the errors that the daemon sends, and the errors of the connection to the daemon.
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
            case ProtocolFailure.Code.changed.rawValue: .changed
            default: .failed
            }
        self.init(
            code, failure.message, suggestion: failure.data?.suggestion,
            holders: (failure.data?.holders ?? []).map { Holder($0) }, waited: waited,
            change: code == .changed ? failure.data.flatMap { Change($0) } : nil)
    }
}

extension FileCoordinationError.Holder {
    init(_ form: ProcessDescriptionForm) {
        self.init(processIdentifier: form.pid, userIdentifier: form.user, program: form.program)
    }
}

extension FileCoordinationError.Change {
    /// Returns nil if the daemon has sent no generations.
    init?(_ details: ProtocolFailure.Details) {
        guard let generation = details.generation, let expected = details.expected else { return nil }
        self.init(
            generation: generation, expectedGeneration: expected,
            author: details.author.map { FileCoordinationError.Holder($0) },
            date: details.time.map { Date(timeIntervalSince1970: $0) })
    }
}
