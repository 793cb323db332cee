// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// A document that was told to have moved.
package struct MovedDocument: Sendable {
    package let vacancy: Vacancy
    /// What its file looked like then; nil if it could not be looked at.
    package let stamp: Stamp?

    package init(_ vacancy: Vacancy, as stamp: Stamp?) {
        self.vacancy = vacancy
        self.stamp = stamp
    }
}

/// Documents that a living program has moved from their names, as far as anyone could tell.
///
/// If the same program soon puts a file under the former name, the move was the first step of a save, and the document gets its
/// name back. A program that is not done yet works on: each of its operations on the mount adds to the time.
package struct MovedDocuments: Sendable {
    private struct Entry {
        let document: MovedDocument
        var vacancy: Vacancy { document.vacancy }
        /// The program's last operation on the mount.
        var last: Instant
    }

    /// How many are remembered. The rest stays moved, as it was told.
    private static let most = 64

    /// In the order in which they were told.
    private var entries: [Entry] = []

    package init() {}

    package var count: Int { entries.count }
    package var actors: [Actor] { entries.map(\.vacancy.actor) }

    /// A document was told to have moved.
    package mutating func insert(_ document: MovedDocument, at now: Instant) {
        if entries.count == Self.most { entries.removeFirst() }
        entries.append(Entry(document: document, last: now))
    }

    /// Tells of any operation of an actor on the mount.
    package mutating func touched(by actor: Actor, at now: Instant) {
        for index in entries.indices where entries[index].vacancy.actor.isSame(as: actor) {
            entries[index].last = now
        }
    }

    /// Something was put under a name. Returns what moved away from there, if its program did that.
    package mutating func fills(_ name: [UInt8], in directory: NodeNumber, by actor: Actor?) -> MovedDocument?
    {
        let index = entries.lastIndex { $0.vacancy.directory == directory && $0.vacancy.name == name }
        guard let index else { return nil }
        let document = entries.remove(at: index).document
        return document.vacancy.isSaved(by: actor) ? document : nil
    }

    /// Forgets what is not expected back any more.
    package mutating func expire(at now: Instant) {
        entries.removeAll { now.since($0.last) >= EpisodeLimits.vacancyIdle }
    }

    /// A process is gone: what it moved stays where it is.
    package mutating func actorExited(_ process: ProcessID) {
        entries.removeAll { $0.vacancy.actor.process == process }
    }
}
