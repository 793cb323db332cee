// SPDX-License-Identifier: Apache-2.0
import Coordination
import Testing

@testable import FilesystemServer

/// While an open waits, its document is replaced. Until the kernel has sent the open again, no program may remove the
/// document's name.
@Suite("Opens that the kernel will send again")
struct ExpectedRetriesTests {
    private final class Open: RetriableOpen {
        let claim: ClaimID
        let item: ItemID
        let thread: Int32

        init(_ claim: UInt64, of item: ItemID, by thread: Int32) {
            self.claim = ClaimID(claim)
            self.item = item
            self.thread = thread
        }
    }

    private let expectedRetries = ExpectedRetries<Open>()
    private let document = ItemID(1)
    private let other = ItemID(2)

    @Test(
        "The kernel is expected to repeat an open only while the open waits and will be answered with ESTALE")
    func theKernelIsExpectedToRepeatAnOpenOnlyWhileTheOpenWaits() {
        let open = Open(1, of: document, by: 100)
        expectedRetries.addWaiting(open)
        #expect(expectedRetries.isExpected(at: document) { _ in true })
        #expect(!expectedRetries.isExpected(at: document) { _ in false })
        #expect(!expectedRetries.isExpected(at: other) { _ in true })
        expectedRetries.removeWaiting(open)
        #expect(!expectedRetries.isExpected(at: document) { _ in true })
        expectedRetries.removeWaiting(open)
        #expect(!expectedRetries.isExpected(at: document) { _ in true })
    }

    @Test("An open that the kernel must send again is expected until it arrives or is given up")
    func anOpenThatTheKernelSendsAgainIsExpectedUntilItArrivesOrIsGivenUp() {
        let (open, late) = (Open(1, of: document, by: 100), Open(2, of: document, by: 101))
        expectedRetries.addWaiting(open)
        expectedRetries.expect(open)
        expectedRetries.removeWaiting(open)
        #expect(expectedRetries.isExpected(at: document) { _ in false })
        #expect(expectedRetries.take(by: 101) == nil)
        #expect(expectedRetries.take(by: 100) === open)
        #expect(!expectedRetries.isExpected(at: document) { _ in true })
        expectedRetries.expect(late)
        #expect(expectedRetries.remove(late))
        #expect(!expectedRetries.remove(late))
        #expect(expectedRetries.expectsNone)
    }

    @Test(
        "When a thread's first open ends, the kernel is still expected to send the thread's second open again"
    )
    func theRepetitionOfAThreadsSecondOpenIsStillExpectedAfterItsFirstOpenEnds() {
        let (former, latter) = (Open(1, of: document, by: 100), Open(2, of: document, by: 100))
        expectedRetries.addWaiting(former)
        expectedRetries.addWaiting(latter)
        expectedRetries.removeWaiting(former)
        #expect(expectedRetries.isExpected(at: document) { $0 === latter })
    }
}
