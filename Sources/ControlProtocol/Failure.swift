// SPDX-License-Identifier: Apache-2.0

/// A JSON-RPC error object.
package struct Failure: Error, Hashable, Sendable, Codable {
    /// What a program may want to show besides the sentence.
    package struct Details: Hashable, Sendable, Codable {
        /// Those who were waited for, or who refused.
        package var holders: [ActorForm]?
        /// What to do next.
        package var suggestion: String?
        /// The error of a presenter's program, as that program knows it.
        package var origin: OriginForm?

        package init(
            holders: [ActorForm]? = nil, suggestion: String? = nil, origin: OriginForm? = nil
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
            // Anything may stand there in the errors of other programs.
            data = nil
        }
    }
}

/// An error of somebody's own, told from one client to another.
package struct OriginForm: Hashable, Sendable, Codable {
    /// Whose errors these are; at most ``ProtocolLimits/excerptScalars`` are told.
    package var domain: String
    package var code: Int
    /// In the words of the program.
    package var message: String?

    package init(domain: String, code: Int, message: String? = nil) {
        self.domain = domain
        self.code = code
        self.message = message
    }

    /// Short enough to be passed on.
    package var excerpt: OriginForm {
        OriginForm(domain: domain.excerpt, code: code, message: message?.excerpt)
    }
}

/// The errors of the protocol; its description has the same table.
extension Failure {
    package static func notJSON() -> Failure { Failure(code: -32700, message: "this is not JSON") }
    package static func nestedTooDeeply() -> Failure {
        Failure(code: -32700, message: "a message nests at most \(ProtocolLimits.nesting) levels deep")
    }
    package static func tooManyMarks() -> Failure {
        Failure(
            code: -32700,
            message: "a text has at most \(ProtocolLimits.marksInARow) combining marks in a row")
    }
    package static func invalidRequest(_ why: String) -> Failure { Failure(code: -32600, message: why) }
    package static func unknownMethod(_ method: String) -> Failure {
        Failure(code: -32601, message: "there is no method '\(method.excerpt)'")
    }
    package static func invalidParameters(_ why: String) -> Failure { Failure(code: -32602, message: why) }
    package static func internalError(_ why: String) -> Failure { Failure(code: -32603, message: why) }
    package static func denied(_ why: String) -> Failure { Failure(code: -32001, message: why) }
    /// The Language Server Protocol's code for a request before `initialize`.
    package static let notInitialized = Failure(code: -32002, message: "send 'initialize' first")
    package static func unsupportedVersion() -> Failure {
        Failure(code: -32003, message: "this server speaks protocol \(ProtocolLimits.version) only")
    }
    package static func notFound(_ why: String) -> Failure { Failure(code: -32004, message: why) }
    package static func tooMany(_ why: String) -> Failure { Failure(code: -32005, message: why) }
    package static func timedOut(_ why: String, waitingFor holders: [ActorForm]) -> Failure {
        Failure(
            code: -32006, message: why,
            data: Details(
                holders: holders, suggestion: "try again later; 'truce why' tells who is in the way"))
    }
    package static func refused(
        _ why: String, by holders: [ActorForm], origin: OriginForm? = nil
    ) -> Failure {
        Failure(
            code: -32007, message: why,
            data: Details(
                holders: holders, suggestion: "see what that program shows, and try again", origin: origin))
    }
    package static func deadlock(_ why: String, among holders: [ActorForm]) -> Failure {
        Failure(
            code: -32008, message: why,
            data: Details(holders: holders, suggestion: "end what you hold, and try again"))
    }
    /// The Language Server Protocol's code.
    package static let cancelled = Failure(code: -32800, message: "cancelled")
}

extension String {
    /// Short and on one line, for a sentence of ours that quotes what somebody else said.
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
