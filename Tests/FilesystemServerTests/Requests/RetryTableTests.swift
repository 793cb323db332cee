// SPDX-License-Identifier: Apache-2.0
import Coordination
import FuseBridge
import Testing

@testable import FilesystemServer

/// The classification of look-ups after a retry.
@Suite("Retries of look-ups of missing names")
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
        "A look-up without an attribute request is no retry, whether or not the wait is over",
        arguments: [true, false])
    func lookupWithoutQuestionIsNoRetry(isSettled: Bool) {
        let serial = beginRetry()
        if isSettled { _ = retries.completeWait(serial, by: thread) }
        #expect(look() == .first)
        #expect(retries.isEmpty)
        #expect(!retries.takeRetryMark(thread, at: now))
    }

    @Test("After the attribute request the look-up is the retry, and the kernel does not retry again")
    func lookupAfterQuestionIsRetry() {
        let serial = beginRetry()
        #expect(retries.awaitsGetattr(of: thread, about: directory))
        _ = retries.completeWait(serial, by: thread)
        #expect(look() == .retry)
        #expect(retries.isEmpty)
        #expect(retries.takeRetryMark(thread, at: now))
    }

    @Test("An attribute request after the end of the wait is not held, and counts")
    func lateQuestionIsNotHeld() {
        _ = retries.completeWait(beginRetry(), by: thread)
        #expect(!retries.awaitsGetattr(of: thread, about: directory))
        #expect(look() == .retry)
    }

    @Test("The name is not removed between the end of the wait and the look-up")
    func nameStaysUntilRetry() {
        let serial = beginRetry()
        #expect(!retries.isLookupRetrying(to: name, in: directory))
        _ = retries.completeWait(serial, by: thread)
        #expect(retries.isLookupRetrying(to: name, in: directory))
        _ = look()
        #expect(!retries.isLookupRetrying(to: name, in: directory))
    }

    @Test("A look-up of the same name elsewhere is on the way, and that of another thread does not count")
    func otherThreadsAndDirectories() {
        _ = retries.completeWait(beginRetry(), by: thread)
        #expect(look(in: NodeID(8)) == .traversal)
        #expect(look(by: 101) == .first)
        #expect(retries.isLookupRetrying(to: name, in: directory))
    }

    /// An open that may create the file asks for attributes under the directory's lock if its look-up came without.
    @Test(
        "An attribute request for an unlinked name may hold the directory's lock, unless its path is walked again"
    )
    func questionMayHoldDirectoryLock() {
        _ = beginRetry(isUnlinked: true)
        #expect(retries[thread]?.mayHoldLock == true)
        #expect(look(in: NodeID(1)) == .traversal)
        #expect(retries[thread]?.mayHoldLock == false)
        _ = beginRetry()
        #expect(retries[thread]?.mayHoldLock == false)
    }

    @Test("A late retry finds no waiter, and does not retry again")
    func lateRetryIsNotSentAgain() {
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
        "A late retry is forgotten when it is dropped, and when its thread opens a file",
        arguments: [true, false])
    func lateRetryIsForgotten(opens: Bool) {
        let serial = beginRetry()
        _ = retries.completeWait(serial, by: thread)
        #expect(retries.noteLate(serial, by: thread))
        if opens { retries.endLookup(by: thread) } else { #expect(retries.drop(serial, by: thread) != nil) }
        #expect(retries.isEmpty)
        #expect(look() == .first)
        #expect(!retries.noteLate(serial, by: thread))
    }

    @Test("A thread that walks its path again after a retry is on its way to another name, and not for long")
    func pathWalkAfterRetry() {
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
        // A thread that has found no file makes its request at once.
        retries.noteRetryRequest(caller(), at: now)
        retries.expectRetrySoon(by: thread, at: now)
        #expect(look() == .traversal)
        let soon = now + .milliseconds(500)
        #expect(retries.classifyLookup(at: name, in: directory, by: caller(), at: soon) == .first)
        // A thread that has returned to a name waits there like any other thread.
        retries.noteRetryArrival(of: caller(), at: now)
        #expect(look() == .first)
    }

    @Test(
        "After an attribute request that was answered too early the look-up is the retry, and no other request is held"
    )
    func earlyAnswerStillCountsAsRetry() {
        let serial = beginRetry(isUnlinked: true)
        #expect(retries.awaitsGetattr(of: thread, about: directory))
        _ = retries.release(serial, by: thread)
        #expect(!retries.awaitsGetattr(of: thread, about: directory))
        #expect(look() == .retry)
        #expect(retries.takeRetryMark(thread, at: now))
    }

    @Test(
        "If a retry finds no file, the look-up after it is a part of the retry, and the next look-up is a new one"
    )
    func lookupAfterEmptyRetry() {
        let serial = beginRetry()
        #expect(retries.awaitsGetattr(of: thread, about: directory))
        _ = retries.completeWait(serial, by: thread)
        #expect(look() == .retry)
        retries.noteMissingName(at: name, in: directory, by: caller(), at: now)
        #expect(look(in: NodeID(8)) == .first)
        // If this were a retry as well, each later look-up would be a retry, and find the name missing during the save.
        #expect(look() == .last)
        #expect(look() == .first)
        retries.noteMissingName(at: name, in: directory, by: caller(), at: now)
        let later = now + .seconds(1)
        #expect(retries.classifyLookup(at: name, in: directory, by: caller(), at: later) == .first)
    }

    /// If each open and each new mark examined all marks, this would take more than a minute.
    @Test("An open and a look-up cost the same beside 20,000 threads that retry")
    func retryMarksScaleTo20000Threads() {
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
        // They all go when their time is over.
        #expect(!retries.takeRetryMark(1, at: now + .seconds(2)))
        #expect(retries.isEmptyForLookups)
    }

    @Test("The marks of a user are limited, and those of others are separate")
    func retryMarksPerUserAreBounded() {
        let most = Int32(RetryMarks.mostOfUser)
        for thread in 1...most + 10 { retries.noteRetryRequest(caller(thread), at: now) }
        #expect(retries.isRetrying(most, at: now))
        #expect(!retries.isRetrying(most + 1, at: now))
        retries.noteRetryRequest(caller(most + 1, of: 1001), at: now)
        #expect(retries.isRetrying(most + 1, at: now))
        // A second mark of a thread renews the first, and a mark that is taken makes room for another.
        let later = now + .milliseconds(500)
        retries.noteRetryRequest(caller(1), at: later)
        #expect(retries.isRetrying(1, at: now + .milliseconds(1400)))
        #expect(retries.takeRetryMark(2, at: later))
        retries.noteRetryRequest(caller(most + 2), at: later)
        #expect(retries.isRetrying(most + 2, at: later))
        retries.noteRetryRequest(caller(most + 3), at: later)
        #expect(!retries.isRetrying(most + 3, at: later))
        // The time of the first is over.
        retries.noteRetryRequest(caller(most + 3), at: now + .seconds(1))
        #expect(retries.isRetrying(most + 3, at: now + .seconds(1)))
    }

    @Test("A thread that opens a file does not return to a look-up")
    func openEndsLookup() {
        _ = retries.completeWait(beginRetry(), by: thread)
        retries.endLookup(by: thread)
        #expect(retries.isEmpty)
        #expect(!retries.isLookupRetrying(to: name, in: directory))
    }
}
