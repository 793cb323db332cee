// SPDX-License-Identifier: Apache-2.0
import Coordination
import Synchronization
import Testing

@testable import FilesystemServer
@testable import LinuxSystem

@Suite("The states of a handle")
struct HandleStateTests {
    private let late = ClaimID(7)
    private let later = ClaimID(8)

    @Test("a handle has at most one late claim, and is without a claim after it gave that up")
    func lateClaim() {
        var handle = HandleCoordination.uncoordinated
        #expect(handle.claimLate(late) == true)
        #expect(handle.claimLate(later) == false)
        #expect(handle.laterClaim == late && handle.hasClaim)
        #expect(handle.giveUpLateClaim() == late)
        #expect(!handle.hasClaim && !handle.isBystander)
        #expect(handle.giveUpLateClaim() == nil)
    }

    @Test("a bystander is one again after it gave up a later claim")
    func bystander() {
        var handle = HandleCoordination.uncoordinated
        #expect(handle.becomeBystander() == true)
        #expect(handle.becomeBystander() == false)
        #expect(handle.claimLate(late) == true)
        #expect(handle.hasClaim && !handle.isBystander)
        #expect(handle.becomeBystander() == false)
        #expect(handle.giveUpLateClaim() == late)
        #expect(handle.isBystander)
    }

    @Test("a renewed claim replaces the first, and the last")
    func renewedClaim() {
        var handle = HandleCoordination.claimed
        #expect(handle.hasClaim && !handle.isReclaimed)
        #expect(handle.becomeBystander() == false)
        handle.renew(as: late)
        handle.renew(as: later)
        #expect(handle.laterClaim == later)
    }

    @Test("the use of locks only rises, and is new once")
    func lockUse() {
        var use = LockUse.none
        #expect(use.rise(to: .observed) == true)
        #expect(use.rise(to: .expected) == false)
        #expect(use == .observed)
    }

    @Test("a request to write counts as a write after the position was observed")
    func observedPosition() {
        var writing = HandleWriting()
        writing.noteRequest()
        #expect(!writing.hasWritten)
        let first = Instant(nanoseconds: 1)
        #expect(writing.noteObserved(at: 5, now: first) == first)
        #expect(writing.noteObserved(at: 5, now: Instant(nanoseconds: 2)) == first)
        writing.noteRequest()
        #expect(writing.hasWritten)
    }

    @Test("a new name moves the baseline only if nothing was written")
    func baselineAfterNewName() {
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

    @Test("closes wait for the one that preserves contents, and begin anew after it")
    func waitingCloses() {
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

    @Test("three closes preserve contents, and only changed contents")
    func recordedCloses() {
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
