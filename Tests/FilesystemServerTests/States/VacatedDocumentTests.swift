// SPDX-License-Identifier: Apache-2.0
import Coordination
import FilesystemServer
import LinuxSystem
import Testing
import VersionStore

/// Documents whose names were taken away, and the suspicions that no save has decided yet.
@Suite struct VacatedDocumentTests {
    private typealias Documents = VacatedDocuments<Int, Int>

    private let now = Instant(nanoseconds: 1_000_000_000_000)
    private let stamp = RememberedDocumentTests.stamp(1)

    private static func suspicion(_ replaced: UInt64, _ base: [UInt8]? = nil) throws -> Suspicion {
        Suspicion(
            try #require(VersionID("0123456789abcdef")), saver: RememberedDocumentTests.opener(1).anchor,
            replaced: replaced, base: base)
    }

    private func document(_ generation: UInt64, suspected: Bool = false) throws -> RememberedDocument {
        var document = RememberedDocument(generation: generation, author: nil, stamp: stamp)
        if suspected { document.suspicions = [try Self.suspicion(generation)] }
        return document
    }

    @Test("A document waits ten seconds for a new file, and its suspicions are returned at the end")
    func aDocumentWaitsTenSeconds() throws {
        var documents = Documents()
        _ = documents.insert(try document(1, suspected: true), of: 10, at: 1, now: now)
        _ = documents.insert(try document(2), of: 20, at: 2, now: now + .seconds(5))
        let early = documents.dropOld(at: now + .seconds(9))
        #expect(early.isEmpty && documents.count == 2)
        let late = documents.dropOld(at: now + .seconds(11))
        #expect(late.map(\.replaced) == [1])
        let second = documents.take(2)
        let taken = try #require(second)
        #expect(taken.file == 20 && taken.document.generation == 2 && documents.isEmpty)
    }

    @Test("A document at the same name makes the suspicions of the former one undecidable")
    func aSecondDocumentReplacesTheFirst() throws {
        var documents = Documents()
        _ = documents.insert(try document(1, suspected: true), of: 10, at: 1, now: now)
        let dropped = documents.insert(try document(2), of: 20, at: 1, now: now)
        #expect(dropped.map(\.replaced) == [1] && documents.count == 1)
    }

    @Test("Very many removals drop documents without suspicions, and return the oldest suspicions at last")
    func removalsOfVeryManyFilesAreBounded() throws {
        var (documents, dropped) = (Documents(), Set<UInt64>())
        _ = documents.insert(try document(0, suspected: true), of: 0, at: 0, now: now)
        for number in 1...3000 {
            let gone = documents.insert(try document(UInt64(number)), of: number, at: number, now: now)
            #expect(gone.isEmpty && documents.count <= Documents.mostDocuments + 256)
        }
        let last = 2 * Documents.mostSuspected
        for number in 3001...last {
            let document = try document(UInt64(number), suspected: true)
            let moment = now + .milliseconds(UInt64(number - 3000))
            for suspicion in documents.insert(document, of: number, at: number, now: moment) {
                dropped.insert(suspicion.replaced)
            }
        }
        #expect(documents.count <= Documents.mostSuspected)
        #expect(dropped.contains(0) && dropped.contains(3001) && !dropped.contains(UInt64(last)))
    }

    @Test("The known contents of vacated documents take at most 4 MiB")
    func basesAreBounded() throws {
        var documents = Documents()
        let contents = [UInt8](repeating: 7, count: 1 << 20)
        for number in 0..<40 {
            var document = try document(UInt64(number))
            document.noteBase(contents)
            document.suspicions = [try Self.suspicion(UInt64(number), contents)]
            _ = documents.insert(document, of: number, at: number, now: now)
            #expect(documents.baseSize <= Documents.mostBaseBytes)
        }
        let (first, latest) = (documents.take(0), documents.take(39))
        #expect(first?.document.suspicions.first?.base == contents)
        let last = try #require(latest)
        #expect(last.document.baseSize == 0 && last.document.suspicions.map(\.replaced) == [39])
        for number in 1..<39 { _ = documents.take(number) }
        #expect(documents.baseSize == 0 && documents.isEmpty)
    }

    @Test("The contents that suspicions hold count for the bound of the table")
    func basesOfSuspicionsAreBounded() throws {
        var table = SightingTable<Int>(epoch: 1)
        for key in 0..<40 {
            table.remember(key, nil, as: stamp)
            let suspicion = try Self.suspicion(UInt64(key), [UInt8](repeating: 7, count: 1 << 20))
            _ = table.change(key) { document, _ in document.suspicions = [suspicion] }
            #expect(table.baseSize <= SightingTable<Int>.mostBaseBytes)
        }
        #expect(table[39]?.suspicions.first?.base?.count == 1 << 20)
        #expect(table[0]?.suspicions.count == 1 && table[0]?.baseSize == 0)
    }

    @Test("A document that gets the file of another one also gets the suspicions of that one")
    func suspicionsOutliveTheirDocument() throws {
        var table = SightingTable<Int>(epoch: 1)
        for key in [1, 2] { table.remember(key, nil, as: stamp) }
        let suspicion = try Self.suspicion(7)
        _ = table.change(2) { document, _ in document.suspicions = [suspicion] }
        _ = table.replace(1, by: 2, at: now) { document, next in
            document.raise(to: next(), by: nil, as: stamp)
        }
        #expect(table[2]?.suspicions.map(\.replaced) == [7])
    }

    @Test("A change that leaves size and time as they were is remembered")
    func aHiddenChangeIsRemembered() throws {
        var document = try document(1)
        document.raise(to: 1, by: nil, as: stamp)
        document.raise(to: 2, by: nil, as: RememberedDocumentTests.stamp(2))
        #expect(!document.hasHiddenChange)
        document.raise(to: 3, by: nil, as: RememberedDocumentTests.stamp(2))
        #expect(document.hasHiddenChange)
        var other = try self.document(1)
        other.restamp(RememberedDocumentTests.stamp(3))
        #expect(!other.hasHiddenChange)
        other.raise(to: 2, by: nil, as: RememberedDocumentTests.stamp(4))
        other.restamp(stamp)
        #expect(other.hasHiddenChange)
    }
}
