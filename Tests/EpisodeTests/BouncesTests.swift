// SPDX-License-Identifier: Apache-2.0
import Coordination
import FuseBridge
import Testing

@testable import CoordinatedFilesystem

/// What a look at a name comes to whose thread was sent back (design, section 4).
@Suite("Looks at missing names that were sent back")
struct BouncesTests {
    private let bounces = Bounces()
    private let name = Array("document".utf8)
    private let directory = NodeID(7)
    private let thread: Int32 = 100
    private let now = Instant(nanoseconds: 1)

    private func sendBack(isUnlinked: Bool = false) -> UInt64 {
        bounces.begin(.lookup(name: name, isUnlinked: isUnlinked), in: directory, by: thread).serial
    }

    private func look(by thread: Int32 = 100, in directory: NodeID = NodeID(7)) -> Bounces.Look {
        bounces.look(at: name, in: directory, by: caller(thread), at: now)
    }

    private func caller(_ thread: Int32 = 100, of user: UInt32 = 1000) -> Caller {
        Caller(user: user, group: user, thread: thread, umask: 0)
    }

    @Test(
        "A look that comes without a question is no retry, whether or not the wait is over",
        arguments: [true, false])
    func unasked(isSettled: Bool) {
        let serial = sendBack()
        if isSettled { _ = bounces.settle(serial, by: thread) }
        #expect(look() == .first)
        #expect(bounces.isQuiet)
        #expect(!bounces.hasReturned(thread, at: now))
    }

    @Test("After the question the look is the retry, and the kernel does not come again")
    func asked() {
        let serial = sendBack()
        #expect(bounces.awaitsQuestion(of: thread, about: directory))
        _ = bounces.settle(serial, by: thread)
        #expect(look() == .retry)
        #expect(bounces.isQuiet)
        #expect(bounces.hasReturned(thread, at: now))
    }

    @Test("A question that comes when the wait is over is not held, and counts")
    func askedLate() {
        _ = bounces.settle(sendBack(), by: thread)
        #expect(!bounces.awaitsQuestion(of: thread, about: directory))
        #expect(look() == .retry)
    }

    @Test("The name is not taken away between the end of the wait and the look")
    func returning() {
        let serial = sendBack()
        #expect(!bounces.isLookupReturning(to: name, in: directory))
        _ = bounces.settle(serial, by: thread)
        #expect(bounces.isLookupReturning(to: name, in: directory))
        _ = look()
        #expect(!bounces.isLookupReturning(to: name, in: directory))
    }

    @Test("A look at the same name elsewhere is on the way, and one by another thread is nothing")
    func others() {
        _ = bounces.settle(sendBack(), by: thread)
        #expect(look(in: NodeID(8)) == .passing)
        #expect(look(by: 101) == .first)
        #expect(bounces.isLookupReturning(to: name, in: directory))
    }

    /// An open that may create the file asks under the directory's lock if its look came without.
    @Test("A question about an unlinked name may hold the directory's lock, unless its path is walked again")
    func holding() {
        _ = sendBack(isUnlinked: true)
        #expect(bounces[thread]?.mayHoldLock == true)
        #expect(look(in: NodeID(1)) == .passing)
        #expect(bounces[thread]?.mayHoldLock == false)
        _ = sendBack()
        #expect(bounces[thread]?.mayHoldLock == false)
    }

    @Test("Who comes late finds nobody waiting for it, and is not sent back again")
    func late() {
        let serial = sendBack()
        #expect(bounces.awaitsQuestion(of: thread, about: directory))
        _ = bounces.settle(serial, by: thread)
        #expect(bounces.noteLate(serial, by: thread))
        #expect(!bounces.noteLate(serial, by: thread))
        #expect(!bounces.isLookupReturning(to: name, in: directory))
        #expect(!bounces.mayReturn(thread, at: now))
        #expect(look() == .retry)
        #expect(bounces.hasReturned(thread, at: now))
        #expect(bounces.isQuiet)
    }

    @Test(
        "What is late is forgotten when it is dropped, and when its thread opens something",
        arguments: [true, false])
    func forgotten(opens: Bool) {
        let serial = sendBack()
        _ = bounces.settle(serial, by: thread)
        #expect(bounces.noteLate(serial, by: thread))
        if opens { bounces.endLook(by: thread) } else { #expect(bounces.drop(serial, by: thread) != nil) }
        #expect(bounces.isQuiet)
        #expect(look() == .first)
        #expect(!bounces.noteLate(serial, by: thread))
    }

    @Test("Who is sent back to walk the path again is on its way to something else, and not for long")
    func walking() {
        bounces.noteSentBack(caller(), at: now)
        #expect(look() == .passing)
        #expect(look(by: 101) == .first)
        #expect(!bounces.mayReturn(thread, at: now))
        #expect(bounces.hasReturned(thread, at: now))
        #expect(look() == .first)
        #expect(bounces.isQuietForLooks)
        bounces.noteSentBack(caller(), at: now)
        let later = now + .seconds(2)
        #expect(bounces.look(at: name, in: directory, by: caller(), at: later) == .first)
        #expect(!bounces.hasReturned(thread, at: later))
        // Who has found nothing does what it is about to do at once.
        bounces.noteSentBack(caller(), at: now)
        bounces.noteMissing(by: thread, at: now)
        #expect(look() == .passing)
        let soon = now + .milliseconds(500)
        #expect(bounces.look(at: name, in: directory, by: caller(), at: soon) == .first)
        // Who has come back to a name waits there as others do.
        bounces.noteReturn(of: caller(), at: now)
        #expect(look() == .first)
    }

    @Test("After a question that was answered too early the look is the retry, and no other question is held")
    func released() {
        let serial = sendBack(isUnlinked: true)
        #expect(bounces.awaitsQuestion(of: thread, about: directory))
        _ = bounces.release(serial, by: thread)
        #expect(!bounces.awaitsQuestion(of: thread, about: directory))
        #expect(look() == .retry)
        #expect(bounces.hasReturned(thread, at: now))
    }

    @Test("The look after a retry that found nothing belongs to it, and the one after that does not")
    func lastLook() {
        let serial = sendBack()
        #expect(bounces.awaitsQuestion(of: thread, about: directory))
        _ = bounces.settle(serial, by: thread)
        #expect(look() == .retry)
        bounces.noteNothing(at: name, in: directory, by: caller(), at: now)
        #expect(look(in: NodeID(8)) == .first)
        #expect(look() == .retry)
        #expect(look() == .first)
        bounces.noteNothing(at: name, in: directory, by: caller(), at: now)
        let later = now + .seconds(1)
        #expect(bounces.look(at: name, in: directory, by: caller(), at: later) == .first)
    }

    /// If each open and each new mark looks at all marks, this takes more than a minute.
    @Test("An open and a look cost the same beside 20,000 threads that were sent back")
    func many() {
        let took = ContinuousClock().measure {
            for thread: Int32 in 1...20_000 {
                bounces.noteSentBack(caller(thread, of: UInt32(thread) / 2000), at: now)
            }
            let known = (20_001...40_000).filter { (thread: Int32) in
                bounces.hasReturned(thread, at: now) || bounces.isComingBack(thread, at: now)
            }
            #expect(known.isEmpty)
        }
        #expect(took < .seconds(10))
        #expect(look(by: 19_999) == .passing)
        // Once their time is over they all go.
        #expect(!bounces.hasReturned(1, at: now + .seconds(2)))
        #expect(bounces.isQuietForLooks)
    }

    @Test("A user has so many marks at most, and those of others have theirs")
    func mostOfUser() {
        let most = Int32(ReturnMarks.mostOfUser)
        for thread in 1...most + 10 { bounces.noteSentBack(caller(thread), at: now) }
        #expect(bounces.isComingBack(most, at: now))
        #expect(!bounces.isComingBack(most + 1, at: now))
        bounces.noteSentBack(caller(most + 1, of: 1001), at: now)
        #expect(bounces.isComingBack(most + 1, at: now))
        // A thread that has one has it renewed, and one that is taken makes room for another.
        let later = now + .milliseconds(500)
        bounces.noteSentBack(caller(1), at: later)
        #expect(bounces.isComingBack(1, at: now + .milliseconds(1400)))
        #expect(bounces.hasReturned(2, at: later))
        bounces.noteSentBack(caller(most + 2), at: later)
        #expect(bounces.isComingBack(most + 2, at: later))
        bounces.noteSentBack(caller(most + 3), at: later)
        #expect(!bounces.isComingBack(most + 3, at: later))
        // The time of the first is over.
        bounces.noteSentBack(caller(most + 3), at: now + .seconds(1))
        #expect(bounces.isComingBack(most + 3, at: now + .seconds(1)))
    }

    @Test("Who opens something does not come back to a look")
    func opening() {
        _ = bounces.settle(sendBack(), by: thread)
        bounces.endLook(by: thread)
        #expect(bounces.isQuiet)
        #expect(!bounces.isLookupReturning(to: name, in: directory))
    }
}
