// SPDX-License-Identifier: Apache-2.0
import Coordination
import Testing

@testable import CoordinatedFilesystem

/// Opens whose document is replaced while they wait (design, section 4): while one is on its way back, nobody takes the name
/// away.
@Suite("Opens that are sent away")
struct ReturnsTests {
    private final class Open: AwaitedOpen {
        let claim: ClaimID
        let item: ItemID
        let thread: Int32

        init(_ claim: UInt64, of item: ItemID, by thread: Int32) {
            self.claim = ClaimID(claim)
            self.item = item
            self.thread = thread
        }
    }

    private let returns = Returns<Open>()
    private let document = ItemID(1)
    private let other = ItemID(2)

    @Test("One that waits is expected if it will be sent away, and no longer than it waits")
    func waiting() {
        let open = Open(1, of: document, by: 100)
        returns.waits(open)
        #expect(returns.isExpected(at: document) { _ in true })
        #expect(!returns.isExpected(at: document) { _ in false })
        #expect(!returns.isExpected(at: other) { _ in true })
        returns.ceases(open)
        #expect(!returns.isExpected(at: document) { _ in true })
        returns.ceases(open)
        #expect(!returns.isExpected(at: document) { _ in true })
    }

    @Test("One that was sent away is expected until it comes back or is given up")
    func away() {
        let (open, late) = (Open(1, of: document, by: 100), Open(2, of: document, by: 101))
        returns.waits(open)
        returns.expect(open)
        returns.ceases(open)
        #expect(returns.isExpected(at: document) { _ in false })
        #expect(returns.take(by: 101) == nil)
        #expect(returns.take(by: 100) === open)
        #expect(!returns.isExpected(at: document) { _ in true })
        returns.expect(late)
        #expect(returns.remove(late))
        #expect(!returns.remove(late))
        #expect(returns.isQuiet)
    }

    @Test("A thread that waits anew is another open, whenever the former one ceases")
    func again() {
        let (former, latter) = (Open(1, of: document, by: 100), Open(2, of: document, by: 100))
        returns.waits(former)
        returns.waits(latter)
        returns.ceases(former)
        #expect(returns.isExpected(at: document) { $0 === latter })
    }
}
