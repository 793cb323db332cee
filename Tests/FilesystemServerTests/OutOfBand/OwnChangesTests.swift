// SPDX-License-Identifier: Apache-2.0
import Coordination
import FilesystemServer
import FuseBridge
import LinuxSystem
import Testing

@Suite("Changes by the mount itself")
struct OwnChangesTests {
    private let own = OwnChanges(at: Self.at(0))
    private let file = NodeID(7)
    private let name = EntryName(Array("document".utf8), in: NodeID(2))

    /// Milliseconds after the start.
    private static func at(_ milliseconds: UInt64) -> Instant {
        Instant(nanoseconds: 1_000_000_000) + .milliseconds(milliseconds)
    }

    private static func look(size: UInt64, written: Int64, changed: Int64 = 1) -> Stamp {
        Stamp(
            size: size, modified: .init(seconds: written, nanoseconds: 0),
            changed: .init(seconds: changed, nanoseconds: 0))
    }

    @Test("A changed name is known for a second, or for a requested time, and no other name is")
    func ownNameChangeLastsOneSecond() {
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

    @Test("Nothing is forgotten before its second is over, whatever else is noted meanwhile")
    func nothingForgottenEarly() {
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

    @Test("Without further changes, all is forgotten within two checks")
    func allForgottenWhenQuiet() {
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

    @Test("An unfinished change explains any attributes of the file, for a second")
    func unfinishedChangeExplainsAll() {
        own.note(file, .contents, at: Self.at(0))
        #expect(own.changes(of: file).explain(Self.look(size: 1, written: 1), at: Self.at(1000)))
        #expect(own.changes(of: file).explain(nil, at: Self.at(1000)))
        #expect(!own.changes(of: file).explain(Self.look(size: 1, written: 1), at: Self.at(1001)))
        #expect(!own.changes(of: file).explain(nil, at: Self.at(1001)))
        #expect(!own.changes(of: NodeID(8)).explain(nil, at: Self.at(0)))
    }

    @Test("A finished change explains its own result, and nothing else")
    func finishedChangeExplainsItsResult() {
        let change = own.note(file, .contents, at: Self.at(0))
        own.finish(file, change: change, leaving: Self.look(size: 10, written: 5))
        #expect(own.changes(of: file).explain(Self.look(size: 10, written: 5), at: Self.at(900)))
        #expect(!own.changes(of: file).explain(Self.look(size: 11, written: 5), at: Self.at(900)))
        #expect(!own.changes(of: file).explain(Self.look(size: 10, written: 6), at: Self.at(900)))
        // A link or a rename changes this time, too.
        #expect(own.changes(of: file).explain(Self.look(size: 10, written: 5, changed: 9), at: Self.at(900)))
        #expect(own.changes(of: file).explain(nil, at: Self.at(900)))
    }

    @Test("The result of an earlier change explains nothing after another has begun")
    func laterChangeSupersedes() {
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

    @Test("The result of a change is recorded, however long others were noted before")
    func lateFinishIsRecorded() {
        let change = own.note(file, .contents, at: Self.at(900))
        own.note(name, at: Self.at(1100))
        own.finish(file, change: change, leaving: Self.look(size: 1, written: 1))
        #expect(!own.changes(of: file).explain(Self.look(size: 2, written: 1), at: Self.at(1200)))
        own.note(file, .attributes, at: Self.at(1300))
        #expect(own.changes(of: file).explain(Self.look(size: 1, written: 1), at: Self.at(1400)))
        #expect(!own.changes(of: file).explain(Self.look(size: 2, written: 1), at: Self.at(1400)))
    }

    @Test("An own change of attributes never hides an out-of-band change of contents")
    func ownAttributeChangeHidesNoChangeOfContents() {
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

    @Test("A snapshot explains changes that were unfinished then, though they are finished by now")
    func historyIsSnapshot() {
        let change = own.note(file, .contents, at: Self.at(0))
        let known = own.changes(of: file)
        own.finish(file, change: change, leaving: Self.look(size: 2, written: 2))
        #expect(known.explain(Self.look(size: 1, written: 1), at: Self.at(10)))
        #expect(!own.changes(of: file).explain(Self.look(size: 1, written: 1), at: Self.at(10)))
        #expect(known.latest == change && own.changes(of: file).latest == change)
    }
}
