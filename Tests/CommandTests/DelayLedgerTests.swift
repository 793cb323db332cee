// SPDX-License-Identifier: Apache-2.0
import ControlServer
import Coordination
import Testing

/// Protocol.md, Guests: answers about one item may take others a minute in an hour.
struct DelayLedgerTests {
    private let ledger = DelayLedger()
    private let account = DelayLedger.Account(user: 7, item: ItemID(1))
    private let start = Instant(nanoseconds: 0)

    @Test("a minute is spent by answers of any length, for one user and one item, until the hour is over")
    func spending() {
        for count in 0..<12 {
            #expect(!ledger.isSpent(account, at: start + .seconds(UInt64(count))))
            ledger.charge(account, .seconds(5), at: start + .seconds(UInt64(count)))
        }
        #expect(ledger.isSpent(account, at: start + .seconds(12)))
        #expect(!ledger.isSpent(DelayLedger.Account(user: 8, item: ItemID(1)), at: start + .seconds(12)))
        #expect(!ledger.isSpent(DelayLedger.Account(user: 7, item: ItemID(2)), at: start + .seconds(12)))
        let last = Span(nanoseconds: DelayLedger.period.nanoseconds - 1)
        #expect(ledger.isSpent(account, at: start + last))
        #expect(!ledger.isSpent(account, at: start + DelayLedger.period))
        // The next hour begins with nothing.
        ledger.charge(account, .seconds(59), at: start + DelayLedger.period)
        #expect(!ledger.isSpent(account, at: start + DelayLedger.period))
    }

    @Test("what an answer was given and did not take is given back, and never more")
    func refunding() {
        ledger.charge(account, DelayLedger.allowance, at: start)
        #expect(ledger.isSpent(account, at: start))
        ledger.refund(account, .seconds(1))
        #expect(!ledger.isSpent(account, at: start))
        ledger.refund(account, .seconds(3600))
        ledger.charge(account, .seconds(59), at: start)
        #expect(!ledger.isSpent(account, at: start))
        ledger.charge(account, .seconds(1), at: start)
        #expect(ledger.isSpent(account, at: start))
        // There is nothing to give back of what nobody was charged for.
        ledger.refund(DelayLedger.Account(user: 9, item: ItemID(9)), .seconds(1))
        #expect(!ledger.isSpent(DelayLedger.Account(user: 9, item: ItemID(9)), at: start))
    }

    @Test(
        "a user with very many items makes its own small accounts forgotten, not the large ones, nor another's"
    )
    func room() {
        let other = DelayLedger.Account(user: 8, item: ItemID(1))
        ledger.charge(other, DelayLedger.allowance, at: start)
        ledger.charge(account, DelayLedger.allowance, at: start)
        for number in 0..<(2 * DelayLedger.most) {
            ledger.charge(
                DelayLedger.Account(user: 7, item: ItemID(UInt64(number + 2))), .milliseconds(1), at: start)
        }
        #expect(ledger.isSpent(account, at: start))
        #expect(ledger.isSpent(other, at: start))
    }

    @Test("an item that is forgotten among many others goes on with what was spent")
    func forgotten() {
        var delays = 0
        for round in 0..<20 {
            if !ledger.isSpent(account, at: start) {
                delays += 1
                ledger.charge(account, .seconds(30), at: start)
            }
            // Each is charged more, and gets it back once the item of before is forgotten.
            let others = (0..<DelayLedger.most).map {
                DelayLedger.Account(user: 7, item: ItemID(UInt64(2 + round * DelayLedger.most + $0)))
            }
            for other in others { ledger.charge(other, .seconds(31), at: start) }
            for other in others { ledger.refund(other, .seconds(31)) }
        }
        #expect(delays <= 2)
        let later = start + DelayLedger.period + DelayLedger.period
        #expect(!ledger.isSpent(account, at: later))
    }

    @Test("a user of very many items, about each of which it answers at once, is asked about all of them")
    func many() {
        for number in 0..<(20 * DelayLedger.most) {
            let account = DelayLedger.Account(user: 7, item: ItemID(UInt64(number)))
            #expect(!ledger.isSpent(account, at: start))
            ledger.charge(account, .seconds(15), at: start)
            ledger.refund(account, .milliseconds(14_999))
        }
    }
}
