// SPDX-License-Identifier: Apache-2.0

/// The parameters of `history/list`.
package struct HistoryListParameters: Hashable, Sendable, Codable {
    private enum Key: String, CodingKey { case since, by, limit, before }

    /// The events of the item at this path and of all items below it are listed; an empty path asks for all events.
    package var path: PathForm
    /// Only events since this time, in seconds since 1970.
    package var since: Double?
    /// Only events of the program, the run or the process with this name or number.
    package var by: String?
    /// The most events; the newest are listed.
    package var limit: Int?
    /// Only events before the event with this number.
    package var before: UInt64?

    package init(
        path: [UInt8] = [], since: Double? = nil, by name: String? = nil, limit: Int? = nil,
        before: UInt64? = nil
    ) {
        self.path = PathForm(path)
        self.since = since
        by = name
        self.limit = limit
        self.before = before
    }

    package init(from decoder: any Decoder) throws {
        path = try PathForm(from: decoder).checkedBelowRoot()
        let container = try decoder.container(keyedBy: Key.self)
        since = try container.decodeIfPresent(Double.self, forKey: .since)
        by = try container.decodeIfPresent(String.self, forKey: .by)?.checked("by", ProtocolLimits.nameBytes)
        limit = try container.decodeIfPresent(Int.self, forKey: .limit)
        before = try container.decodeIfPresent(UInt64.self, forKey: .before)
        if let limit, !(1...ProtocolLimits.listEntries).contains(limit) {
            throw ProtocolFailure.invalidParameters("'limit' must be from 1 to \(ProtocolLimits.listEntries)")
        }
        if let since, !(0...1e10).contains(since) {
            throw ProtocolFailure.invalidParameters("'since' must be a time in seconds since 1970")
        }
    }

    package func encode(to encoder: any Encoder) throws {
        try path.encode(to: encoder)
        var container = encoder.container(keyedBy: Key.self)
        try container.encodeIfPresent(since, forKey: .since)
        try container.encodeIfPresent(by, forKey: .by)
        try container.encodeIfPresent(limit, forKey: .limit)
        try container.encodeIfPresent(before, forKey: .before)
    }
}

/// The parameters of `history/watch`.
package struct HistoryWatchParameters: Hashable, Sendable, Codable {
    private enum Key: String, CodingKey { case after }

    /// The reply has events of the item at this path and of items below it.
    package var path: PathForm
    /// The reply has events after the event with this number. Nil means that the server replies at once with the number of the
    /// last event.
    package var after: UInt64?

    package init(path: [UInt8] = [], after number: UInt64? = nil) {
        self.path = PathForm(path)
        after = number
    }

    package init(from decoder: any Decoder) throws {
        path = try PathForm(from: decoder).checkedBelowRoot()
        after = try decoder.container(keyedBy: Key.self).decodeIfPresent(UInt64.self, forKey: .after)
    }

    package func encode(to encoder: any Encoder) throws {
        try path.encode(to: encoder)
        var container = encoder.container(keyedBy: Key.self)
        try container.encodeIfPresent(after, forKey: .after)
    }
}

/// The result of `history/list` and `history/watch`.
package struct HistoryResult: Hashable, Sendable, Codable {
    /// The events, the oldest first.
    package var events: [HistoryEventForm]
    /// Whether events are missing, because there are more than the limit, or because their entries are too long. The newest are
    /// listed.
    package var isTruncated: Bool
    /// The number of the last event of the mount. The next `history/watch` has it as `after`.
    package var last: UInt64

    package init(events: [HistoryEventForm], isTruncated: Bool, last: UInt64) {
        self.events = events
        self.isTruncated = isTruncated
        self.last = last
    }
}

/// A program in an event of the history.
package struct HistoryActorForm: Hashable, Sendable, Codable {
    package var program: String
    /// The process ID at that time; nil if it is not known.
    package var pid: Int32?
    package var user: UInt32?
    /// The name of the run of `truce run`, or the value of `TRUCE_ACTOR`.
    package var run: String?
    /// The process ID of `truce run`.
    package var runPid: Int32?
    /// A text that no other run of the source has.
    package var runID: String?

    package init(
        program: String, pid: Int32?, user: UInt32?, run: String?, runPid: Int32?, runID: String? = nil
    ) {
        self.runID = runID
        self.program = program
        self.pid = pid
        self.user = user
        self.run = run
        self.runPid = runPid
    }
}

/// One step of a program with a document.
package struct HistoryEventForm: Hashable, Sendable, Codable {
    /// The number of the event, which grows with each event of the mount.
    package var number: UInt64
    /// The time of the event, in seconds since 1970.
    package var time: Double
    package var kind: String
    package var path: String
    package var pathBytes: String?
    /// The path after a move.
    package var newPath: String?
    package var newPathBytes: String?
    /// The path that the file had before it was renamed over the document.
    package var source: String?
    package var sourceBytes: String?
    package var actor: HistoryActorForm
    /// The program that wrote the contents that were saved over.
    package var author: HistoryActorForm?
    /// A name for the contents after the event.
    package var generation: String?
    /// The ID of the version with the contents before the event.
    package var version: String?
    package var detail: String?

    package init(
        number: UInt64, time: Double, kind: String, path: [UInt8], newPath: [UInt8]? = nil,
        source: [UInt8]? = nil, actor: HistoryActorForm
    ) {
        self.number = number
        self.time = time
        self.kind = kind
        (self.path, self.pathBytes) = PathForm(path).parts
        if let newPath { (self.newPath, self.newPathBytes) = PathForm(newPath).parts }
        if let source { (self.source, self.sourceBytes) = PathForm(source).parts }
        self.actor = actor
    }

    /// The bytes of `path`; nil if `pathBytes` is not base64.
    package var bytesOfPath: [UInt8]? { PathForm(path, pathBytes).bytes }
    package var bytesOfNewPath: [UInt8]? { newPath.flatMap { PathForm($0, newPathBytes).bytes } }
    package var bytesOfSource: [UInt8]? { source.flatMap { PathForm($0, sourceBytes).bytes } }
}
