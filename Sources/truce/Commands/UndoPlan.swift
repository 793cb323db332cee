// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import LinuxSystem

/// What `truce undo` does with one document.
struct UndoStep: Hashable, Sendable {
    enum Decision: Hashable, Sendable {
        /// The document gets the contents of a version, if its contents are still those with this name.
        case restore(version: String, from: String?)
        /// The document was empty before the run.
        case empty(from: String?)
        /// The run deleted the document, which gets its name back, with the contents of the version. Nil: it was empty.
        case remake(version: String?)
        /// The run deleted the directory, and files in it are made again.
        case remakeDirectory
        /// The run made the file or directory. A file still has the contents with this name.
        case remove(from: String?)
        case stays(String)
    }

    /// The path of the document now, from the root of the mount.
    let path: [UInt8]
    let decision: Decision

    var directory: [UInt8] { path.directory }

    var makesAgain: Bool {
        switch decision {
        case .remake, .remakeDirectory: true
        default: false
        }
    }

    /// The version with the contents that a deleted document had, as the end of a sentence.
    var hint: String {
        guard case .remake(let version?) = decision else { return "" }
        return "; version \(version) has its contents"
    }

    fileprivate var removes: Bool {
        if case .remove = decision { true } else { false }
    }
}

extension [UInt8] {
    /// The directory of a path in a mount; empty for the root of the mount.
    var directory: [UInt8] { Array(self[..<(lastIndex(of: UInt8(ascii: "/")) ?? 0)]) }
}

/// Decides from the history what `truce undo` does with each document of a run.
struct UndoPlan {
    private struct Document {
        /// The version with the contents before the run's first write.
        var version: String?
        /// Whether the document was empty before the run's first write.
        var wasEmpty = false
        var isCreated = false
        var isWritten = false
        var isDeleted = false
        /// The path from which the run has moved the document.
        var origin: [UInt8]?
        /// The document over which the run has renamed this one, although it had not written this one before.
        var successor: [UInt8]?
        /// The last program besides the run that has written or deleted the document after the run's first step.
        var other: HistoryActorForm?
        var isDeletedByOther = false
        /// Whether the run has written the document after that program.
        var isWrittenAfterOther = false
        var generation: String?

        /// Whether the run has changed the document. A file that the run made and deleted is as it was.
        var isConcerned: Bool {
            (isWritten || isDeleted || origin != nil || successor != nil) && !(isCreated && isDeleted)
        }
    }

    private let actor: HistoryActorForm
    private var documents: [[UInt8]: Document] = [:]
    /// The documents of the run whose names other files have got by a move.
    private var displaced: [UndoStep] = []

    /// Makes the plan for a run.
    ///
    /// - Parameters:
    ///   - actor: a program of the run.
    ///   - events: the events of the whole mount since the first event of the run, the oldest first.
    init(of actor: HistoryActorForm, in events: [HistoryEventForm]) {
        self.actor = actor
        for event in events { take(event) }
    }

    /// The steps, sorted by paths. A directory is made again before the files in it. What the run made is removed last, and the
    /// files in a directory before the directory.
    var steps: [UndoStep] {
        let all = documents.filter { $0.value.isConcerned }
            .map { UndoStep(path: $0.key, decision: decision(for: $0.value, at: $0.key)) }
        let sorted = (all + displaced).sorted { $0.path.lexicographicallyPrecedes($1.path) }
        return sorted.filter { !$0.removes } + sorted.filter(\.removes).reversed()
    }

    private func decision(for document: Document, at path: [UInt8]) -> UndoStep.Decision {
        let hint = document.version.map { "; version \($0) has the contents before the run" } ?? ""
        if let other = document.other {
            let when = document.isWrittenAfterOther ? "between two writes of the run" : "since"
            return .stays(
                "\(other.words) has \(document.isDeletedByOther ? "deleted" : "changed") it \(when)\(hint)")
        }
        if document.isDeleted { return decision(forDeleted: document, at: path) }
        if let successor = document.successor {
            return .stays(
                "the run renamed it over \(successor.printable), which has its contents, or a version of it")
        }
        if let origin = document.origin, !document.isWritten {
            return .stays("the run moved it from \(origin.printable)")
        }
        if document.isCreated { return .remove(from: document.generation) }
        if document.wasEmpty { return .empty(from: document.generation) }
        guard let version = document.version else {
            return .stays("no version from before the run was preserved")
        }
        return .restore(version: version, from: document.generation)
    }

    private func decision(forDeleted document: Document, at path: [UInt8]) -> UndoStep.Decision {
        if document.version != nil || document.wasEmpty { return .remake(version: document.version) }
        // Only a directory can have had files in it.
        let hasRestorable = documents.contains { other, document in
            other.count > path.count && other.isPath(atOrBelow: path) && document.isDeleted
                && (document.version != nil || document.wasEmpty)
        }
        return hasRestorable
            ? .remakeDirectory : .stays("the run deleted it, and no version of it is preserved")
    }

    private mutating func take(_ event: HistoryEventForm) {
        guard let path = event.bytesOfPath else { return }
        let isOwn = event.actor.isSameRun(as: actor)
        if event.kind == "written", let source = event.bytesOfSource {
            replace(path, by: source, isOwn ? nil : event.actor)
        }
        switch event.kind {
        case "moved": if let newPath = event.bytesOfNewPath { move(path, to: newPath, isOwn: isOwn) }
        case "preserved": if isOwn, ["write", "empty"].contains(event.detail) { preserve(event, path) }
        case "created" where isOwn: create(path, event)
        case "written" where isOwn: write(path, event)
        case "deleted" where isOwn: documents[path, default: Document()].isDeleted = true
        case "created", "written", "deleted":
            documents[path]?.other = event.actor
            documents[path]?.isDeletedByOther = event.kind == "deleted"
            documents[path]?.isWrittenAfterOther = false
        default: break
        }
    }

    private mutating func preserve(_ event: HistoryEventForm, _ path: [UInt8]) {
        let known = documents[path, default: Document()]
        guard !known.isCreated, !known.isWritten, known.version == nil, !known.wasEmpty else { return }
        documents[path, default: Document()].version = event.version
        documents[path]?.wasEmpty = event.version == nil
    }

    /// Notes that a file was renamed over a document. `other` is the program, if it is not of the run.
    private mutating func replace(_ path: [UInt8], by source: [UInt8], _ other: HistoryActorForm?) {
        guard let document = documents[source] else {
            if other == nil { documents[source] = Document(successor: path) }
            return
        }
        if document.isCreated {
            documents[source] = nil
        } else if let other {
            documents[source]?.other = other
        } else {
            documents[source]?.isDeleted = true
        }
    }

    private mutating func create(_ path: [UInt8], _ event: HistoryEventForm) {
        var document = documents[path, default: Document()]
        // A document that the run deletes and makes again existed before the run.
        let isKnown = document.version != nil || document.wasEmpty || document.isDeleted || document.isWritten
        if !isKnown { document.isCreated = true }
        (document.isDeleted, document.isWritten, document.generation) = (false, true, event.generation)
        if document.other != nil { document.isWrittenAfterOther = true }
        documents[path] = document
    }

    private mutating func write(_ path: [UInt8], _ event: HistoryEventForm) {
        var document = documents[path, default: Document()]
        (document.isDeleted, document.isWritten, document.generation) = (false, true, event.generation)
        if document.other != nil { document.isWrittenAfterOther = true }
        documents[path] = document
    }

    /// Lets documents follow a move of themselves, or of a directory above them.
    private mutating func move(_ path: [UInt8], to newPath: [UInt8], isOwn: Bool) {
        let displaced = documents.removeValue(forKey: newPath).flatMap { $0.isConcerned ? $0 : nil }
        if let displaced {
            let hint = displaced.version.map { "; version \($0) has the contents before the run" } ?? ""
            let why =
                isOwn ? "the run moved \(path.printable) to its place" : "another file has its name now"
            self.displaced.append(UndoStep(path: newPath, decision: .stays(why + hint)))
        }
        for (former, document) in documents where former.isPath(atOrBelow: path) {
            documents[former] = nil
            documents[newPath + former.dropFirst(path.count)] = document
        }
        guard isOwn, displaced == nil else { return }
        let origin = documents[newPath]?.origin ?? path
        documents[newPath, default: Document()].origin = origin == newPath ? nil : origin
    }
}

extension HistoryActorForm {
    /// Whether two programs belong to the same run. The daemon tells runs apart, but not programs that only name themselves: then
    /// their user must be the same.
    func isSameRun(as other: HistoryActorForm) -> Bool {
        run == other.run && runID == other.runID && (runID != nil || user == other.user)
    }
}
