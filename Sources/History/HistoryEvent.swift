// SPDX-License-Identifier: Apache-2.0
package import VersionStore

/// The kind of a step that the history has.
///
/// This is not an enum, because a later release can write kinds into the log that this release does not have.
package struct HistoryKind: RawRepresentable, Hashable, Sendable {
    package let rawValue: String
    package init(rawValue: String) { self.rawValue = rawValue }

    /// A program made the file or directory.
    package static let created = HistoryKind(rawValue: "created")
    /// A program changed the contents: it closed the file after a write, cut the file, or renamed another file over it.
    package static let written = HistoryKind(rawValue: "written")
    /// The file or directory got another path.
    package static let moved = HistoryKind(rawValue: "moved")
    package static let deleted = HistoryKind(rawValue: "deleted")
    /// A presenter was asked a question, such as to save the document.
    package static let asked = HistoryKind(rawValue: "asked")
    /// A presenter did not answer a question in time.
    package static let forfeited = HistoryKind(rawValue: "forfeited")
    /// A program saved over contents that it had not read.
    package static let savedOver = HistoryKind(rawValue: "saved-over")
    /// A program opened a presented document to read it.
    package static let read = HistoryKind(rawValue: "read")
    /// Contents were preserved as a version, before a step that replaces them.
    package static let preserved = HistoryKind(rawValue: "preserved")
    /// Events are missing, because too many came at the same time, or because the disk was full. `detail` is their number.
    package static let gap = HistoryKind(rawValue: "gap")
}

/// The program that took a step.
package struct HistoryActor: Hashable, Sendable {
    /// The name of the program, from `/proc/PID/comm`; empty if it is not known.
    package var program: [UInt8]
    /// The process ID at that time; 0 if it is not known. Another process can have the number now.
    package var process: Int32
    package var user: UInt32?
    /// The name of the run of `truce run`, or the value of `TRUCE_ACTOR`; nil if the program ran without them.
    package var run: [UInt8]?
    /// The process ID of `truce run`; nil if there is no run.
    package var runProcess: Int32?
    /// A text that no other run of the source has, also not one of a later daemon; nil if there is no run.
    package var runIdentity: String?

    package init(
        program: [UInt8] = [], process: Int32 = 0, user: UInt32? = nil, run: [UInt8]? = nil,
        runProcess: Int32? = nil, runIdentity: String? = nil
    ) {
        self.runIdentity = runIdentity
        self.program = program
        self.process = process
        self.user = user
        self.run = run
        self.runProcess = runProcess
    }
}

/// One step of a program with a document, as the log has it.
package struct HistoryEvent: Hashable, Sendable {
    /// The number of the event. It grows with each event of a store, and is not used again.
    package internal(set) var number: UInt64 = 0
    /// The time of the event, in nanoseconds since 1970.
    package var time: Int64
    package var kind: HistoryKind
    /// The path from the root of the source, as it was before the event.
    package var path: [UInt8]
    /// The path after a move; nil for every other event.
    package var newPath: [UInt8]?
    /// The path that the file had before it was renamed over the document; nil if the contents changed in another way.
    package var source: [UInt8]?
    /// The rights of the directories above `source` that some users could not enter at the event.
    package var sourceClosed: [FileRights] = []
    package var actor = HistoryActor()
    /// The program that wrote the contents that were saved over; nil if it is not known.
    package var author: HistoryActor?
    /// A name for the contents after the event: two events with the same name left the same contents. Nil if it is not known.
    package var generation: String?
    /// The ID of the version that has the contents before the event; nil if there is none.
    package var version: String?
    /// More about the event, as a part of a sentence.
    package var detail: String?
    /// The rights of the document at the event. If they are not known, only root and the owner of the mount see the event.
    package var rights: FileRights?
    /// The rights of the directories above the document that some users could not enter at the event.
    package var closed: [FileRights] = []

    /// The `detail` of a step by a run that passes all waits.
    package static let passesWaits = "uncoordinated"

    package init(_ kind: HistoryKind, _ path: [UInt8], to newPath: [UInt8]? = nil, at time: Int64) {
        self.kind = kind
        self.path = path
        self.newPath = newPath
        self.time = time
    }
}
