// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import Testing

/// Checks the section "How long a guest can delay another user" of Limits.
struct DelayLedgerTests {
    private let ledger = DelayLedger(allowing: .seconds(60), besides: 1)
    private let account = DelayLedger.Account(of: 7, delaying: 8)
    private let start = Instant(nanoseconds: 0)

    private func charge(_ account: DelayLedger.Account, _ begin: UInt64, _ end: UInt64) {
        ledger.charge(account, from: start + .seconds(begin), to: start + .seconds(end))
    }

    @Test("a guest may delay another user for one minute in an hour, summed over all files")
    func aGuestMayDelayEachUserOneMinutePerHour() {
        for count: UInt64 in 0..<12 {
            #expect(!ledger.isSpent(account, at: start + .seconds(10 * count)))
            charge(account, 10 * count, 10 * count + 5)
        }
        let then = start + .seconds(120)
        #expect(ledger.isSpent(account, at: then))
        #expect(!ledger.isSpent(DelayLedger.Account(of: 7, delaying: 9), at: then))
        #expect(!ledger.isSpent(DelayLedger.Account(of: 9, delaying: 8), at: then))
        let last = TimeSpan(nanoseconds: DelayLedger.period.nanoseconds - 1)
        #expect(ledger.isSpent(account, at: start + last))
        #expect(!ledger.isSpent(account, at: start + DelayLedger.period))
        // One hour after the first delay, the count begins with 0. The allowance is 60 s, so a delay of 59 s does not use it
        // up.
        charge(account, 3600, 3659)
        #expect(!ledger.isSpent(account, at: start + .seconds(3660)))
    }

    @Test("delays at the same time count once, in whichever order they are charged")
    func delaysAtTheSameTimeCountOnce() {
        for _ in 0..<20 { charge(account, 0, 30) }
        charge(account, 10, 50)
        #expect(!ledger.isSpent(account, at: start + .seconds(50)))
        charge(account, 20, 59)
        #expect(!ledger.isSpent(account, at: start + .seconds(60)))
        charge(account, 100, 101)
        #expect(ledger.isSpent(account, at: start + .seconds(101)))
    }

    @Test(
        "all guests together may delay a user four times as long as a single guest"
    )
    func allGuestsTogetherMayDelayFourTimesAsLongAsOneGuest() {
        // Each guest has its own user number, and uses half of its allowance.
        for number in 0..<8 as Range<UInt64> {
            let other = DelayLedger.Account(of: UInt32(100 + number), delaying: 1)
            #expect(!ledger.isSpent(other, at: start + .seconds(30 * number)))
            charge(other, 30 * number, 30 * number + 30)
        }
        let then = start + .seconds(240)
        #expect(ledger.isSpent(DelayLedger.Account(of: 200, delaying: 1), at: then))
        #expect(!ledger.isSpent(DelayLedger.Account(of: 200, delaying: 0), at: then))
        #expect(ledger.sums(at: then).map(\.delayed) == [1] && ledger.sums(at: then).map(\.guest) == [nil])
        // Very many pairs of guests delay each other, and the ledger drops some of their entries. It never drops the sums for
        // the owner and for root.
        charge(DelayLedger.Account(of: 100, delaying: 0), 0, 240)
        for number in 0..<UInt32(2 * DelayLedger.most) {
            charge(DelayLedger.Account(of: 1000 + number, delaying: 5000 + number), 0, 300)
        }
        #expect(ledger.isSpent(DelayLedger.Account(of: 200, delaying: 1), at: then))
        #expect(ledger.isSpent(DelayLedger.Account(of: 200, delaying: 0), at: then))
    }

    @Test("only delays that a guest causes to another user are charged")
    func onlyAGuestsDelayOfAnotherUserIsCharged() {
        #expect(ledger.account(of: 7, delaying: 8) == account)
        #expect(ledger.account(of: 7, delaying: 1) != nil && ledger.account(of: 7, delaying: 0) != nil)
        #expect(ledger.account(of: 7, delaying: nil) != nil)
        for user: UInt32? in [0, 1, nil] { #expect(ledger.account(of: user, delaying: 8) == nil) }
        #expect(ledger.account(of: 7, delaying: 7) == nil)
        let unshared = DelayLedger(allowing: .seconds(60), besides: nil)
        #expect(unshared.account(of: 7, delaying: 8) == nil)
    }

    @Test(
        "above the limit of entries, the ledger forgets guests with little delay, but no guest with a used-up allowance"
    )
    func aUsedUpAllowanceIsNotForgottenAfterManySmallDelays() {
        charge(account, 0, 60)
        for number in 0..<UInt32(2 * DelayLedger.most) {
            let other = DelayLedger.Account(of: 100 + number, delaying: 8)
            ledger.charge(other, from: start, to: start + .milliseconds(1))
        }
        #expect(ledger.isSpent(account, at: start + .seconds(60)))
    }
}
