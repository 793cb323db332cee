// SPDX-License-Identifier: Apache-2.0
import Coordination
import FilesystemServer
import LinuxSystem
import Testing

/// Notes in a node: which opens need no more than a note.
@Suite struct NodeSightingsTests {
    @Test("While one program works alone, each of its opens is only noted")
    func oneProgramAloneIsOnlyNoted() {
        var notes = NodeSightings()
        for use in [NodeSightings.Use.reads, .writes, .readsAndWrites, .reads] {
            #expect(notes.note(7, at: 5, use, isTableEmpty: true) == .alone)
        }
        #expect(notes.writer.process == 7 && notes.readers.map(\.process) == [7])
        #expect(!notes.concerns(7, at: 5, isTableEmpty: true) && notes.concerns(8, at: 5, isTableEmpty: true))
    }

    @Test("Many readers concern no program; the third one is noted beside the readers that still run")
    func readersConcernNoProgram() {
        var notes = NodeSightings()
        for (reader, outcome) in [(1, .alone), (2, .alone), (1, .alone), (3, .crowded)]
            as [(Int32, NodeSightings.Outcome)]
        {
            #expect(notes.note(reader, at: 5, .reads, isTableEmpty: true) == outcome)
        }
        notes.replaceReader(by: NodeSightings.Note(3, at: 6)) { $0.process == 1 }
        #expect(Set(notes.readers.map(\.process)) == [2, 3])
        notes.replaceReader(by: NodeSightings.Note(4, at: 6)) { _ in false }
        #expect(notes.readers.map(\.process) == [2, 3, 4])
        #expect(notes.note(4, at: 5, .reads, isTableEmpty: true) == .alone)
        #expect(notes.note(4, at: 5, .writes, isTableEmpty: true) == .concerned)
        #expect(Set(notes.others(than: 4)) == [2, 3])
        for reader in Int32(5)..<40 {
            notes.replaceReader(by: NodeSightings.Note(reader, at: 6)) { _ in false }
        }
        #expect(notes.readers.count == NodeSightings.mostReaders && notes.readers.first?.process == 2)
    }

    @Test(
        "A second program is concerned if one of the two writes",
        arguments: [
            (NodeSightings.Use.reads, NodeSightings.Use.writes), (.writes, .reads), (.writes, .writes),
            (.readsAndWrites, .reads),
        ])
    func aSecondProgramIsConcernedIfOneWrites(first: NodeSightings.Use, second: NodeSightings.Use) {
        var notes = NodeSightings()
        #expect(notes.note(1, at: 5, first, isTableEmpty: true) == .alone)
        #expect(notes.note(2, at: 5, second, isTableEmpty: true) == .concerned)
    }

    @Test("A note of a writer counts for 24 hours")
    func aWriterCountsForADay() {
        let day = UInt32(NodeSightings.memory.nanoseconds >> 24)
        for (later, outcome) in [(day - 1, .concerned), (day, .alone)] as [(UInt32, NodeSightings.Outcome)] {
            var notes = NodeSightings()
            _ = notes.note(1, at: 5, .writes, isTableEmpty: true)
            #expect(notes.note(2, at: 5 + later, .reads, isTableEmpty: true) == outcome)
        }
    }

    @Test("The first open of a node asks the table, unless the table is empty; a remembered file always does")
    func aNewNodeAsksTheTable() {
        var notes = NodeSightings()
        #expect(notes.note(1, at: 5, .reads, isTableEmpty: false) == .concerned)
        notes.becomeKnown(isRemembered: false)
        #expect(notes.note(1, at: 5, .reads, isTableEmpty: false) == .alone)
        notes.becomeKnown(isRemembered: true)
        #expect(notes.note(1, at: 5, .reads, isTableEmpty: true) == .concerned && notes.readers.isEmpty)
    }
}

/// What an anchor knows of the present generation of a document.
@Suite struct RememberedDocumentTests {
    static func stamp(_ number: UInt64) -> Stamp {
        let time = FileStatus.Time(seconds: Int64(number), nanoseconds: 0)
        return Stamp(size: 4, modified: time, changed: time)
    }

    static func opener(
        _ pid: Int32, isAnchor: Bool = true, backsUp: Bool = false, isBackground: Bool = false
    ) -> Opener {
        let identity = Anchor.Identity.process(ProcessID(number: pid, started: 1))
        return Opener(
            Anchor(
                identity, program: Array("p\(pid)".utf8), readsToBackUp: backsUp, isBackground: isBackground),
            isAnchor: isAnchor)
    }

    private let first = Self.opener(1)
    private let second = Self.opener(2)
    private let start = Instant(nanoseconds: 1_000_000_000_000)
    private var document = RememberedDocument(generation: 1, author: nil, stamp: stamp(1))

    private func view(_ opener: Opener, after seconds: UInt64 = 100) -> RememberedDocument.View {
        document.view(of: opener, at: start + .seconds(seconds))
    }

    @Test("A program that has read an older generation, and not the present one, has not seen it")
    mutating func aReaderOfAnOlderGenerationHasNotSeenThePresentOne() {
        document.noteRead(by: first.anchor, at: start)
        #expect(view(first) == .seen && view(second) == .stranger)
        document.raise(to: 2, by: second, as: Self.stamp(2))
        guard case .unseen(let since) = view(first) else { return #expect(Bool(false), "\(view(first))") }
        #expect(since.number == 1 && since.time == 1_000_000_000)
        #expect(view(second) == .seen)
        document.noteRead(by: first.anchor, at: start)
        #expect(view(first) == .seen)
    }

    @Test("What a program has written itself counts as seen, but a shell knows nothing of it later")
    mutating func ownContentsAreSeen() {
        let shell = Self.opener(3, isAnchor: false)
        for writer in [first, shell] {
            document.raise(to: 2, by: writer, as: Self.stamp(2))
            #expect(view(writer) == .seen)
            document.raise(to: 3, by: second, as: Self.stamp(3))
            let later = view(writer)
            if writer.isAnchor {
                #expect(later != .seen && later != .stranger)
            } else {
                #expect(later == .stranger)
            }
        }
    }

    @Test(
        "A change around the mount has no author, so that each reader of the older generation has not seen it"
    )
    mutating func aChangeAroundTheMountIsUnseen() {
        document.raise(to: 2, by: first, as: Self.stamp(2))
        document.raise(to: 3, by: nil, as: Self.stamp(3))
        #expect(document.author == nil && view(first) != .seen && view(first) != .stranger)
    }

    @Test("An editor that reads only to make a backup has not seen what it backs up")
    mutating func aReadForABackupIsNoSighting() {
        let editor = Self.opener(4, backsUp: true)
        document.noteRead(by: editor.anchor, at: start)
        document.raise(to: 2, by: second, as: Self.stamp(2))
        document.noteRead(by: editor.anchor, at: start + .seconds(50))
        let justNow = document.view(of: editor, at: start + .milliseconds(50_100))
        #expect(justNow != .seen && justNow != .stranger)
        // The user has loaded the file again, and saves later.
        document.noteRead(by: editor.anchor, at: start + .seconds(60))
        #expect(view(editor, after: 61) == .seen)
        // The first read of an editor is no backup.
        let other = Self.opener(5, backsUp: true)
        document.noteRead(by: other.anchor, at: start + .seconds(60))
        #expect(view(other, after: 60) == .seen)
    }

    @Test("The contents that a program has read stay known until no sighting refers to them")
    mutating func basesStayAsLongAsTheyAreNeeded() {
        document.noteRead(by: first.anchor, at: start)
        #expect(
            document.holders(besides: second.anchor).count == 1
                && document.holders(besides: first.anchor).isEmpty)
        document.noteBase(Array("old".utf8))
        document.raise(to: 2, by: second, as: Self.stamp(2))
        #expect(document.base(of: 1) == Array("old".utf8) && document.baseSize == 3)
        document.noteRead(by: first.anchor, at: start)
        document.raise(to: 3, by: first, as: Self.stamp(3))
        document.noteRead(by: first.anchor, at: start)
        #expect(document.base(of: 1) == nil || document.sighting(of: first.anchor)?.read.number == 3)
        document.raise(to: 4, by: first, as: Self.stamp(4))
        document.noteRead(by: first.anchor, at: start)
        #expect(document.base(of: 1) == nil && document.baseSize == 0)
    }

    @Test("Sightings of ended, background and reading programs are dropped before those of living writers")
    mutating func sightingsAreDroppedInTheirOrder() {
        let writers = (10..<13).map { Self.opener($0) }
        for (number, writer) in writers.enumerated() {
            document.raise(to: UInt64(2 + number), by: writer, as: Self.stamp(UInt64(2 + number)))
        }
        document.noteRead(by: Self.opener(20, isBackground: true).anchor, at: start)
        let readers = 21..<(21 + Int32(RememberedDocument.usualSightings) - 4)
        for pid in readers { document.noteRead(by: Self.opener(pid).anchor, at: start) }
        let next = Self.opener(39)
        #expect(document.sightings.count == RememberedDocument.usualSightings)
        #expect(document.needsRoom(for: next.anchor))
        let living = Array(readers.dropLast())
        let dead = Self.opener(readers.upperBound - 1).anchor.identity
        document.makeRoom { $0.identity == dead }
        let pids = { (document: RememberedDocument) in
            document.sightings.compactMap { $0.anchor.process?.number }
        }
        #expect(pids(document) == [10, 11, 12, 20] + living)
        document.noteRead(by: next.anchor, at: start)
        document.makeRoom { _ in false }
        #expect(pids(document) == [10, 11, 12] + living + [39])
        for pid in 40..<60 {
            if document.needsRoom(for: Self.opener(Int32(pid)).anchor) { document.makeRoom { _ in false } }
            document.raise(to: UInt64(pid), by: Self.opener(Int32(pid)), as: Self.stamp(UInt64(pid)))
        }
        #expect(pids(document).prefix(3) == [10, 11, 12] && pids(document).suffix(20) == Array(40..<60))
    }

    @Test("A living presenter keeps its sighting, even a background program; it is not taken to have read")
    mutating func aPresenterKeepsItsSighting() {
        let presenter = Self.opener(9, isBackground: true)
        document.notePresenter(presenter.anchor)
        #expect(view(presenter) == .stranger)
        document.noteRead(by: presenter.anchor, at: start)
        document.raise(to: 2, by: second, as: Self.stamp(2))
        for pid in Int32(20)..<60 {
            let reader = Self.opener(pid).anchor
            if document.needsRoom(for: reader) { document.makeRoom { _ in false } }
            document.noteRead(by: reader, at: start)
        }
        #expect(document.sightings.count == RememberedDocument.usualSightings)
        #expect(view(presenter) != .seen && view(presenter) != .stranger)
        document.makeRoom { $0.identity == presenter.anchor.identity }
        #expect(view(presenter) == .stranger)
    }

    @Test("A generation that changes while one program has the document open to write is this program's")
    mutating func theOnlyWriterIsTheAuthor() {
        document.noteWriter(first, by: 1)
        document.noteWriter(first, by: 1)
        #expect(document.onlyWriter?.anchor.identity == first.anchor.identity)
        document.noteWriter(second, by: 2)
        #expect(document.onlyWriter == nil)
        #expect(document.writer(2)?.anchor.identity == second.anchor.identity && document.writer(3) == nil)
        #expect(document.removeWriter(1) != nil && document.removeWriter(1) == nil)
        #expect(document.removeWriter(2) != nil && !document.hasWriters)
    }

    @Test("When documents exchange their files, their writers go with the files")
    func writersGoWithTheirFiles() {
        var one = RememberedDocument(generation: 1, author: nil, stamp: Self.stamp(1))
        var other: RememberedDocument? = RememberedDocument(generation: 2, author: nil, stamp: Self.stamp(2))
        one.noteWriter(Self.opener(10), by: 7)
        #expect(one.hasWriters(besides: nil) && one.hasWriters(besides: 8) && !one.hasWriters(besides: 7))
        one.exchangeWriters(with: &other)
        #expect(!one.hasWriters && other?.onlyWriter?.anchor.process?.number == 10)
        other?.forgetWriters()
        #expect(other?.hasWriters == false)
    }
}

/// The bounds of the table, and its numbers.
@Suite struct SightingTableTests {
    private let stamp = RememberedDocumentTests.stamp(1)

    @Test(
        "The table takes at most its bytes and documents, and drops those that were not used for the longest time"
    )
    func theTableIsBounded() {
        var table = SightingTable<Int>(epoch: 1)
        for key in 0..<100_000 {
            table.remember(key, nil, as: stamp)
            _ = table.change(0) { document, _ in document.generation }
            #expect(table.size <= SightingTable<Int>.mostBytes + 1024)
        }
        #expect(table.count <= SightingTable<Int>.mostDocuments && table.count > 10_000)
        #expect(table.contains(0) && table.contains(99_999) && !table.contains(1))
        for key in 0..<100_000 { table.remove(key) }
        let room = table.size
        table.remember(1, RememberedDocumentTests.opener(1), as: stamp)
        #expect(table.size > room)
        table.remove(1)
        #expect(table.size == room && table.isEmpty)
    }

    @Test("A program that reads a file which another file has just replaced has seen the former generation")
    func aReadOfAReplacedFileIsASighting() {
        var table = SightingTable<Int>(epoch: 1)
        let (reader, writer) = (RememberedDocumentTests.opener(1), RememberedDocumentTests.opener(2))
        let now = Instant(nanoseconds: 1_000_000_000_000)
        table.remember(1, nil, as: stamp)
        for (file, successor) in [(1, 2), (2, 3)] {
            let generation = table.replace(file, by: successor, at: now) { document, next in
                document.raise(to: next(), by: writer, as: stamp)
                return document.generation
            }
            #expect(generation == UInt64(successor))
        }
        #expect(!table.contains(1) && table.wasReplaced(1, at: now) && table.contains(3))
        let isNoted = table.noteFormerRead(1, by: reader.anchor, at: now)
        #expect(isNoted)
        #expect(table[3]?.sighting(of: reader.anchor)?.read.number == 1)
        guard case .unseen(let since) = table[3]?.view(of: reader, at: now) else {
            Issue.record("the reader counts as a stranger")
            return
        }
        #expect(since.number == 1)
        let later = now + SightingTable<Int>.openTakes
        let isNotedLater = table.noteFormerRead(1, by: reader.anchor, at: later)
        #expect(!isNotedLater && !table.wasReplaced(1, at: later))
        // A new document of the same file has no successor.
        table.remember(1, nil, as: stamp)
        #expect(!table.wasReplaced(1, at: now))
    }

    @Test("A former file with another name counts only for opens before its replacement")
    func aFileWithAnotherNameIsFormerOnlyBeforeItsReplacement() {
        var table = SightingTable<Int>(epoch: 1)
        let moment = Instant(nanoseconds: 1_000_000_000_000)
        let seen = RememberedDocument(generation: 7, author: nil, stamp: stamp).present
        for (key, hasOtherName) in [(1, false), (2, true)] {
            table.noteReplacement(
                of: key, containing: seen, by: 3, at: moment, hasOtherName: hasOtherName)
        }
        let (before, after) = (Instant(nanoseconds: moment.nanoseconds - 1), moment + .milliseconds(1))
        #expect(table.wasReplaced(1, at: before) && table.wasReplaced(1, at: after))
        #expect(table.wasReplaced(2, at: before) && !table.wasReplaced(2, at: after))
    }

    @Test("Documents that are being written stay in a full table")
    func documentsInUseStay() {
        var table = SightingTable<Int>(epoch: 1)
        table.remember(-1, nil, as: stamp)
        _ = table.change(-1) { document, _ in document.noteWriter(RememberedDocumentTests.opener(1), by: 7) }
        for key in 0..<80_000 { table.remember(key, nil, as: stamp) }
        #expect(table.contains(-1))
    }

    @Test("The known contents of older generations take at most 16 MiB")
    func basesAreBounded() {
        var table = SightingTable<Int>(epoch: 1)
        let contents = [UInt8](repeating: 7, count: 1 << 20)
        for key in 0..<40 {
            table.remember(key, nil, as: stamp)
            _ = table.change(key) { document, _ in document.noteBase(contents) }
            #expect(table.baseSize <= SightingTable<Int>.mostBaseBytes)
        }
        #expect(table[39]?.hasBase == true && table[0]?.hasBase == false)
    }

    @Test("No two generations have the same number, also after a document was dropped or a clean end")
    func numbersAreUsedOnce() {
        var table = SightingTable<Int>(epoch: 1, latest: 41)
        table.remember(1, nil, as: stamp)
        table.remember(2, nil, as: stamp)
        #expect(table[1]?.generation == 42 && table[2]?.generation == 43)
        table.remove(1)
        table.remember(1, nil, as: stamp)
        #expect(table[1]?.generation == 44)
        _ = table.change(2) { document, next in
            document.raise(to: next(), by: nil, as: RememberedDocumentTests.stamp(2))
        }
        let saved = Dictionary(uniqueKeysWithValues: table.generations.map { ($0.key, $0.generation) })
        var later = SightingTable<Int>(epoch: 1, latest: table.latest, saved: saved)
        #expect(later.count == 0 && !later.isEmpty && later.knows(1) && !later.knows(3))
        later.remember(2, nil, as: RememberedDocumentTests.stamp(2))
        #expect(later[2]?.generation == 45)
        // The file was changed while no daemon ran.
        later.remember(1, nil, as: RememberedDocumentTests.stamp(9))
        #expect(later[1]?.generation == 46)
    }
}

/// Notes of files that the kernel has forgotten.
@Suite struct ForgottenNotesTests {
    static func notes(of process: Int32, _ use: NodeSightings.Use = .reads) -> NodeSightings {
        var notes = NodeSightings()
        _ = notes.note(process, at: 5, use, isTableEmpty: true)
        return notes
    }

    @Test("The notes of a file are given back once, and a file without notes takes no room")
    func notesAreGivenBackOnce() {
        var forgotten = ForgottenNotes<Int>(most: 8)
        forgotten.insert(NodeSightings(), of: 1)
        #expect(forgotten.isEmpty)
        forgotten.insert(Self.notes(of: 7), of: 1)
        #expect(forgotten.take(1)?.readers.map(\.process) == [7] && forgotten.take(1) == nil)
    }

    @Test("If there is no room, the files of the process with the most notes are dropped first")
    func aSearchProgramDropsNoOtherNotes() {
        var forgotten = ForgottenNotes<Int32>(most: 64)
        forgotten.insert(Self.notes(of: 7), of: 0)
        for file in Int32(1)...1000 {
            forgotten.insert(Self.notes(of: 8), of: file)
            #expect(forgotten.count <= 64)
        }
        #expect(forgotten.take(0) != nil && forgotten.take(1000) != nil)
        for file in Int32(1)...1000 {
            forgotten.insert(Self.notes(of: file), of: file)
            #expect(forgotten.count <= 64)
        }
        #expect(forgotten.take(1000) != nil)
    }

    @Test("Files that only ended programs have read are removed")
    func filesOfEndedProgramsAreRemoved() {
        var forgotten = ForgottenNotes<Int>(most: 8)
        forgotten.insert(Self.notes(of: 7), of: 1)
        forgotten.insert(Self.notes(of: 8), of: 2)
        forgotten.insert(Self.notes(of: 9, .writes), of: 3)
        #expect(forgotten.processes == [7, 8, 9])
        forgotten.removeEnded([8, 9])
        #expect(forgotten.count == 1 && forgotten.take(1) != nil)
    }
}

/// The outer form of generations, and the command lines of shells.
@Suite struct GenerationTextTests {
    @Test("A generation is read from its own text, and any other text is refused")
    func generationsAreReadFromTheirText() {
        let generation = Generation.numbered(epoch: 0xABC, number: 12)
        #expect(generation.description == "eabc-12" && Generation("eabc-12") == generation)
        #expect(Generation("t1-2.3-4-5.6") == .token("t1-2.3-4-5.6"))
        for text in ["", "e", "t", "eabc", "eabc-", "e-12", "eabc-x", "eabc-1-2", "x1-2", "t1/2"] {
            #expect(Generation(text) == nil, "\(text)")
        }
    }

    @Test(
        "A shell that runs a script is told from one that runs a command or is interactive",
        arguments: [
            (["bash", "agent.sh"], true), (["sh", "-eu", "agent.sh", "-c"], true),
            (["bash", "-c", "cat x"], false),
            (["bash", "-euc", "cat x", "name"], false), (["bash"], false), (["-bash"], false),
            (["bash", "-o", "pipefail", "agent.sh"], true), (["bash", "--norc", "-i"], false),
            (["bash", "--rcfile", "x"], false), (["dash", "-s", "x"], false), (["bash", "--", "x"], true),
        ])
    func scriptsAreRecognised(words: [String], isScript: Bool) {
        #expect(ShellCommand.runsScript(words.map { Array($0.utf8) }) == isScript)
    }
}
