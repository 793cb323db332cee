// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine
import Testing

import func TestSupport.eventually

/// Protocol.md, `events/subscribe`, tested on a real socket with events from a real engine.
@Suite(.serialized)
struct EventSubscriptionTests {
    /// A mount with a directory `d` in its root.
    private struct FeedFixture {
        let server: RunningServer
        let root: ItemID
        let directory: ItemID

        init(_ server: RunningServer) {
            self.server = server
            (root, directory) = (server.documents.document("").item, server.documents.document("d").item)
            server.engine.place(root, DirectoryInfo(in: nil))
            server.engine.place(directory, DirectoryInfo(in: root))
        }

        /// Makes a file as process `number`. Each process number makes an access session of its own.
        func make(_ path: String, by number: Int32) {
            let place = Place(in: path.hasPrefix("d/") ? directory : root)
            let party = Party(process: ProcessID(number: number, started: 1), ancestors: [])
            server.engine.noteCreation(of: server.documents.document(path).item, at: place, by: party)
        }
    }

    @Test("a subscriber gets the events at or below its path, with growing numbers")
    func aSubscriberGetsNumberedEventsAtOrBelowItsPath() throws {
        try withServer { server in
            let world = FeedFixture(server)
            let all = try AwareProgram(server)
            let some = try AwareProgram(server)
            let whole: SubscribeResult = try all.call(.subscribe(SubscribeParameters()))
            let part: SubscribeResult = try some.call(
                .subscribe(SubscribeParameters(path: Array("d".utf8))))
            #expect(whole.epoch == part.epoch)
            #expect(!whole.hasGap && whole.sequence == part.sequence)
            world.make("a", by: 1)
            let first = try all.nextEvent()
            #expect(first.kind == .appeared)
            #expect(first.path == "a")
            #expect(first.subscription == whole.subscription)
            #expect(first.cause?.pid == 1)
            world.make("d/b", by: 2)
            #expect(try some.nextEvent().path == "d/b")
            #expect(try all.nextEvent().sequence > first.sequence)
            let _: EmptyResult = try some.call(
                .unsubscribe(UnsubscribeParameters(subscription: part.subscription)))
            let again = UnsubscribeParameters(subscription: part.subscription)
            #expect(try some.failure(of: .unsubscribe(again))?.code == -32004)
        }
    }

    @Test("a client that subscribes again gets the events it missed, or a gap if its position is unknown")
    func aReturningSubscriberGetsTheMissedEventsOrIsToldOfAGap() throws {
        try withServer { server in
            let world = FeedFixture(server)
            let keeper = try AwareProgram(server)
            let kept: SubscribeResult = try keeper.call(.subscribe(SubscribeParameters()))
            do {
                let gone = try AwareProgram(server)
                let _: SubscribeResult = try gone.call(.subscribe(SubscribeParameters()))
            }
            world.make("a", by: 1)
            let seen = try keeper.nextEvent()
            world.make("b", by: 2)
            _ = try keeper.nextEvent()
            let back = try AwareProgram(server)
            let position = EventPosition(epoch: kept.epoch, sequence: seen.sequence)
            let resumed: SubscribeResult = try back.call(.subscribe(SubscribeParameters(after: position)))
            #expect(!resumed.hasGap)
            #expect(try back.nextEvent().path == "b")
            let strange = EventPosition(epoch: "another", sequence: seen.sequence)
            let lost: SubscribeResult = try back.call(.subscribe(SubscribeParameters(after: strange)))
            #expect(lost.hasGap)
            let future = EventPosition(epoch: kept.epoch, sequence: seen.sequence + 1000)
            let late: SubscribeResult = try back.call(.subscribe(SubscribeParameters(after: future)))
            #expect(late.hasGap)
        }
    }

    @Test("a client that missed more events than the daemon remembers gets a gap when it subscribes again")
    func aSubscriberThatMissedTooManyEventsIsToldOfAGapInTheEvents() throws {
        try withServer { server in
            let world = FeedFixture(server)
            let keeper = try AwareProgram(server)
            let kept: SubscribeResult = try keeper.call(.subscribe(SubscribeParameters()))
            for number in 0...ProtocolLimits.events { world.make("f\(number)", by: Int32(number + 1)) }
            let last = kept.sequence + UInt64(ProtocolLimits.events) + 1
            while try keeper.nextEvent().sequence < last {}
            let back = try AwareProgram(server)
            let position = EventPosition(epoch: kept.epoch, sequence: kept.sequence)
            let resumed: SubscribeResult = try back.call(.subscribe(SubscribeParameters(after: position)))
            #expect(resumed.hasGap)
            #expect(resumed.sequence == last)
        }
    }

    @Test(
        "some time after the last subscription ended, the daemon forgets all events and records no new events"
    )
    func eventsAreForgottenAfterTheLastSubscription() throws {
        try withServer(eventMemory: .milliseconds(500)) { server in
            let world = FeedFixture(server)
            let before: SubscribeResult
            do {
                let gone = try AwareProgram(server)
                before = try gone.call(.subscribe(SubscribeParameters()))
            }
            let clock = ContinuousClock()
            let took = try clock.measure {
                try eventually(within: .seconds(10), "the end of what shows the root") {
                    server.engine.snapshot(of: nil).presenters.isEmpty
                }
            }
            print("events were forgotten after \(took) (bound 500 ms)")
            world.make("a", by: 1)
            let back = try AwareProgram(server)
            let position = EventPosition(epoch: before.epoch, sequence: before.sequence)
            let resumed: SubscribeResult = try back.call(.subscribe(SubscribeParameters(after: position)))
            #expect(resumed.hasGap)
            #expect(resumed.epoch != before.epoch)
        }
    }

    @Test(
        "for some time after the last subscription ended, the daemon still records events for a later subscription"
    )
    func eventsAreRememberedForAWhileWithoutSubscribers() throws {
        try withServer { server in
            let world = FeedFixture(server)
            let before: SubscribeResult
            do {
                let gone = try AwareProgram(server)
                before = try gone.call(.subscribe(SubscribeParameters()))
            }
            world.make("a", by: 1)
            let back = try AwareProgram(server)
            let position = EventPosition(epoch: before.epoch, sequence: before.sequence)
            let resumed: SubscribeResult = try back.call(.subscribe(SubscribeParameters(after: position)))
            #expect(!resumed.hasGap)
            #expect(resumed.epoch == before.epoch)
            #expect(try back.nextEvent().path == "a")
        }
    }

    @Test("a connection may have 16 subscriptions; the next is refused")
    func aConnectionMayHave16Subscriptions() throws {
        try withServer { server in
            let program = try AwareProgram(server)
            for _ in 0..<ProtocolLimits.subscriptions {
                let _: SubscribeResult = try program.call(.subscribe(SubscribeParameters()))
            }
            #expect(try program.failure(of: .subscribe(SubscribeParameters()))?.code == -32005)
        }
    }
}
