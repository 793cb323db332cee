// SPDX-License-Identifier: Apache-2.0
import Coordination
import Synchronization
import Testing

@testable import FilesystemServer
@testable import LinuxSystem

@Suite("States of a handle")
struct HandleStateTests {
    private let late = ClaimID(7)
    private let later = ClaimID(8)

    @Test(
        "a handle that was opened without a claim gets at most one claim later, and none after that claim ended"
    )
    func aHandleOpenedWithoutAClaimGetsAtMostOneClaimLater() {
        var handle = HandleCoordination.uncoordinated
        #expect(handle.claimLate(late) == true)
        #expect(handle.claimLate(later) == false)
        #expect(handle.laterClaim == late && handle.hasClaim)
        #expect(handle.giveUpLateClaim() == late)
        #expect(!handle.hasClaim && !handle.isBystander)
        #expect(handle.giveUpLateClaim() == nil)
    }

    @Test(
        "a handle from before its file became a document may get a claim later, and has none after the end of that claim"
    )
    func aHandleFromBeforeItsFileWasADocumentMayGetAClaimLater() {
        var handle = HandleCoordination.uncoordinated
        #expect(handle.becomeBystander() == true)
        #expect(handle.becomeBystander() == false)
        #expect(handle.claimLate(late) == true)
        #expect(handle.hasClaim && !handle.isBystander)
        #expect(handle.becomeBystander() == false)
        #expect(handle.giveUpLateClaim() == late)
        #expect(handle.isBystander)
    }

    @Test("a renewed claim of a handle replaces the former claim each time")
    func aRenewedClaimReplacesTheFormer() {
        var handle = HandleCoordination.claimed
        #expect(handle.hasClaim && !handle.isReclaimed)
        #expect(handle.becomeBystander() == false)
        handle.renew(as: late)
        handle.renew(as: later)
        #expect(handle.laterClaim == later)
    }

    @Test("the recorded use of locks of a handle never decreases, and each rise is reported once")
    func aHandlesUseOfLocksNeverDecreases() {
        var use = LockUse.none
        #expect(use.rise(to: .observed) == true)
        #expect(use.rise(to: .expected) == false)
        #expect(use == .observed)
    }

    @Test("a write request counts as a write only after the handle's position was observed")
    func aWriteCountsOnlyAfterThePositionWasObserved() {
        var writing = HandleWriting()
        writing.noteRequest()
        #expect(!writing.hasWritten)
        let first = Instant(nanoseconds: 1)
        #expect(writing.noteObserved(at: 5, now: first) == first)
        #expect(writing.noteObserved(at: 5, now: Instant(nanoseconds: 2)) == first)
        writing.noteRequest()
        #expect(writing.hasWritten)
    }

    @Test("a rename changes a handle's baseline only if the handle has not written")
    func aRenameChangesTheBaselineOfAHandleWithoutWrites() {
        let time = { FileStatus.Time(seconds: $0, nanoseconds: 0) }
        let stamp = { Stamp(size: 1, modified: time(1), changed: time($0)) }
        var writing = HandleWriting()
        writing.baseline = Baseline(stamp: stamp(1), isRacy: true)
        writing.noteNameChange(stamp(2))
        #expect(writing.baseline?.stamp == stamp(2) && writing.baseline?.isRacy == true)
        writing.markWritten()
        writing.noteNameChange(stamp(3))
        #expect(writing.baseline?.stamp == stamp(2))
    }

    @Test("while one close preserves a file's contents, other closes wait, and are tried again afterwards")
    func laterClosesWaitForTheCloseThatPreservesContents() {
        var closes = ClosePreservation()
        let isAgain = Atomic(false)
        let isFirst = closes.begin {}
        #expect(isFirst)
        let isSecond = closes.begin { isAgain.store(true, ordering: .relaxed) }
        #expect(!isSecond)
        for closer in closes.end() { closer() }
        let hasBegunAnew = isAgain.load(ordering: .relaxed)
        #expect(hasBegunAnew)
        #expect(closes.end().isEmpty == true)
        let isNext = closes.begin {}
        #expect(isNext)
    }

    @Test("at most three closes of a handle preserve contents, and only contents that have changed")
    func threeClosesWithNewContentsArePreserved() {
        let time = { FileStatus.Time(seconds: $0, nanoseconds: 0) }
        let stamp = { Stamp(size: 1, modified: time($0), changed: time($0)) }
        var closes = ClosePreservation()
        #expect(!closes.isComplete)
        #expect(closes.recordClose(stamp(1), isSure: true, hasWritten: true) == true)
        #expect(closes.recordClose(stamp(1), isSure: true, hasWritten: true) == false)
        #expect(closes.recordClose(stamp(2), isSure: true, hasWritten: true) == true)
        #expect(closes.recordClose(stamp(3), isSure: true, hasWritten: true) == true)
        #expect(closes.isComplete)
        #expect(closes.recordClose(stamp(4), isSure: true, hasWritten: true) == false)
        #expect(!closes.isComplete)
    }
}
