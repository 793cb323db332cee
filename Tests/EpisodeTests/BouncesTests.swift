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

    private func sendBack() -> UInt64 {
        bounces.begin(.lookup(name: name), in: directory, by: thread).serial
    }

    private func look(
        isThere: Bool, by thread: Int32 = 100, in directory: NodeID = NodeID(7)
    ) -> Bounces.Look {
        bounces.look(at: name, in: directory, isThere: isThere, by: thread, at: now)
    }

    @Test("The kernel looks again without having asked: it has retried nothing, and comes back")
    func unasked() {
        _ = sendBack()
        #expect(look(isThere: false) == .first)
        #expect(bounces.isQuiet)
        #expect(!bounces.hasReturned(thread, at: now))
    }

    @Test(
        "The wait is over: what the look finds is the answer, and the kernel does not come again",
        arguments: [true, false])
    func settled(isThere: Bool) {
        _ = bounces.settle(sendBack(), by: thread)
        #expect(look(isThere: isThere) == .retry)
        #expect(bounces.isQuiet)
        #expect(bounces.hasReturned(thread, at: now))
    }

    @Test("A name that is there again before the wait is over is there")
    func thereAlready() {
        _ = sendBack()
        #expect(look(isThere: true) == .retry)
    }

    @Test("The name is not taken away until its look is over")
    func returning() {
        let serial = sendBack()
        #expect(!bounces.isLookupReturning(to: name, in: directory))
        _ = bounces.settle(serial, by: thread)
        #expect(bounces.isLookupReturning(to: name, in: directory))
        #expect(look(isThere: true) == .retry)
        #expect(!bounces.isLookupReturning(to: name, in: directory))
    }

    @Test("A look at the same name elsewhere is on the way, and one by another thread is nothing")
    func others() {
        _ = bounces.settle(sendBack(), by: thread)
        #expect(look(isThere: true, in: NodeID(8)) == .passing)
        #expect(look(isThere: false, by: 101) == .first)
        #expect(bounces.isLookupReturning(to: name, in: directory))
    }
}
