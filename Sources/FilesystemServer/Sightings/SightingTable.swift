// SPDX-License-Identifier: Apache-2.0
package import Coordination
import LinuxSystem

/// The documents that the daemon remembers, and the number of the latest generation.
///
/// The table is bounded: it has at most ``mostDocuments`` documents and takes at most ``mostBytes`` (D278). The known contents of
/// older generations take at most ``mostBaseBytes`` more. When a bound is reached, the documents are dropped that were not used
/// for the longest time. Documents with a writer or a suspicion stay.
package struct SightingTable<Key: Hashable & Sendable>: Sendable {
    /// A generation from before the last clean end of the daemon.
    package struct SavedGeneration: Hashable, Sendable {
        package let number: UInt64
        package let size: UInt64
        package let modified: Int64

        package init(number: UInt64, size: UInt64, modified: Int64) {
            (self.number, self.size, self.modified) = (number, size, modified)
        }

        package init(_ number: UInt64, as stamp: Stamp) {
            self.init(
                number: number, size: stamp.size,
                modified: stamp.modified.seconds &* 1_000_000_000 &+ Int64(stamp.modified.nanoseconds))
        }
    }

    /// The replacement of a document's file by another file.
    private struct Replacement: Sendable {
        let successor: Key
        /// The generation that the replaced file contains.
        let contents: RememberedDocument.Seen
        let moment: Instant
        /// Whether the replaced file has another name. A program that opens the file later has found it by that name.
        let hasOtherName: Bool
    }

    /// A program that was opening a file while another file replaced it notes its read within this time.
    package static var openTakes: TimeSpan { .seconds(10) }
    private static var mostReplacements: Int { 1024 }

    /// Three quarters of 2¹⁵. A dictionary with more entries has twice the room.
    package static var mostDocuments: Int { 24_576 }
    package static var mostBytes: Int { 8 << 20 }
    package static var mostBaseBytes: Int { 16 << 20 }

    private var documents: [Key: RememberedDocument] = [:]
    private var saved: [Key: SavedGeneration]
    private var replacements: [Key: Replacement] = [:]
    private var bytes = 0
    private var baseBytes = 0
    private var uses: UInt64 = 0
    package let epoch: UInt64
    package private(set) var latest: UInt64

    package init(epoch: UInt64, latest: UInt64 = 0, saved: [Key: SavedGeneration] = [:]) {
        self.epoch = epoch
        self.latest = latest
        self.saved = saved
    }

    package var count: Int { documents.count }
    /// Whether the table has no document, also none from before the last end of the daemon.
    package var isEmpty: Bool { documents.isEmpty && saved.isEmpty }
    /// About how many bytes of memory the documents take, without the known contents.
    package var size: Int { Self.room(documents) + Self.room(saved) + bytes }
    package var baseSize: Int { baseBytes }

    /// The bytes of a dictionary. Of its places, at most three quarters are in use; each has a bit more.
    private static func room<Value>(_ dictionary: [Key: Value]) -> Int {
        let places = dictionary.capacity * 4 / 3
        return places * (MemoryLayout<Key>.stride + MemoryLayout<Value>.stride) + places / 8
    }

    package subscript(key: Key) -> RememberedDocument? { documents[key] }
    package func contains(_ key: Key) -> Bool { documents[key] != nil }
    /// Whether the table knows a generation of the file, also one from before the last end of the daemon.
    package func knows(_ key: Key) -> Bool { documents[key] != nil || saved[key] != nil }

    /// Adds a document. Does nothing if the table has it already.
    package mutating func remember(_ key: Key, _ author: Opener?, as stamp: Stamp) {
        guard documents[key] == nil else { return }
        let known = saved.removeValue(forKey: key)
        let number: UInt64
        if let known, known == SavedGeneration(known.number, as: stamp) {
            number = known.number
        } else {
            number = next()
        }
        var document = RememberedDocument(generation: number, author: author?.anchor, stamp: stamp)
        if let author { document.raise(to: number, by: author, as: stamp) }
        insert(document, at: key)
    }

    /// Adds a document that had another file before, or replaces the document of the file.
    package mutating func insert(_ document: RememberedDocument, at key: Key) {
        var document = document
        // The savers of the former document still have its file open.
        document.suspicions += remove(key)?.suspicions ?? []
        replacements[key] = nil
        makeRoom(forAnother: true)
        uses += 1
        document.used = uses
        bytes += document.size
        baseBytes += document.baseSize
        documents[key] = document
        if baseBytes > Self.mostBaseBytes { dropBases() }
    }

    @discardableResult
    package mutating func remove(_ key: Key) -> RememberedDocument? {
        guard let document = documents.removeValue(forKey: key) else { return nil }
        bytes -= document.size
        baseBytes -= document.baseSize
        return document
    }

    /// Changes a document. Returns nil if the table does not have it. The second parameter of `body` makes a new number.
    package mutating func change<Result>(
        _ key: Key, _ body: (inout RememberedDocument, () -> UInt64) -> Result
    ) -> Result? {
        guard let index = documents.index(forKey: key) else { return nil }
        let (size, baseSize) = (documents.values[index].size, documents.values[index].baseSize)
        uses += 1
        documents.values[index].used = uses
        var latest = latest
        let result = body(&documents.values[index]) {
            latest += 1
            return latest
        }
        self.latest = latest
        bytes += documents.values[index].size - size
        baseBytes += documents.values[index].baseSize - baseSize
        if self.size > Self.mostBytes { makeRoom(forAnother: false) }
        if baseBytes > Self.mostBaseBytes { dropBases() }
        return result
    }

    /// Moves a document to the file that replaces its file, and changes the document.
    ///
    /// - Parameters:
    ///   - key: The replaced file.
    ///   - successor: The file that has the document from now on.
    ///   - now: The present time.
    ///   - body: Changes the document; its second parameter makes a new number.
    /// - Returns: The result of `body`; nil if the document is not remembered.
    package mutating func replace<Result>(
        _ key: Key, by successor: Key, at now: Instant,
        _ body: (inout RememberedDocument, () -> UInt64) -> Result
    ) -> Result? {
        guard let contents = documents[key]?.present, let result = change(key, body),
            let document = remove(key)
        else { return nil }
        insert(document, at: successor)
        noteReplacement(of: key, containing: contents, by: successor, at: now, hasOtherName: false)
        return result
    }

    /// Notes that a document has another file from now on.
    package mutating func noteReplacement(
        of key: Key, containing contents: RememberedDocument.Seen, by successor: Key, at now: Instant,
        hasOtherName: Bool
    ) {
        if replacements.count >= Self.mostReplacements {
            replacements = replacements.filter { now.since($0.value.moment) < Self.openTakes }
            if replacements.count >= Self.mostReplacements { replacements = [:] }
        }
        replacements[key] = Replacement(
            successor: successor, contents: contents, moment: now, hasOtherName: hasOtherName)
    }

    /// Whether the file was a document's file until a moment ago, so that a program that opened it at `opened` has perhaps found
    /// it by the document's name.
    package func wasReplaced(_ key: Key, at opened: Instant) -> Bool {
        guard let replacement = replacements[key] else { return false }
        return opened <= replacement.moment
            || !replacement.hasOtherName && opened.since(replacement.moment) < Self.openTakes
    }

    /// Notes that an anchor reads a file that another file has just replaced. Returns whether the document is remembered.
    package mutating func noteFormerRead(_ key: Key, by anchor: Anchor, at now: Instant) -> Bool {
        guard wasReplaced(key, at: now), let former = replacements[key] else { return false }
        var successor = former.successor
        // The successor may have been replaced, too.
        for _ in 0..<Self.mostReplacements where documents[successor] == nil {
            guard let next = replacements[successor]?.successor else { return false }
            successor = next
        }
        return change(successor) { document, _ in
            document.noteFormerRead(by: anchor, of: former.contents, at: now)
        } != nil
    }

    package mutating func next() -> UInt64 {
        latest += 1
        return latest
    }

    /// The generations of all documents, as they are saved at a clean end of the daemon.
    package var generations: [(key: Key, generation: SavedGeneration)] {
        saved.map { ($0.key, $0.value) }
            + documents.map { ($0.key, SavedGeneration($0.value.generation, as: $0.value.stamp)) }
    }

    /// Drops a sixteenth of the documents if the table is full. `forAnother`: whether a document will be added, for which the
    /// dictionary perhaps takes twice its room.
    private mutating func makeRoom(forAnother: Bool) {
        if documents.count + saved.count >= Self.mostDocuments || isFull(forAnother) { saved = [:] }
        guard isFull(forAnother) else { return }
        let unused = documents.filter { !$0.value.hasWriters && $0.value.suspicions.isEmpty }
            .sorted { $0.value.used < $1.value.used }
        for (key, _) in unused.prefix(max(documents.count / 16, 1)) { remove(key) }
    }

    private func isFull(_ forAnother: Bool) -> Bool {
        let grows = forAnother && documents.count == documents.capacity
        let room = size + (grows ? Self.room(documents) : 0)
        return documents.count >= Self.mostDocuments || room >= Self.mostBytes
    }

    /// Forgets known contents until they take half of their room.
    private mutating func dropBases() {
        let owners = documents.filter { $0.value.baseSize > 0 }.sorted { $0.value.used < $1.value.used }
        for (key, document) in owners where baseBytes > Self.mostBaseBytes / 2 {
            documents[key]?.forgetBases()
            baseBytes -= document.baseSize
        }
    }
}
