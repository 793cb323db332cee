// SPDX-License-Identifier: Apache-2.0
import LinuxSystem

/// Which events of the log a reader wants.
package struct HistoryQuery: Hashable, Sendable {
    /// The document or directory, from the root of the source; empty for all. The query follows moves: it also finds the events
    /// that the document had under its former paths.
    package var path: [UInt8]
    /// Only events after the event with this number.
    package var after: UInt64?
    /// Only events before the event with this number.
    package var before: UInt64?
    /// Only events at or after this time, in nanoseconds since 1970.
    package var since: Int64?
    /// Only events of the program or run with this name, or of the process with this number.
    package var actor: [UInt8]?
    /// The most events that are returned.
    package var most: Int
    /// Whether the oldest events are returned, if there are more than `most`. Otherwise the newest are returned.
    package var takesOldest = false

    package init(
        path: [UInt8] = [], after: UInt64? = nil, before: UInt64? = nil, since: Int64? = nil,
        by actor: [UInt8]? = nil, atMost most: Int = .max, takesOldest: Bool = false
    ) {
        self.takesOldest = takesOldest
        self.path = path
        self.after = after
        self.before = before
        self.since = since
        self.actor = actor
        self.most = most
    }
}

extension HistoryActor {
    /// Whether this is the program, the run or the process that a user means by a name or a number.
    package func isCalled(_ name: [UInt8]) -> Bool {
        program == name || run == name
            || process != 0 && Int32(String(decoding: name, as: UTF8.self)) == process
    }
}

/// Finds the events of a document, from the newest to the oldest. Moves lead from a path to the path before it.
struct HistoryTrail {
    /// The most paths of one query. A directory into which more documents were moved is followed only for these.
    private static let mostPaths = 4096

    private var paths: [[UInt8]]
    private let isEverything: Bool

    init(_ path: [UInt8]) { (paths, isEverything) = ([path], path.isEmpty) }

    /// Whether an event is about the document or directory. A move changes the path under which older events are found.
    mutating func takes(_ event: HistoryEvent) -> Bool {
        if isEverything { return true }
        guard event.kind == .moved, let newPath = event.newPath else {
            return event.kind == .gap
                || paths.contains { path in
                    event.path.isPath(atOrBelow: path) || event.source?.isPath(atOrBelow: path) ?? false
                }
        }
        var isTaken = false
        for (index, path) in paths.enumerated() {
            if path.isPath(atOrBelow: newPath) {
                // The document itself was moved, or a directory above it.
                paths[index] = event.path + path.dropFirst(newPath.count)
                isTaken = true
            } else if newPath.isPath(atOrBelow: path) {
                // A document was moved into the directory.
                let isFollowed = event.path.isPath(atOrBelow: path) || paths.count >= Self.mostPaths
                if !isFollowed { paths.append(event.path) }
                isTaken = true
            } else if event.path.isPath(atOrBelow: path) {
                isTaken = true
            }
        }
        return isTaken
    }
}
