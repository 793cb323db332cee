// SPDX-License-Identifier: Apache-2.0
import Coordination
import FuseBridge
import Testing

@testable import FilesystemServer

/// If a look-up is answered late, the kernel sends it a second time. The tests check which look-ups the daemon recognizes as
/// such a retry.
@Suite("Look-ups of missing names that the kernel sends again")
struct RetryTableTests {
    private let retries = RetryTable()
    private let name = Array("document".utf8)
    private let directory = NodeID(7)
    private let thread: Int32 = 100
    private let now = Instant(nanoseconds: 1)

    private func beginRetry(isUnlinked: Bool = false) -> UInt64 {
        retries.begin(.lookup(name: name, isUnlinked: isUnlinked), in: directory, by: thread).serial
    }

    private func look(by thread: Int32 = 100, in directory: NodeID = NodeID(7))
        -> RetryTable.LookupRole
    {
        retries.classifyLookup(at: name, in: directory, by: caller(thread), at: now)
    }

    private func caller(_ thread: Int32 = 100, of user: UInt32 = 1000) -> Caller {
        Caller(user: user, group: user, thread: thread, umask: 0)
    }

    @Test(
        "A look-up without a GETATTR before it is no repeated request, whether or not its thread's wait is over",
        arguments: [true, false])
    func aLookupWithoutAGetattrIsNoRepeatedRequest(isSettled: Bool) {
        let serial = beginRetry()
        if isSettled { _ = retries.completeWait(serial, by: thread) }
        #expect(look() == .first)
        #expect(retries.isEmpty)
        #expect(!retries.takeRetryMark(thread, at: now))
    }

    @Test(
        "A thread's look-up after a GETATTR is the repeated request, and is not answered with ESTALE again"
    )
    func theLookupAfterAGetattrIsTheRepeatedRequest() {
        let serial = beginRetry()
        #expect(retries.awaitsGetattr(of: thread, about: directory))
        _ = retries.completeWait(serial, by: thread)
        #expect(look() == .retry)
        #expect(retries.isEmpty)
        #expect(retries.takeRetryMark(thread, at: now))
    }

    @Test(
        "After a thread's wait, a GETATTR is answered at once, and the next look-up is the repeated request")
    func aGetattrIsAnsweredAtOnceAfterItsThreadsWaitHasEnded() {
        _ = retries.completeWait(beginRetry(), by: thread)
        #expect(!retries.awaitsGetattr(of: thread, about: directory))
        #expect(look() == .retry)
    }

    @Test("Between the end of a wait for a name and its look-up, the name counts as about to be looked up")
    func afterAWaitForANameTheNameCountsAsAboutToBeLookedUp() {
        let serial = beginRetry()
        #expect(!retries.isLookupRetrying(to: name, in: directory))
        _ = retries.completeWait(serial, by: thread)
        #expect(retries.isLookupRetrying(to: name, in: directory))
        _ = look()
        #expect(!retries.isLookupRetrying(to: name, in: directory))
    }

    @Test("Look-ups in another directory, or by another thread, do not count as the repeated request")
    func lookupsInOtherDirectoriesOrThreadsAreNotTheRepeatedRequest() {
        _ = retries.completeWait(beginRetry(), by: thread)
        #expect(look(in: NodeID(8)) == .traversal)
        #expect(look(by: 101) == .first)
        #expect(retries.isLookupRetrying(to: name, in: directory))
    }

    /// For an open that may create the file, the kernel holds the directory's lock. If the name was missing, the kernel sends
    /// GETATTR while it holds this lock.
    @Test(
        "A GETATTR for an unlinked name counts as holding the directory's lock until its thread makes a look-up"
    )
    func aGetattrForAnUnlinkedNameCountsAsHoldingTheDirectorysLock() {
        _ = beginRetry(isUnlinked: true)
        #expect(retries[thread]?.mayHoldLock == true)
        #expect(look(in: NodeID(1)) == .traversal)
        #expect(retries[thread]?.mayHoldLock == false)
        _ = beginRetry()
        #expect(retries[thread]?.mayHoldLock == false)
    }

    @Test("A repeated look-up that arrives late is recorded once, and is not answered with ESTALE again")
    func aRepeatedLookupThatArrivesLateIsRecordedOnce() {
        let serial = beginRetry()
        #expect(retries.awaitsGetattr(of: thread, about: directory))
        _ = retries.completeWait(serial, by: thread)
        #expect(retries.noteLate(serial, by: thread))
        #expect(!retries.noteLate(serial, by: thread))
        #expect(!retries.isLookupRetrying(to: name, in: directory))
        #expect(!retries.mayRetry(thread, at: now))
        #expect(look() == .retry)
        #expect(retries.takeRetryMark(thread, at: now))
        #expect(retries.isEmpty)
    }

    @Test(
        "A late repeated look-up is forgotten when it is dropped, or when its thread opens a file",
        arguments: [true, false])
    func aLateRepeatedLookupIsForgottenWhenItsThreadOpensAFile(opens: Bool) {
        let serial = beginRetry()
        _ = retries.completeWait(serial, by: thread)
        #expect(retries.noteLate(serial, by: thread))
        if opens { retries.endLookup(by: thread) } else { #expect(retries.drop(serial, by: thread) != nil) }
        #expect(retries.isEmpty)
        #expect(look() == .first)
        #expect(!retries.noteLate(serial, by: thread))
    }

    @Test("For a second after a repeated look-up, the thread's look-ups count as a walk along its path")
    func lookupsAfterARepeatedLookupCountAsAWalkAlongItsPath() {
        retries.noteRetryRequest(caller(), at: now)
        #expect(look() == .traversal)
        #expect(look(by: 101) == .first)
        #expect(!retries.mayRetry(thread, at: now))
        #expect(retries.takeRetryMark(thread, at: now))
        #expect(look() == .first)
        #expect(retries.isEmptyForLookups)
        retries.noteRetryRequest(caller(), at: now)
        let later = now + .seconds(2)
        #expect(retries.classifyLookup(at: name, in: directory, by: caller(), at: later) == .first)
        #expect(!retries.takeRetryMark(thread, at: later))
        // A thread that has found no file sends its next request without delay. So the mark that the thread is about to retry
        // ends after a short time.
        retries.noteRetryRequest(caller(), at: now)
        retries.expectRetrySoon(by: thread, at: now)
        #expect(look() == .traversal)
        let soon = now + .milliseconds(500)
        #expect(retries.classifyLookup(at: name, in: directory, by: caller(), at: soon) == .first)
        // Once the thread's retry has reached the name, its next look-up of this name is no retry.
        retries.noteRetryArrival(of: caller(), at: now)
        #expect(look() == .first)
    }

    @Test(
        "After a GETATTR that was answered too early, the look-up is the repeated one, and no further GETATTR waits"
    )
    func theLookupAfterAGetattrAnsweredTooEarlyIsTheRepeatedRequest() {
        let serial = beginRetry(isUnlinked: true)
        #expect(retries.awaitsGetattr(of: thread, about: directory))
        _ = retries.release(serial, by: thread)
        #expect(!retries.awaitsGetattr(of: thread, about: directory))
        #expect(look() == .retry)
        #expect(retries.takeRetryMark(thread, at: now))
    }

    @Test(
        "If a repeated look-up finds no file, the next look-up of the name belongs to it, but no later one"
    )
    func theNextLookupBelongsToARepeatedLookupThatFoundNoFile() {
        let serial = beginRetry()
        #expect(retries.awaitsGetattr(of: thread, about: directory))
        _ = retries.completeWait(serial, by: thread)
        #expect(look() == .retry)
        retries.noteMissingName(at: name, in: directory, by: caller(), at: now)
        #expect(look(in: NodeID(8)) == .first)
        // The second look-up still counts as a part of the retry. If the third look-up also counted, no look-up would wait for
        // a pending save of the name any more.
        #expect(look() == .last)
        #expect(look() == .first)
        retries.noteMissingName(at: name, in: directory, by: caller(), at: now)
        let later = now + .seconds(1)
        #expect(retries.classifyLookup(at: name, in: directory, by: caller(), at: later) == .first)
    }

    /// The time is bounded, because an open or a new mark does not examine all marks. Examining all marks would take over a
    /// minute.
    @Test("An open or a look-up takes no longer while 20,000 threads repeat their requests")
    func repeatedRequestsOf20000ThreadsDoNotSlowOpensAndLookups() {
        let took = ContinuousClock().measure {
            for thread: Int32 in 1...20_000 {
                retries.noteRetryRequest(caller(thread, of: UInt32(thread) / 2000), at: now)
            }
            let known = (20_001...40_000).filter { (thread: Int32) in
                retries.takeRetryMark(thread, at: now) || retries.isRetrying(thread, at: now)
            }
            #expect(known.isEmpty)
        }
        #expect(took < .seconds(10))
        #expect(look(by: 19_999) == .traversal)
        // After two seconds, all marks of retrying threads have expired, and the table has dropped the marks.
        #expect(!retries.takeRetryMark(1, at: now + .seconds(2)))
        #expect(retries.isEmptyForLookups)
    }

    @Test("For each user, only a limited number of retrying threads is remembered")
    func aLimitedNumberOfRetryingThreadsIsRememberedForEachUser() {
        let most = Int32(RetryMarks.mostOfUser)
        for thread in 1...most + 10 { retries.noteRetryRequest(caller(thread), at: now) }
        #expect(retries.isRetrying(most, at: now))
        #expect(!retries.isRetrying(most + 1, at: now))
        retries.noteRetryRequest(caller(most + 1, of: 1001), at: now)
        #expect(retries.isRetrying(most + 1, at: now))
        // If a thread gets a second mark, the second replaces the first. If a mark is taken, another thread's mark fits into
        // the table.
        let later = now + .milliseconds(500)
        retries.noteRetryRequest(caller(1), at: later)
        #expect(retries.isRetrying(1, at: now + .milliseconds(1400)))
        #expect(retries.takeRetryMark(2, at: later))
        retries.noteRetryRequest(caller(most + 2), at: later)
        #expect(retries.isRetrying(most + 2, at: later))
        retries.noteRetryRequest(caller(most + 3), at: later)
        #expect(!retries.isRetrying(most + 3, at: later))
        // After one second, the first marks have ended, and the table has room for this thread.
        retries.noteRetryRequest(caller(most + 3), at: now + .seconds(1))
        #expect(retries.isRetrying(most + 3, at: now + .seconds(1)))
    }

    @Test("A thread that opens a file no longer counts as repeating a look-up")
    func aThreadThatOpensAFileNoLongerCountsAsRepeatingALookup() {
        _ = retries.completeWait(beginRetry(), by: thread)
        retries.endLookup(by: thread)
        #expect(retries.isEmpty)
        #expect(!retries.isLookupRetrying(to: name, in: directory))
    }
}
