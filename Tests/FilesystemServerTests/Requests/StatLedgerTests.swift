// SPDX-License-Identifier: Apache-2.0
import Coordination
import FilesystemServer
import Testing

/// Checks the record of programs that ask for the attributes of documents with unsaved changes, by stat(2).
@Suite struct StatLedgerTests {
    private static let item = ItemID(1)
    private static let process = ProcessID(number: 100, started: 1)

    private static func at(_ milliseconds: UInt64) -> Instant {
        Instant(nanoseconds: milliseconds * 1_000_000)
    }

    @Test("all threads of a process together wait in stat calls for at most 1 s in any 2 s")
    func aProcessWaitsInStatAtMostOneOfAnyTwoSeconds() {
        var waits = StatWaits()
        #expect(waits.begin(at: Self.at(0)) == Self.at(1000))
        // A second thread of the process begins to wait. The second thread's wait ends together with the first thread's wait.
        #expect(waits.begin(at: Self.at(400)) == Self.at(1000))
        waits.end(at: Self.at(500))
        waits.end(at: Self.at(600))
        #expect(waits.begin(at: Self.at(700)) == Self.at(1100))
        waits.end(at: Self.at(1100))
        #expect(waits.begin(at: Self.at(1200)) == nil)
        #expect(waits.begin(at: Self.at(2599)) == nil)
        // Of the two seconds before 2600 ms, the process has waited less than one second. So the process may wait once more.
        #expect(waits.begin(at: Self.at(2600)) == Self.at(3200))
        #expect(waits.begin(at: Self.at(3300)) == nil)
        waits.end(at: Self.at(3200))
        #expect(!waits.isOver(at: Self.at(5199)))
        #expect(waits.isOver(at: Self.at(5200)))
    }

    @Test("with waits of any length, stat calls of a process wait for at most 1 s in any 2 s")
    func statWaitsOfAnyLengthLastAtMostOneOfAnyTwoSeconds() {
        for length: UInt64 in [1, 7, 90, 1000] {
            var waits = StatWaits()
            var waiting = [Bool](repeating: false, count: 20_000)
            var now: UInt64 = 0
            while now < 19_000 {
                guard let until = waits.begin(at: Self.at(now)) else {
                    now += 1
                    continue
                }
                let end = min(now + length, until.nanoseconds / 1_000_000)
                for moment in now..<end { waiting[Int(moment)] = true }
                waits.end(at: Self.at(end))
                now = end + 1
            }
            for start in stride(from: 0, to: 17_000, by: 50) {
                #expect(waiting[start..<(start + 2000)].count { $0 } <= 1000, "\(length) ms from \(start)")
            }
        }
    }

    @Test(
        "a command that a session repeats causes a save of a document once in 30 s, unless the session opened the document"
    )
    func aRepeatedCommandAsksAPresenterRarely() {
        let ledger = StatLedger(askAgain: .seconds(30))
        let command = StatLedger.Command(1, of: 7)
        #expect(ledger.isEmpty)
        #expect(ledger.mayAsk(command, for: Self.item, at: Self.at(0)))
        ledger.noteAsked(command, for: Self.item, at: Self.at(0))
        #expect(!ledger.isEmpty)
        #expect(!ledger.mayAsk(command, for: Self.item, at: Self.at(29_999)))
        #expect(ledger.mayAsk(command, for: Self.item, at: Self.at(30_000)))
        #expect(ledger.mayAsk(StatLedger.Command(2, of: 7), for: Self.item, at: Self.at(1)))
        #expect(ledger.mayAsk(StatLedger.Command(1, of: 8), for: Self.item, at: Self.at(1)))
        #expect(ledger.mayAsk(command, for: ItemID(2), at: Self.at(1)))
        ledger.noteOpened(Self.item, by: 8)
        #expect(!ledger.mayAsk(command, for: Self.item, at: Self.at(1)))
        ledger.noteOpened(Self.item, by: 7)
        #expect(ledger.mayAsk(command, for: Self.item, at: Self.at(1)))
        // Session 0 stands for an unknown session. Two commands of unknown sessions never count as commands of the same
        // session.
        let nobodys = StatLedger.Command(1, of: 0)
        ledger.noteAsked(nobodys, for: Self.item, at: Self.at(0))
        #expect(ledger.mayAsk(nobodys, for: Self.item, at: Self.at(1)))
        let always = StatLedger(askAgain: .zero)
        always.noteAsked(command, for: Self.item, at: Self.at(0))
        #expect(always.mayAsk(command, for: Self.item, at: Self.at(0)))
    }

    @Test("after a program got a document's old size from stat, it reads the old contents for 2 s")
    func aProgramThatGotTheOldSizeReadsOldContents() {
        let ledger = StatLedger(askAgain: .seconds(30))
        ledger.noteTold(Self.process, of: Self.item, at: Self.at(0))
        #expect(ledger.wasTold(Self.process, of: Self.item, at: Self.at(1999)))
        #expect(!ledger.wasTold(Self.process, of: Self.item, at: Self.at(2000)))
        #expect(!ledger.wasTold(ProcessID(number: 100, started: 2), of: Self.item, at: Self.at(1)))
        ledger.forgetTold(Self.process, of: Self.item)
        #expect(!ledger.wasTold(Self.process, of: Self.item, at: Self.at(1)))
    }

    @Test(
        "a save that a process's stat caused is remembered until the process reads the document, for up to 60 s"
    )
    func aSaveThatAProcessCausedIsRememberedUntilTheProcessReads() {
        let ledger = StatLedger(askAgain: .seconds(30))
        let child = ProcessID(number: 101, started: 2)
        ledger.noteSaved(Self.item, for: Self.process, at: Self.at(0))
        #expect(ledger.wasSaved(Self.item, for: [child, Self.process], at: Self.at(59_999)))
        #expect(!ledger.wasSaved(Self.item, for: [child], at: Self.at(1)))
        #expect(!ledger.wasSaved(Self.item, for: [Self.process], at: Self.at(60_000)))
        #expect(!ledger.wasSaved(ItemID(2), for: [Self.process], at: Self.at(1)))
        ledger.forgetSaved(Self.item, for: Self.process)
        #expect(!ledger.wasSaved(Self.item, for: [Self.process], at: Self.at(1)))
    }

    @Test("a timer is requested that removes expired records of stat calls")
    func aTimerRemovesExpiredRecordsOfStatCalls() throws {
        let ledger = StatLedger(askAgain: .seconds(30))
        #expect(ledger.nextTidying(after: Self.at(0)) == nil)
        ledger.noteAsked(StatLedger.Command(1, of: 7), for: Self.item, at: Self.at(0))
        ledger.noteTold(Self.process, of: Self.item, at: Self.at(0))
        #expect(ledger.nextTidying(after: Self.at(0)) == Self.at(60_000))
        #expect(ledger.nextTidying(after: Self.at(0)) == nil)
        ledger.tidy(at: Self.at(29_999))
        #expect(!ledger.isEmpty)
        #expect(ledger.nextTidying(after: Self.at(29_999)) != nil)
        ledger.tidy(at: Self.at(60_000))
        #expect(ledger.isEmpty)
    }

    @Test("above the limit of documents, the ledger of stat calls forgets all its entries")
    func aboveTheLimitOfDocumentsTheStatLedgerForgetsAllItsEntries() {
        let ledger = StatLedger(askAgain: .seconds(30))
        for number in 1...4097 as ClosedRange<UInt64> {
            ledger.noteAsked(StatLedger.Command(1, of: 7), for: ItemID(number), at: Self.at(0))
        }
        #expect(ledger.isEmpty)
    }
}
