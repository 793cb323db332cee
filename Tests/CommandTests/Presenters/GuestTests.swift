// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import LinuxSystem
import NIOCore
import NIOPosix
import Testing

@testable import ControlServer
@testable import CoordinationEngine

/// Protocol.md, Guests: before the server sends a guest a message, it checks the guest's rights and may delay the message.
@Suite("Messages to presenters of guests")
struct GuestTests {
    /// A source directory in which guests may not search the directory `secret`.
    private struct ClosedSource: SourceInspector {
        func rights(of user: FileUser, at path: [UInt8]) -> Rights {
            path.starts(with: "secret/".utf8) ? [] : [.read, .write, .rename]
        }
        func listableDirectory(_ path: [UInt8], by user: FileUser) -> FileStatus? { nil }
        func target(of path: [UInt8], as user: FileUser?, within lookups: inout Int) -> [UInt8]? { nil }
    }

    private let guest = Guest(
        user: FileUser(user: 12345, group: 12345, supplementaryGroups: []), source: ClosedSource())

    @Test("a guest that may not see a file's present name gets the name under which the guest registered")
    func aGuestGetsTheNameUnderWhichItRegistered() {
        let (document, asked) = (FakeDocument(ItemID(1), Array("secret/b".utf8)), Array("pub/a".utf8))
        #expect(guest.name(of: document, lookedFor: PathForm(asked)) == asked)
        document.move(to: "pub/b")
        #expect(guest.name(of: document, lookedFor: PathForm(asked)) == Array("pub/b".utf8))
    }

    @Test(
        "a question after its deadline is dropped; for a path that a guest may not see, the guest counts as consenting"
    )
    func lateQuestionsAreDroppedAndGuestsConsentForHiddenPaths() throws {
        let (workQueue, readQueue, watch) = (FairWorkQueue(), FairWorkQueue(), try ProcessWatch())
        let services = try makeService(workQueue, readQueue, watch)
        let open = FakeDocument(ItemID(1), Array("pub/a".utf8))
        let closed = FakeDocument(ItemID(2), Array("secret/b".utf8))
        let now = Engine.now
        let later = now + .seconds(3600)
        let inTime = guest.verdict(on: request(until: later), about: open, in: services)
        let late = guest.verdict(on: request(until: now), about: open, in: services)
        let unasked = guest.verdict(on: request(until: later), about: closed, in: services)
        watch.stop()
        try workQueue.end()
        try readQueue.end()
        if case .deliver(open.path, _) = inTime {} else { Issue.record("it is asked in time: \(inTime)") }
        if case .drop = late {} else { Issue.record("its time is over: \(late)") }
        if case .consent = unasked {} else { Issue.record("it may not write that: \(unasked)") }
    }

    @Test(
        "a guest's rights are checked once for all messages of an event, and anew for the messages of the next event"
    )
    func aGuestsRightsAreCheckedOncePerEvent() throws {
        let source = CountedSource()
        let rightsCache = RightsCache(at: source)
        let path = Array("pub/a".utf8)
        let event = Engine.now
        for _ in 0..<1000 {
            let recent = Guest(user: guest.user, source: rightsCache.since(event))
            #expect(try recent.source.rights(of: guest.user, at: path) == .read)
            #expect(try recent.source.listableDirectory(path, by: guest.user) == nil)
        }
        #expect(source.rights.count == 1 && source.lists.count == 1)
        // Rights that were read before an event must not decide about this event.
        let next = Engine.now
        #expect(try rightsCache.since(next).rights(of: guest.user, at: path) == .read)
        #expect(source.rights.count == 2)
        // Rights that were read for one user must not decide about another user.
        let other = FileUser(user: 12346, group: 12345, supplementaryGroups: [])
        #expect(try rightsCache.since(event).rights(of: other, at: path) == .read)
        #expect(source.rights.count == 3)
        for number in 0..<5000 {
            _ = try rightsCache.since(next).rights(of: guest.user, at: Array("pub/\(number)".utf8))
        }
        #expect(rightsCache.count <= 1024)
    }

    private final class CountedSource: SourceInspector {
        let (rights, lists) = (CallTally(), CallTally())
        func rights(of user: FileUser, at path: [UInt8]) -> Rights {
            rights.add()
            return .read
        }
        func listableDirectory(_ path: [UInt8], by user: FileUser) -> FileStatus? {
            lists.add()
            return nil
        }
        func target(of path: [UInt8], as user: FileUser?, within lookups: inout Int) -> [UInt8]? { nil }
    }

    private func request(until deadline: Instant) -> PresenterMessage {
        PresenterMessage(
            presenter: PresenterID(1), accessSession: AccessSessionID(1),
            content: .request(QuestionID(1), .relinquishToReader, subitem: nil, deadline: deadline),
            cause: Cause(.nobody, .read()), at: Engine.now)
    }

    func makeService(
        _ workQueue: FairWorkQueue, _ readQueue: FairWorkQueue, _ watch: ProcessWatch
    ) throws -> SharedServices {
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let documents = FakeDocuments()
        let engine = Engine(
            bounds: Bounds(), timers: try EngineThreads.timers.get(),
            workers: try EngineThreads.workers.get(), log: { _ in })
        let feed = try loop.submit {
            NIOLoopBound(
                EventFeed(
                    engine: engine, documents: documents, retention: .seconds(1), workQueue: workQueue,
                    loop: loop),
                eventLoop: loop)
        }.wait()
        let mount = ControlledMount(mountpoint: "/m", source: "/s", user: 1, version: "0", isShared: true)
        return SharedServices(
            mount: mount, status: FixedStatus(), preservedVersions: nil, history: nil, engine: engine,
            documents: documents,
            settings: nil, source: guest.source, feed: feed, log: { _ in }, watch: watch,
            rightsCache: RightsCache(at: guest.source),
            readThrottle: try loop.submit { NIOLoopBound(ReadThrottle(), eventLoop: loop) }.wait(),
            workQueue: workQueue,
            readQueue: readQueue)
    }
}
