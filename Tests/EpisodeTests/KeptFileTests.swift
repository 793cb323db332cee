// SPDX-License-Identifier: Apache-2.0
import Coordination
import FuseBridge
import LinuxSystem
import Testing
import VersionStore

@testable import CoordinatedFilesystem

@Suite("Files that are kept by a link while programs write to them")
struct KeptFileTests {
    private let stamp = Stamp(
        size: 3, modified: FileStatus.Time(seconds: 5, nanoseconds: 6),
        changed: FileStatus.Time(seconds: 5, nanoseconds: 7))

    private func file(_ stamp: Stamp?, writers: Int = 1, mustStay: Bool = false) throws -> KeptFile {
        KeptFile(
            try #require(KeptID("0123456789abcdef")), as: stamp, writers: writers, mustStay: mustStay)
    }

    @Test("a file that looks as it did was not written to, but for one of which that is not known")
    func changed() throws {
        let later = Stamp(
            size: 3, modified: FileStatus.Time(seconds: 5, nanoseconds: 9), changed: stamp.changed)
        let renamed = Stamp(
            size: 3, modified: stamp.modified, changed: FileStatus.Time(seconds: 9, nanoseconds: 0))
        #expect(try !file(stamp).hasChanged(to: stamp))
        #expect(try !file(stamp).hasChanged(to: renamed))
        #expect(try file(stamp).hasChanged(to: later))
        // The clock of its file system may not tell a later change, or it cannot be looked at.
        #expect(try file(nil).hasChanged(to: stamp))
        #expect(try file(stamp).hasChanged(to: Stamp?.none))
        #expect(try file(nil).hasChanged(to: Stamp?.none))
    }

    @Test("a file is let go of only if none of its writers may have written to it")
    func needless() throws {
        for stamps in [[stamp, stamp], [nil, stamp], [stamp, nil]] {
            let kept = try file(stamps[0], writers: 2)
            _ = kept.left(byOneThat: kept.hasChanged(to: stamps[1]))
            let last = kept.left(byOneThat: kept.hasChanged(to: stamp))
            switch last {
            case .needless: #expect(stamps == [stamp, stamp])
            case .settled: #expect(stamps != [stamp, stamp])
            case .otherWriters: Issue.record("two writers have closed it")
            }
        }
    }

    @Test(
        "a stamp tells later changes if the file has not changed for as long as the clock may stand still",
        arguments: [(0, false), (9, false), (10, true), (11, true)])
    func settled(age: Int64, isKnown: Bool) {
        #expect((Keeper.settledStamp(stamp, age: age, grain: 10) != nil) == isKnown)
    }

    @Test("of each suspended writer the first version stays, and the last three")
    func beside() throws {
        var versions = BesideVersions()
        let (one, other) = (HandleID(1), HandleID(2))
        func keep(_ number: Int, for writers: [HandleID]) throws -> [Int] {
            let gone = versions.insert(try Self.version(number), for: writers)
            return try gone.map { id in try #require((0..<99).first { Self.id($0) == id }) }
        }
        for number in 0..<4 { #expect(try keep(number, for: [one]) == []) }
        #expect(try keep(4, for: [one]) == [1])
        // The other one's first.
        #expect(try keep(5, for: [one, other]) == [2])
        for number in 6..<9 { #expect(try keep(number, for: [one, other]) == [number - 3].filter { $0 != 5 }) }
        #expect(versions.last(for: [other])?.id == Self.id(8))
        // What was kept for the one that closes the file stays.
        versions.close(one)
        for number in 9..<12 { #expect(try keep(number, for: [other]) == []) }
        #expect(try keep(12, for: [other]) == [9])
        versions.close(other)
        #expect(versions.isEmpty)
        #expect(versions.last(for: [one, other]) == nil)
    }

    private static func id(_ number: Int) -> KeptID? { KeptID("00000000000000" + String(10 + number)) }

    private static func version(_ number: Int) throws -> BesideVersions.Version {
        BesideVersions.Version(
            id: try #require(id(number)), path: [],
            rights: FileRights(user: 0, group: 0, mode: 0, accessControlList: nil))
    }
}
