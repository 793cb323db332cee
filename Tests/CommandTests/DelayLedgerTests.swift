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
}
