// SPDX-License-Identifier: Apache-2.0

/// An error in the form of JSON-RPC, with a code, a message and details.
package struct ProtocolFailure: Error, Hashable, Sendable, Codable {
    /// Details of an error, which a client can show to its user in addition to the message.
    package struct Details: Hashable, Sendable, Codable {
        /// The processes that the request waited for, or the processes of the presenters that refused.
        package var holders: [ProcessDescriptionForm]?
        /// A sentence that says what the user can do next.
        package var suggestion: String?
        /// The error inside the program of the presenter that refused.
        package var origin: OriginForm?
        /// The generation that the document has now, if the request was for another generation.
        package var generation: String?
        /// The generation that the request was for.
        package var expected: String?
        /// The program that wrote the document last; nil if it is not known.
        package var author: ProcessDescriptionForm?
        /// The time of that write in seconds since 1970; nil if it is not known.
        package var time: Double?

        package init(
            holders: [ProcessDescriptionForm]? = nil, suggestion: String? = nil, origin: OriginForm? = nil
        ) {
            self.holders = holders
            self.suggestion = suggestion
            self.origin = origin
        }
    }

    private enum CodingKeys: String, CodingKey { case code, message, data }

    package var code: Int
    package var message: String
    package var data: Details?

    package init(code: Int, message: String, data: Details? = nil) {
        self.code = code
        self.message = message
        self.data = data
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        code = try container.decode(Int.self, forKey: .code)
        message = try container.decode(String.self, forKey: .message)
        do {
            data = try container.decodeIfPresent(Details.self, forKey: .data)
        } catch {
            // Another program can send `data` of any form. If `data` cannot be decoded, it is ignored.
            data = nil
        }
    }
}

/// An error that occurred inside a client's program. The daemon passes it on to the client that has to stop because of the
/// error.
package struct OriginForm: Hashable, Sendable, Codable {
    /// The domain of the error code, at most ``ProtocolLimits/excerptScalars`` characters long.
    package var domain: String
    package var code: Int
    /// The message of the error, as the program wrote it.
    package var message: String?

    package init(domain: String, code: Int, message: String? = nil) {
        self.domain = domain
        self.code = code
        self.message = message
    }

    /// The same error, but with its texts cut to the longest length that the daemon sends.
    package var excerpt: OriginForm {
        OriginForm(domain: domain.excerpt, code: code, message: message?.excerpt)
    }
}

/// The errors that the daemon sends.
extension ProtocolFailure {
    /// The codes of these errors. The schema and the documentation of the protocol list the same codes. A client may answer
    /// with any other code.
    package enum Code: Int, Hashable, Sendable, CaseIterable {
        case notJSON = -32700
        case invalidRequest = -32600
        case unknownMethod = -32601
        case invalidParameters = -32602
        case internalError = -32603
        case denied = -32001
        /// A request was sent before `initialize`. The Language Server Protocol has the same code.
        case notInitialized = -32002
        case unsupportedVersion = -32003
        case notFound = -32004
        case tooMany = -32005
        case timedOut = -32006
        case refused = -32007
        case deadlock = -32008
        /// The document has another generation than the request is for, or it is not known whether it has.
        case changed = -32009
        /// The request was cancelled. The Language Server Protocol has the same code.
        case cancelled = -32800
    }

    private init(_ code: Code, _ message: String, data: Details? = nil) {
        self.init(code: code.rawValue, message: message, data: data)
    }

    package static func notJSON() -> ProtocolFailure { ProtocolFailure(.notJSON, "this is not JSON") }
    package static func nestedTooDeeply() -> ProtocolFailure {
        ProtocolFailure(.notJSON, "a message nests at most \(ProtocolLimits.nesting) levels deep")
    }
    package static func tooManyMarks() -> ProtocolFailure {
        ProtocolFailure(
            .notJSON,
            "a text has at most \(ProtocolLimits.combiningMarks) combining marks in a row")
    }
    package static func tooManyValues() -> ProtocolFailure {
        ProtocolFailure(.invalidRequest, "a message has at most \(ProtocolLimits.values) values")
    }
    package static func nameTooLong() -> ProtocolFailure {
        ProtocolFailure(.invalidRequest, "the name of a member has at most \(ProtocolLimits.nameBytes) bytes")
    }
    package static func invalidRequest(_ why: String) -> ProtocolFailure {
        ProtocolFailure(.invalidRequest, why)
    }
    package static func unknownMethod(_ method: String) -> ProtocolFailure {
        ProtocolFailure(.unknownMethod, "there is no method '\(method.excerpt)'")
    }
    package static func invalidParameters(_ why: String) -> ProtocolFailure {
        ProtocolFailure(.invalidParameters, why)
    }
    package static func internalError(_ why: String) -> ProtocolFailure {
        ProtocolFailure(.internalError, why)
    }
    package static func denied(_ why: String) -> ProtocolFailure { ProtocolFailure(.denied, why) }
    package static let notInitialized = ProtocolFailure(.notInitialized, "send 'initialize' first")
    package static func unsupportedVersion() -> ProtocolFailure {
        ProtocolFailure(.unsupportedVersion, "this server speaks protocol \(ProtocolLimits.version) only")
    }
    package static func notFound(_ why: String) -> ProtocolFailure { ProtocolFailure(.notFound, why) }
    package static func tooMany(_ why: String) -> ProtocolFailure { ProtocolFailure(.tooMany, why) }
    package static func timedOut(_ why: String, waitingFor holders: [ProcessDescriptionForm])
        -> ProtocolFailure
    {
        ProtocolFailure(
            .timedOut, why,
            data: Details(
                holders: holders, suggestion: "try again later; 'truce why' names the programs in the way"))
    }
    package static func refused(
        _ why: String, by holders: [ProcessDescriptionForm], origin: OriginForm? = nil
    ) -> ProtocolFailure {
        ProtocolFailure(
            .refused, why,
            data: Details(
                holders: holders, suggestion: "see what that program shows, and try again", origin: origin))
    }
    package static func deadlock(_ why: String, among holders: [ProcessDescriptionForm]) -> ProtocolFailure {
        ProtocolFailure(
            .deadlock, why,
            data: Details(holders: holders, suggestion: "end what you hold, and try again"))
    }
    /// The failure of a write that was for another generation of the document.
    package static func changed(
        _ why: String, suggestion: String, expected: String, now: GenerationResult?
    ) -> ProtocolFailure {
        var details = Details(suggestion: suggestion)
        (details.generation, details.expected) = (now?.generation, expected)
        (details.author, details.time) = (now?.author, now?.time)
        return ProtocolFailure(.changed, why, data: details)
    }
    package static let cancelled = ProtocolFailure(.cancelled, "cancelled")
}

extension String {
    /// The beginning of the text on one line, for a message that quotes it. Line breaks and control characters become spaces.
    package var excerpt: String {
        let line = unicodeScalars.prefix(ProtocolLimits.excerptScalars).map { scalar -> Character in
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate: " "
            default: Character(scalar)
            }
        }
        return String(line)
    }
}
