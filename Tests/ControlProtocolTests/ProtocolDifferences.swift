// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Foundation

/// Places in which code, schema and prose disagree.
extension ProtocolDescription {
    var differences: [String] {
        SchemaValidator(schema: schema).faultsOfSchema(usedBesides: results.values)
            + Topic.allCases.flatMap(differences) + membersDifferences + boundsDifferences
            + numbersDifferences
    }

    /// The definition of the result of each request, by its method.
    var results: [String: String] { definitions(of: "clientRequest").mapValues { $0 + "Result" } }

    private func differences(in topic: Topic) -> [String] {
        let known = Self.known(topic)
        return [("the schema", named(topic)), ("the prose", told(topic))].flatMap { place, names in
            let (missing, more) = (Set(known).subtracting(names), Set(names).subtracting(known))
            return missing.sorted().map { "\($0) is missing in \(place) (\(topic))" }
                + more.sorted().map { "\($0) is in \(place) alone (\(topic))" }
                + (Set(names).count == names.count ? [] : ["\(place) has something twice (\(topic))"])
        }
    }
}

// Members.
extension ProtocolDescription {
    /// Lists of a mount's counters and log: the schema lists them, the prose only mentions them.
    private static let lists: Set<String> = ["options", "counters", "waiting", "step"]

    /// Each member of a row of a table is one of the message's, and each member of a message is in the prose.
    private var membersDifferences: [String] {
        let titles = ["Requests of a client", "Requests to a client", "Notices to a client"]
        let more = titles.flatMap { tables(in: $0).flatMap { $0.flatMap(strangers) } }
        let roots = ["clientMessage", "serverMessage"] + results.values
        let all = roots.reduce(into: Set<String>()) {
            $0.formUnion(members(of: $1, without: Self.lists))
        }
        let told = Set(Self.quoted(prose).flatMap(Self.words))
        // JSON-RPC's own.
        let envelope: Set<String> = ["jsonrpc", "method", "params", "result", "error", "code"]
        let untold = all.subtracting(told).subtracting(envelope).sorted()
        return more + untold.map { "the prose does not tell of '\($0)'" }
    }

    private func strangers(in row: [String]) -> [String] {
        let groups = ["clientRequest", "clientNotification", "serverRequest", "serverNotification"]
        let messages = groups.reduce(into: [String: String]()) { all, group in
            all.merge(definitions(of: group)) { one, _ in one }
        }
        return Self.quoted(row[0]).flatMap { method -> [String] in
            guard let definition = messages[method] else { return [] }
            let result = results[method].map { members(of: $0) } ?? []
            return [(1, members(of: definition)), (2, result)].flatMap { column, members in
                let cell = column < row.count ? row[column] : ""
                // Methods are named as well, and the values of an operation.
                let words = Self.quoted(cell).filter { !$0.contains("/") }.flatMap(Self.words)
                return Set(words).subtracting(members).subtracting(Self.known(.accesses)).sorted()
                    .map { "\(method) has no '\($0)'" }
            }
        }
    }

    /// `client {name, version}` are three.
    private static func words(_ text: String) -> [String] {
        text.matches(of: /[A-Za-z]+/).map { String($0.0) }
    }
}

// Numbers.
extension ProtocolDescription {
    private static let bounds: [String: Decimal] = [
        "path.maxLength": Decimal(ProtocolLimits.pathBytes),
        "purpose.minLength": 1,
        "purpose.maxLength": Decimal(ProtocolLimits.purposeBytes),
        "id.anyOf.maxLength": Decimal(ProtocolLimits.idBytes),
        "id.anyOf.minimum": Decimal(Int64.min),
        "id.anyOf.maximum": Decimal(Int64.max),
        "initializeParams.client.name.maxLength": Decimal(ProtocolLimits.clientBytes),
        "initializeParams.client.version.maxLength": Decimal(ProtocolLimits.clientBytes),
        "eventsSubscribeParams.after.epoch.maxLength": Decimal(ProtocolLimits.epochBytes),
        "intent.anyOf.options.maxItems": 0,
        "accessBeginParams.intents.minItems": 1,
        "accessBeginParams.intents.maxItems": Decimal(ProtocolLimits.intents),
        "accessBeginParams.within.maxItems": Decimal(ProtocolLimits.intents),
        "census.claims.maxItems": Decimal(ProtocolLimits.listEntries),
        "census.presenters.maxItems": Decimal(ProtocolLimits.listEntries),
        "keptListResult.entries.maxItems": Decimal(ProtocolLimits.listEntries),
        "keptReadParams.offset.minimum": 0,
        "keptReadParams.offset.maximum": Decimal(Int64.max),
        "keptReadParams.length.minimum": 1,
        "keptReadParams.length.maximum": Decimal(ProtocolLimits.readBytes),
        "kept.size.minimum": 0, "kept.size.maximum": Decimal(Int64.max),
        "kept.group.minimum": 0, "kept.group.maximum": Decimal(UInt32.max),
        "kept.mode.minimum": 0, "kept.mode.maximum": Decimal(UInt32.max),
    ]

    private var boundsDifferences: [String] {
        let bounds = bounds
        return Set(bounds.keys).union(Self.bounds.keys).filter { bounds[$0] != Self.bounds[$0] }.sorted()
            .map { "\($0) is \(bounds[$0].map { "\($0)" } ?? "missing") in the schema" }
    }

    /// Every number of the section on limits, in its words and in its order.
    private static let limits = [
        "A message has at most \(shown(ProtocolLimits.messageBytes))",
        "nests at most \(ProtocolLimits.nesting) levels deep",
        "at most \(ProtocolLimits.values) values",
        "\(ProtocolLimits.nameBytes) bytes in the name of a member",
        "at most \(ProtocolLimits.listEntries) entries",
        "A path has at most \(ProtocolLimits.pathBytes) bytes",
        "those of an access \(ProtocolLimits.accessPathBytes) together",
        "a purpose \(ProtocolLimits.purposeBytes)",
        "an `id` that is a text \(ProtocolLimits.idBytes)",
        "a client's `name` and `version` \(ProtocolLimits.clientBytes) each",
        "an `epoch` \(ProtocolLimits.epochBytes)",
        "at most \(ProtocolLimits.combiningMarks) combining marks in a row",
        "\(ProtocolLimits.presenters) presenters",
        "\(ProtocolLimits.accesses) accesses, held or waiting",
        "within \(ProtocolLimits.intents) others at most",
        "\(ProtocolLimits.subscriptions) subscriptions",
        "\(ProtocolLimits.connectionsPerUser) connections",
        "\(ProtocolLimits.outstandingRequests) requests of a connection are served at once",
        "\(ProtocolLimits.outstandingRequests) more are kept in order",
        "while \(shown(ProtocolLimits.outboxBytes)) waits to be read",
        "\(ProtocolLimits.messagesPerRead) messages are looked at",
        "or \(ProtocolLimits.bytesPerRead >> 10) KiB",
        "(\(shown(ProtocolLimits.outboxBytes)), or \(ProtocolLimits.outboxMessages) messages)",
        "presenters adds \(ProtocolLimits.outboxBytesOfPresenter) bytes",
        "and \(ProtocolLimits.outboxMessagesOfPresenter) messages to that",
        "answers to \(ProtocolLimits.questions) requests",
    ]

    private static let limitsElsewhere = [
        "From one to \(ProtocolLimits.intents) intents",
        "or \(ProtocolLimits.linkLookups) names for all of an access",
        "The last \(ProtocolLimits.events) events are remembered",
        "and \(ProtocolLimits.eventSeconds / 60) minutes more",
        "The first \(ProtocolLimits.excerptScalars) characters",
        "from 1 to \(ProtocolLimits.readBytes) bytes",
    ]

    private static func shown(_ bytes: Int) -> String {
        bytes % (1 << 20) == 0 ? "\(bytes >> 20) MiB" : "\(bytes) bytes"
    }

    private var numbersDifferences: [String] {
        func numbers(_ text: String) -> [String] { text.matches(of: /\d+( MiB)?/).map { String($0.0) } }
        let (limits, all) = (Self.line(section("Limits")), Self.line(prose))
        let missing =
            Self.limits.filter { !limits.contains($0) } + Self.limitsElsewhere.filter { !all.contains($0) }
        let (told, known) = (numbers(limits), Self.limits.flatMap(numbers))
        return missing.map { "the prose does not say '\($0)'" }
            + (told == known ? [] : ["the numbers of the limits are \(told) and not \(known)"])
    }
}
