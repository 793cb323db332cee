// SPDX-License-Identifier: Apache-2.0
import Coordination
import FuseBridge
import LinuxSystem
import Testing
import VersionStore

@testable import FilesystemServer

@Suite("Versions that are a hard link to a file with writers")
struct LinkedVersionTests {
    private let stamp = Stamp(
        size: 3, modified: FileStatus.Time(seconds: 5, nanoseconds: 6),
        changed: FileStatus.Time(seconds: 5, nanoseconds: 7))

    private func file(_ stamp: Stamp?, writers: Int = 1, mustStay: Bool = false) throws -> LinkedVersion {
        LinkedVersion(
            try #require(VersionID("0123456789abcdef")), as: stamp, writers: writers, mustStay: mustStay)
    }

    @Test("a file counts as written if its size or time of change differs, or is unknown")
    func aFileWithAnUnchangedStampIsUnchanged() throws {
        let later = Stamp(
            size: 3, modified: FileStatus.Time(seconds: 5, nanoseconds: 9), changed: stamp.changed)
        let renamed = Stamp(
            size: 3, modified: stamp.modified, changed: FileStatus.Time(seconds: 9, nanoseconds: 0))
        #expect(try !file(stamp).hasChanged(to: stamp))
        #expect(try !file(stamp).hasChanged(to: renamed))
        #expect(try file(stamp).hasChanged(to: later))
        // If there is no stamp, it is unknown whether the file has changed. So the file counts as changed.
        #expect(try file(nil).hasChanged(to: stamp))
        #expect(try file(stamp).hasChanged(to: Stamp?.none))
        #expect(try file(nil).hasChanged(to: Stamp?.none))
    }

    @Test("a version that is a link is dropped only if no writer can have written to its file later")
    func aLinkedVersionWithoutLaterWritesIsDropped() throws {
        for stamps in [[stamp, stamp], [nil, stamp], [stamp, nil]] {
            let kept = try file(stamps[0], writers: 2)
            _ = kept.closeWriter(hasWritten: kept.hasChanged(to: stamps[1]))
            let last = kept.closeWriter(hasWritten: kept.hasChanged(to: stamp))
            switch last {
            case .unneeded: #expect(stamps == [stamp, stamp])
            case .unchanging: #expect(stamps != [stamp, stamp])
            case .otherWriters: Issue.record("two writers have closed it")
            }
        }
    }

    @Test(
        "a file's stamp is used only if the last change is older than the granularity of the clock",
        arguments: [(0, false), (9, false), (10, true), (11, true)])
    func aStampIsUsedOnlyIfTheLastChangeIsOlderThanTheClocksGranularity(age: Int64, isKnown: Bool) {
        #expect((ContentPreserver.settledStamp(stamp, age: age, granularity: 10) != nil) == isKnown)
    }

    @Test(
        "for a suspended writer, its first and last three versions stay, and the last three versions of other programs"
    )
    func aSuspendedWritersFirstAndLastVersionsStay() throws {
        var versions = SuspendedWriterVersions()
        let (one, other) = (HandleID(1), HandleID(2))
        func keep(_ number: Int, _ origin: SuspendedWriterVersions.Origin, for writers: [HandleID]) throws
            -> [Int]
        {
            let gone = versions.insert(try Self.version(number), from: origin, for: writers)
            return try gone.map { id in try #require((0..<99).first { Self.id($0) == id }) }
        }
        for number in 0..<4 { #expect(try keep(number, .writer, for: [one]) == []) }
        #expect(try keep(4, .writer, for: [one]) == [1])
        for number in 5..<8 { #expect(try keep(number, .others, for: [one]) == []) }
        #expect(try keep(8, .others, for: [one]) == [5])
        // Version 9 is the first version that was preserved for the writer `other`. So it stays in the list.
        #expect(try keep(9, .writer, for: [one, other]) == [2])
        for number in 10..<13 {
            #expect(try keep(number, .writer, for: [one, other]) == [[3], [4], []][number - 10])
        }
        #expect(versions.last(for: [other])?.id == Self.id(12))
        #expect(try keep(13, .writer, for: [one, other]) == [10])
        // The writer `one` closes the file. Its first version stays in the store.
        versions.close(one)
        for number in 14..<17 { #expect(try keep(number, .writer, for: [other]) == []) }
        #expect(try keep(17, .writer, for: [other]) == [14])
        versions.close(other)
        #expect(versions.isEmpty)
        #expect(versions.last(for: [one, other]) == nil)
    }

    @Test("contents that are preserved a second time replace their former version in the list (D213)")
    func contentsThatArePreservedAgainReplaceTheirFormerVersionInTheList() throws {
        var versions = SuspendedWriterVersions()
        let writer = HandleID(1)
        func keep(_ number: Int, insteadOf former: Int? = nil) throws -> [VersionID] {
            versions.insert(
                try Self.version(number), insteadOf: former.flatMap(Self.id), from: .writer, for: [writer])
        }
        #expect(try keep(0) == [] && keep(1, insteadOf: 0) == [])
        for number in 2..<5 { #expect(try keep(number) == []) }
        for number in 5..<8 { #expect(try keep(number, insteadOf: number - 1) == []) }
        // Version 7 is already the newest version in the list. To insert it a second time changes nothing.
        #expect(try keep(7) == [])
        #expect(versions.last(for: [writer])?.id == Self.id(7))
        #expect(try keep(8) == [Self.id(2)] && keep(9) == [Self.id(3)] && keep(10) == [Self.id(7)])
    }

    @Test("a version that a later step reuses becomes the newest in its lists (D213)")
    func aReusedVersionBecomesTheNewest() throws {
        var versions = SuspendedWriterVersions()
        let (writer, other) = (HandleID(1), HandleID(2))
        func leave(_ number: Int) throws -> [VersionID] {
            versions.insert(try Self.version(number), from: .others, for: [writer])
        }
        func renew(_ number: Int, _ origin: SuspendedWriterVersions.Origin, for writers: [HandleID]) throws
            -> [VersionID]
        {
            versions.renew(try #require(Self.id(number)), from: origin, for: writers)
        }
        for number in 0..<2 { #expect(try leave(number) == []) }
        // Version 0 becomes the newest version. So version 1 is the oldest, and is dropped when the list is full.
        #expect(try renew(0, .others, for: [writer]) == [] && leave(2) == [] && leave(3) == [Self.id(1)])
        // The suspended writer is preempted a second time, but has written nothing in between. So version 0 also becomes its
        // newest version.
        #expect(try renew(0, .writer, for: [writer]) == [] && leave(4) == [Self.id(2)])
        #expect(try leave(5) == [Self.id(3)] && leave(6) == [Self.id(0)])
        // Version 4 also has the contents that another suspended writer has written, so it is used for both writers.
        #expect(try renew(4, .writer, for: [writer, other]) == [] && leave(7) == [Self.id(5)])
        #expect(try leave(8) == [Self.id(6)] && leave(9) == [])
        // The list does not contain version 0 any more. So this renewal does not add it.
        #expect(try renew(0, .others, for: [writer]) == [] && leave(10) == [Self.id(7)])
    }

    private static func id(_ number: Int) -> VersionID? { VersionID("00000000000000" + String(10 + number)) }

    private static func version(_ number: Int) throws -> SuspendedWriterVersions.Version {
        SuspendedWriterVersions.Version(
            id: try #require(id(number)), path: [],
            rights: FileRights(user: 0, group: 0, mode: 0, accessControlList: nil))
    }
}
