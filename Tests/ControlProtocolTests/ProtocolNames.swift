// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import Foundation

/// The names and numbers of the protocol in the code. The schema and the prose must have the same names and numbers.
enum ProtocolNames {
    /// The complete sets of names: the schema and the prose may have no further name in such a set.
    static let names: [String: [String]] = [
        "requests": ControlProtocol.ClientRequest.Method.allCases.map(\.rawValue),
        "notifications": ClientNotification.Method.allCases.map(\.rawValue),
        "serverRequests": PresenterRequest.allCases.map { "presenter/\($0.rawValue)" },
        "serverNotifications": PresenterNotice.allCases.map { "presenter/\($0.rawValue)" } + [
            EventForm.method, RunSuspendedForm.method,
        ],
        "accesses": Access.allNames,
        "readingOptions": ReadingOptions.allNames,
        "messages": PresenterMessages.all.names,
        "eventKinds": EventKind.allCases.map(\.rawValue),
        "errorCodes": ProtocolFailure.Code.allCases.map { "\($0.rawValue)" },
    ]

    /// The limits that the schema contains. The key is the definition and the keyword of the limit in the schema.
    static let bounds: [String: Decimal] = [
        "path.maxLength": Decimal(ProtocolLimits.pathBytes),
        "purpose.minLength": 1,
        "purpose.maxLength": Decimal(ProtocolLimits.purposeBytes),
        "id.anyOf.maxLength": Decimal(ProtocolLimits.idBytes),
        "id.anyOf.minimum": Decimal(Int64.min),
        "id.anyOf.maximum": Decimal(Int64.max),
        "generationText.maxLength": Decimal(ProtocolLimits.generationBytes),
        "initializeParams.client.name.maxLength": Decimal(ProtocolLimits.clientBytes),
        "initializeParams.client.version.maxLength": Decimal(ProtocolLimits.clientBytes),
        "eventsSubscribeParams.after.epoch.maxLength": Decimal(ProtocolLimits.epochBytes),
        "intent.anyOf.options.maxItems": 0,
        "accessParams.intents.minItems": 1,
        "accessParams.intents.maxItems": Decimal(ProtocolLimits.intents),
        "accessParams.within.maxItems": Decimal(ProtocolLimits.intents),
        "census.claims.maxItems": Decimal(ProtocolLimits.listEntries),
        "census.presenters.maxItems": Decimal(ProtocolLimits.listEntries),
        "historyListParams.since.minimum": 0,
        "historyListParams.since.maximum": 10_000_000_000,
        "historyListParams.by.maxLength": Decimal(ProtocolLimits.nameBytes),
        "historyListParams.limit.minimum": 1,
        "historyListParams.limit.maximum": Decimal(ProtocolLimits.listEntries),
        "history.events.maxItems": Decimal(ProtocolLimits.listEntries),
        "runBeginParams.name.minLength": 1,
        "runBeginParams.name.maxLength": Decimal(ActorName.longest),
        "runBeginParams.write.maxItems": Decimal(ProtocolLimits.globs),
        "runBeginParams.read.maxItems": Decimal(ProtocolLimits.globs),
        "glob.minLength": 1,
        "glob.maxLength": Decimal(LeasePattern.longest),
        "versionsListResult.entries.maxItems": Decimal(ProtocolLimits.listEntries),
        "versionsShowParams.offset.minimum": 0,
        "versionsShowParams.offset.maximum": Decimal(Int64.max),
        "versionsShowParams.length.minimum": 1,
        "versionsShowParams.length.maximum": Decimal(ProtocolLimits.readBytes),
        "versionsListParams.by.maxLength": Decimal(ProtocolLimits.actorBytes),
        "versionsResolveParams.ids.minItems": 1,
        "versionsResolveParams.ids.maxItems": Decimal(ProtocolLimits.listEntries),
        "versionsRemoveParams.ids.minItems": 1,
        "versionsRemoveParams.ids.maxItems": Decimal(ProtocolLimits.listEntries),
        "version.size.minimum": 0, "version.size.maximum": Decimal(Int64.max),
        "version.group.minimum": 0, "version.group.maximum": Decimal(UInt32.max),
        "version.mode.minimum": 0, "version.mode.maximum": Decimal(UInt32.max),
    ]

    /// The numbers in the section on limits in Protocol.md, with their units, in the order of the section.
    static let limits = [
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
        "the name of a run \(ActorName.longest)",
        "a glob \(LeasePattern.longest)",
        "at most \(ProtocolLimits.combiningMarks) combining marks in a row",
        "\(ProtocolLimits.presenters) presenters",
        "\(ProtocolLimits.accesses) accesses, held or waiting",
        "within \(ProtocolLimits.intents) others at most",
        "\(ProtocolLimits.subscriptions) subscriptions",
        "\(ProtocolLimits.runs) runs with \(ProtocolLimits.globs) globs",
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

    static let limitsElsewhere = [
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
}
