// SPDX-License-Identifier: Apache-2.0
import Coordination
import FilesystemServer
import FuseBridge
import LinuxSystem
import Testing

@Suite("The record of changes that the mount made itself")
struct OwnChangesTests {
    private let own = OwnChanges(at: Self.at(0))
    private let file = NodeID(7)
    private let name = EntryName(Array("document".utf8), in: NodeID(2))

    /// Returns the instant that is the given number of milliseconds after the start.
    private static func at(_ milliseconds: UInt64) -> Instant {
        Instant(nanoseconds: 1_000_000_000) + .milliseconds(milliseconds)
    }

    private static func look(size: UInt64, written: Int64, changed: Int64 = 1) -> Stamp {
        Stamp(
            size: size, modified: .init(seconds: written, nanoseconds: 0),
            changed: .init(seconds: changed, nanoseconds: 0))
    }

    @Test("A name that the mount changed is in the record for one second, or for a shorter requested time")
    func aNameThatTheMountChangedIsRecordedForOneSecond() {
        own.note(name, at: Self.at(100))
        #expect(own.has(name, within: OwnChanges.period, at: Self.at(1100)))
        #expect(!own.has(name, within: OwnChanges.period, at: Self.at(1101)))
        #expect(own.has(name, within: OwnChanges.moment, at: Self.at(350)))
        #expect(!own.has(name, within: OwnChanges.moment, at: Self.at(351)))
        let other = EntryName(Array("document".utf8), in: NodeID(3))
        #expect(!own.has(other, within: OwnChanges.period, at: Self.at(100)))
        let similar = EntryName(Array("document2".utf8), in: NodeID(2))
        #expect(!own.has(similar, within: OwnChanges.period, at: Self.at(100)))
    }

    @Test("No change by the mount is forgotten within one second, whatever is recorded in the meantime")
    func noChangeByTheMountIsForgottenWithinOneSecond() {
        for moment in stride(from: UInt64(0), through: 5000, by: 250) {
            let noted = EntryName(Array("\(moment)".utf8), in: NodeID(2))
            let changed = NodeID(100 + moment)
            own.note(noted, at: Self.at(moment))
            own.note(changed, .contents, at: Self.at(moment))
            for later in stride(from: moment, through: moment + 1000, by: 100) {
                own.note(EntryName(Array("other".utf8), in: NodeID(2)), at: Self.at(later))
                #expect(own.has(noted, within: OwnChanges.period, at: Self.at(later)), "\(moment), \(later)")
                let look = Self.look(size: later, written: 1)
                #expect(own.changes(of: changed).explain(look, at: Self.at(later)), "\(moment), \(later)")
            }
        }
    }

    @Test("If the mount records no further change, all its changes are forgotten within two checks")
    func allChangesByTheMountAreForgottenAfterTwoChecksWithoutANewChange() {
        #expect(!own.forget(at: Self.at(0)))
        own.note(name, at: Self.at(500))
        #expect(own.forget(at: Self.at(1000)))
        #expect(own.forget(at: Self.at(1001)))
        #expect(own.has(name, within: OwnChanges.period, at: Self.at(1500)))
        #expect(!own.forget(at: Self.at(2002)))
        own.note(file, .contents, at: Self.at(2500))
        #expect(own.forget(at: Self.at(3003)))
        #expect(own.changes(of: file).explain(nil, at: Self.at(3500)))
        #expect(!own.forget(at: Self.at(4004)))
        #expect(own.changes(of: file).latest == 0)
    }

    @Test(
        "While a change by the mount is unfinished, any attributes of its file count as made by the mount, for one second"
    )
    func duringAChangeAllAttributesCountAsMadeByTheMount() {
        own.note(file, .contents, at: Self.at(0))
        #expect(own.changes(of: file).explain(Self.look(size: 1, written: 1), at: Self.at(1000)))
        #expect(own.changes(of: file).explain(nil, at: Self.at(1000)))
        #expect(!own.changes(of: file).explain(Self.look(size: 1, written: 1), at: Self.at(1001)))
        #expect(!own.changes(of: file).explain(nil, at: Self.at(1001)))
        #expect(!own.changes(of: NodeID(8)).explain(nil, at: Self.at(0)))
    }

    @Test(
        "After a change by the mount, only the size and time that the change left count as made by the mount"
    )
    func afterAChangeOnlyItsResultCountsAsMadeByTheMount() {
        let change = own.note(file, .contents, at: Self.at(0))
        own.finish(file, change: change, leaving: Self.look(size: 10, written: 5))
        #expect(own.changes(of: file).explain(Self.look(size: 10, written: 5), at: Self.at(900)))
        #expect(!own.changes(of: file).explain(Self.look(size: 11, written: 5), at: Self.at(900)))
        #expect(!own.changes(of: file).explain(Self.look(size: 10, written: 6), at: Self.at(900)))
        // A new link or a rename also changes the file's status-change time. So a different status-change time does not show
        // that the file was also changed out of band.
        #expect(own.changes(of: file).explain(Self.look(size: 10, written: 5, changed: 9), at: Self.at(900)))
        #expect(own.changes(of: file).explain(nil, at: Self.at(900)))
    }

    @Test(
        "After the mount begins a later change, the result of its earlier change no longer counts as made by the mount"
    )
    func aLaterChangeByTheMountReplacesTheResultOfItsEarlierChange() {
        let first = own.note(file, .contents, at: Self.at(0))
        let second = own.note(file, .contents, at: Self.at(10))
        own.finish(file, change: first, leaving: Self.look(size: 1, written: 1))
        #expect(own.changes(of: file).explain(Self.look(size: 2, written: 2), at: Self.at(20)))
        own.finish(file, change: second, leaving: Self.look(size: 2, written: 2))
        own.finish(file, change: first, leaving: Self.look(size: 1, written: 1))
        #expect(own.changes(of: file).explain(Self.look(size: 2, written: 2), at: Self.at(20)))
        #expect(!own.changes(of: file).explain(Self.look(size: 1, written: 1), at: Self.at(20)))
        own.note(file, .contents, at: Self.at(30))
        #expect(own.changes(of: file).explain(Self.look(size: 3, written: 3), at: Self.at(30)))
    }

    @Test("The result of a change is recorded, even if other changes were recorded since this change began")
    func theResultOfAChangeIsRecordedAfterOtherChanges() {
        let change = own.note(file, .contents, at: Self.at(900))
        own.note(name, at: Self.at(1100))
        own.finish(file, change: change, leaving: Self.look(size: 1, written: 1))
        #expect(!own.changes(of: file).explain(Self.look(size: 2, written: 1), at: Self.at(1200)))
        own.note(file, .attributes, at: Self.at(1300))
        #expect(own.changes(of: file).explain(Self.look(size: 1, written: 1), at: Self.at(1400)))
        #expect(!own.changes(of: file).explain(Self.look(size: 2, written: 1), at: Self.at(1400)))
    }

    @Test("A change of attributes by the mount does not hide an out-of-band change of contents")
    func anAttributeChangeByTheMountHidesNoOutOfBandChangeOfContents() {
        own.note(file, .attributes, at: Self.at(0))
        #expect(own.changes(of: file).explain(nil, at: Self.at(500)))
        #expect(!own.changes(of: file).explain(Self.look(size: 1, written: 1), at: Self.at(500)))
        #expect(own.changes(of: file).latest == 0)
        let change = own.note(file, .contents, at: Self.at(500))
        own.note(file, .attributes, at: Self.at(600))
        #expect(own.changes(of: file).latest == change)
        own.note(file, .contents, at: Self.at(700))
        #expect(own.changes(of: file).latest > change)
    }

    @Test("A snapshot of the record still treats a change as unfinished that finished after the snapshot")
    func aSnapshotStaysUnchangedByLaterResults() {
        let change = own.note(file, .contents, at: Self.at(0))
        let known = own.changes(of: file)
        own.finish(file, change: change, leaving: Self.look(size: 2, written: 2))
        #expect(known.explain(Self.look(size: 1, written: 1), at: Self.at(10)))
        #expect(!own.changes(of: file).explain(Self.look(size: 1, written: 1), at: Self.at(10)))
        #expect(known.latest == change && own.changes(of: file).latest == change)
    }
}
