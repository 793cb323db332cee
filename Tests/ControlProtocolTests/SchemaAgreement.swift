// SPDX-License-Identifier: Apache-2.0
import ControlProtocol

/// Checks that a schema and the code accept the same messages.
struct SchemaAgreement {
    /// The messages that the code may accept beyond the schema.
    enum Tolerance {
        /// A server tells its clients their errors.
        case none
        /// A client accepts messages without members that a server always sends.
        case ofMissingMembers
    }

    let description: ProtocolDescription
    private let validator: SchemaValidator
    private let groups: [String: [String: String]]

    init(_ description: ProtocolDescription) {
        self.description = description
        validator = SchemaValidator(schema: description.schema)
        let names = ["clientRequest", "clientNotification", "serverRequest", "serverNotification"]
        groups = Dictionary(uniqueKeysWithValues: names.map { ($0, description.definitions(of: $0)) })
    }

    func isValid(_ message: JSONValue, as definition: String) -> Bool {
        validator.isValid(message, as: definition)
    }

    /// Differences for a message that the code wrote, and for its damaged forms: the schema and `isRead` must agree on each.
    private func disagreements(
        on message: JSONValue, as definition: String, below member: String? = nil,
        tolerating tolerance: Tolerance = .none, isRead: (JSONValue) -> Bool
    ) -> [String] {
        let faults = validator.faults(of: message, as: definition)
        let parts = message.parts.filter { part in
            member.map { part.place.first == .member($0) && part.place.count > 1 } ?? true
        }
        let spoilt = parts.flatMap { place, value -> [String] in
            ([nil] + value.ofOtherKinds).compactMap { other in
                let changed = message.with(other, at: place)
                let (isValid, isRead) = (validator.isValid(changed, as: definition), isRead(changed))
                if isValid == isRead || tolerance == .ofMissingMembers && other == nil && isRead {
                    return nil
                }
                return "\(definition), \(place): \(other.map { "\($0)" } ?? "without it"): "
                    + (isValid ? "the code refuses it" : "the code takes it")
            }
        }
        return (isRead(message) ? [] : ["\(definition): the code does not read what it writes"]) + faults
            + spoilt
    }
}

// By their members.
extension SchemaAgreement {
    /// Members that the code never writes, or that the schema does not know. Other checks would miss both, since members may be
    /// missing and unknown ones are ignored.
    func disagreements(onMembersOf messages: [JSONValue], as definition: String) -> [String] {
        let written = Set(
            messages.flatMap(\.parts).compactMap { part in
                if case .member(let name) = part.place.last { name } else { nil }
            })
        let known = description.members(of: definition)
        return written.subtracting(known).sorted().map { "\(definition) has no '\($0)'" }
            + known.subtracting(written).sorted().map { "nobody writes '\($0)' of \(definition)" }
    }

    func disagreements(onMembersOf requests: [ClientRequest]) throws -> [String] {
        let methods = Set(requests.map(\.method))
        return try methods.flatMap { method in
            let messages = try requests.filter { $0.method == method }
                .map { try JSONValue(parsing: JSONCodec.encode(RequestMessage(id: .number(7), $0))) }
            let definition = groups["clientRequest"]?[method.rawValue] ?? "?"
            return disagreements(onMembersOf: messages, as: definition)
        }
    }

    func disagreements(onMembersOf messages: [ServerMessage]) throws -> [String] {
        let all = try messages.map { try JSONValue(parsing: $0.encoded()) }
        return ["serverRequest", "serverNotification"].flatMap { group in
            (groups[group] ?? [:]).flatMap { method, definition in
                disagreements(
                    onMembersOf: all.filter { $0["method"] == .text(method) }, as: definition)
            }
        }
    }

    func disagreements(onMembersOf samples: [ResultSample], of method: ClientRequest.Method) throws
        -> [String]
    {
        let results = try samples.compactMap {
            try JSONValue(parsing: ReplyMessage(to: .number(1), .success($0.response)).encoded())["result"]
        }
        return disagreements(onMembersOf: results, as: description.results[method.rawValue] ?? "?")
    }
}

// By kinds of messages.
extension SchemaAgreement {
    func disagreements(on request: ClientRequest) throws -> [String] {
        let message = try JSONValue(parsing: JSONCodec.encode(RequestMessage(id: .number(7), request)))
        return try disagreements(on: message, in: "clientRequest", request.method.rawValue) { message in
            if case .request(_, .success(let read)) = try ClientMessage(decoding: message.encoded()) {
                read.method == request.method
            } else {
                false
            }
        }
    }

    func disagreements(on notification: ClientNotification) throws -> [String] {
        let message = try JSONValue(parsing: JSONCodec.encode(NotificationMessage(notification)))
        return try disagreements(on: message, in: "clientNotification", notification.method.rawValue) {
            message in
            if case .notification(.success(_?)) = try ClientMessage(decoding: message.encoded()) {
                true
            } else {
                false
            }
        }
    }

    func disagreements(on serverMessage: ServerMessage) throws -> [String] {
        let message = try JSONValue(parsing: serverMessage.encoded())
        let group = if case .question = serverMessage { "serverRequest" } else { "serverNotification" }
        return try disagreements(
            on: message, in: group, message["method"]?.text ?? "", below: "params",
            tolerating: .ofMissingMembers
        ) { message in
            switch try IncomingMessage(decoding: message.encoded()) {
            case .question, .noticeMessage, .event: true
            case .response, .unknown: false
            }
        }
    }

    /// Also of the reply that carries it.
    func disagreements(on sample: ResultSample, of method: ClientRequest.Method) throws -> [String] {
        let reply = try JSONValue(parsing: ReplyMessage(to: .number(1), .success(sample.response)).encoded())
        let name = description.results[method.rawValue] ?? "?"
        guard let result = reply["result"] else { return ["a reply without a result"] }
        return validator.faults(of: reply, as: "reply") + validator.faults(of: reply, as: "serverMessage")
            + disagreements(on: result, as: name, tolerating: .ofMissingMembers) {
                sample.isRead(reply.with($0, at: "result"))
            }
    }

    private func disagreements(
        on message: JSONValue, in group: String, _ method: String, below member: String? = nil,
        tolerating tolerance: Tolerance = .none, isRead: (JSONValue) throws -> Bool
    ) throws -> [String] {
        guard let definition = groups[group]?[method] else { return ["\(group) has no '\(method)'"] }
        let all = group.hasPrefix("client") ? "clientMessage" : "serverMessage"
        return validator.faults(of: message, as: all)
            + disagreements(on: message, as: definition, below: member, tolerating: tolerance) { message in
                // Any error means that the message is refused.
                do { return try isRead(message) } catch { return false }
            }
    }
}
