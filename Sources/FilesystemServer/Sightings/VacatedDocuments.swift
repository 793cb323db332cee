// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// The documents without a file, because a program has taken their names away. A save may give them new files.
///
/// A document waits for a new file for some seconds only. The number of documents is bounded, and so are the contents that are
/// known of them: a user can remove files as fast as the disk allows.
package struct VacatedDocuments<Name: Hashable & Sendable, File: Hashable & Sendable>: Sendable {
    package struct Vacated: Sendable {
        package fileprivate(set) var document: RememberedDocument
        /// The file that has lost the name.
        package let file: File
        /// Whether the file has another name. A program that opens the file later has found it by that name.
        package let hasOtherName: Bool
        package let moment: Instant

        /// Whether a program that has opened the file has perhaps found it by the document's name.
        fileprivate func wasFound(at opened: Instant) -> Bool { !hasOtherName || opened <= moment }
    }

    /// For this time a document waits for a new file after its name was taken away.
    package static var refillTakes: TimeSpan { .seconds(10) }
    package static var mostDocuments: Int { 1024 }
    /// The most documents if all of them have suspicions, which a new file decides.
    package static var mostSuspected: Int { 16_384 }
    /// The most bytes of known contents.
    package static var mostBaseBytes: Int { 4 << 20 }

    /// The documents are looked through at most once in this time.
    private static var pause: TimeSpan { .seconds(1) }

    private var documents: [Name: Vacated] = [:]
    /// The name that each file has lost last.
    private var names: [File: Name] = [:]
    private var nextLook = Instant(nanoseconds: 0)
    package private(set) var baseSize = 0

    package init() {}

    package var isEmpty: Bool { documents.isEmpty }
    package var count: Int { documents.count }

    /// Adds a document. Returns the suspicions of other documents for which there is no room any more.
    package mutating func insert(
        _ document: RememberedDocument, of file: File, at name: Name, hasOtherName: Bool = false, now: Instant
    ) -> [Suspicion] {
        var dropped = take(name)?.document.suspicions ?? []
        // Only some insertions look through all documents, so that a removal of very many files stays fast.
        if documents.count >= Self.mostDocuments, documents.count.isMultiple(of: 256) {
            for name in documents.filter({ $0.value.document.suspicions.isEmpty }).keys { _ = take(name) }
        }
        if documents.count >= Self.mostSuspected {
            let oldest = documents.sorted { $0.value.moment < $1.value.moment }.prefix(
                Self.mostSuspected / 16)
            for (name, _) in oldest { dropped += take(name)?.document.suspicions ?? [] }
        }
        var document = document
        if baseSize + document.baseSize > Self.mostBaseBytes { document.forgetBases() }
        baseSize += document.baseSize
        documents[name] = Vacated(
            document: document, file: file, hasOtherName: hasOtherName, moment: now)
        names[file] = name
        return dropped
    }

    /// Removes the document of a name, and returns it with the file that has lost the name.
    package mutating func take(_ name: Name) -> Vacated? {
        guard let vacated = documents.removeValue(forKey: name) else { return nil }
        if names[vacated.file] == name { names[vacated.file] = nil }
        baseSize -= vacated.document.baseSize
        return vacated
    }

    /// Whether a file has just lost a document's name, so that a program that opened the file at `opened` has perhaps found it
    /// by this name.
    package func isLeft(_ file: File, at opened: Instant) -> Bool {
        names[file].flatMap { documents[$0] }?.wasFound(at: opened) ?? false
    }

    /// Notes that an anchor has read a file that has just lost a document's name.
    package mutating func noteRead(of file: File, by anchor: Anchor, at opened: Instant) {
        guard let name = names[file], let vacated = documents[name], vacated.wasFound(at: opened) else {
            return
        }
        documents[name]?.document.noteFormerRead(by: anchor, of: vacated.document.present, at: opened)
    }

    /// Removes the documents that no save has given a new file in time. Returns their suspicions.
    package mutating func dropOld(at now: Instant) -> [Suspicion] {
        guard now >= nextLook else { return [] }
        nextLook = now + Self.pause
        let old = documents.filter { now.since($0.value.moment) > Self.refillTakes }
        for name in old.keys { _ = take(name) }
        return old.values.flatMap(\.document.suspicions)
    }
}

/// The suspicions that no save can decide any more after a document has lost its name.
struct VacatedSuspicions: Sendable {
    /// Those of documents that got no new file in time. Their programs have removed the documents.
    var gone: [Suspicion] = []
    /// Those of programs that still have the file open.
    var others: [Suspicion] = []
    /// Those of documents for which there was no room.
    var crowded: [Suspicion] = []
}
