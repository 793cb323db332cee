// SPDX-License-Identifier: Apache-2.0
import Coordination
import Foundation
import LinuxSystem
import Synchronization
import Testing
import VersionStore

@Suite("Standing and provenance of versions")
struct StandingTests {
    private static let provenance = Provenance(
        author: VersionActor(program: "sed", process: 411, user: 1000, run: "agent-1"),
        saver: VersionActor(program: "vim", process: 4711), readGeneration: "e5-12", readTime: 17,
        generation: "e5-14")
    private let sandbox: Sandbox

    init() throws {
        sandbox = try Sandbox()
        try sandbox.write("contents", to: "a")
    }

    private func suspect(
        in store: VersionStore, _ durability: Durability = .deferred, isLink: Bool = false
    ) throws -> VersionID {
        let request = PreservationRequest(
            path: bytes("a"), cause: .unseen, standing: .suspected, provenance: Self.provenance,
            durability: durability)
        let file = try sandbox.file("a")
        return isLink
            ? try store.preserveByLinking(file, for: request)
            : try store.preserveByCopying(file, for: request)
    }

    private var log: String { get throws { try sandbox.text(of: ".truce/store/kept.log") } }

    @Test("provenance survives the daemon", arguments: [true, false])
    func provenanceIsInTheLog(isLink: Bool) throws {
        let id = try suspect(in: sandbox.store(), .immediate, isLink: isLink)
        let record = try #require(try sandbox.store().record(of: id))
        #expect(record.provenance == Self.provenance)
        #expect(record.cause == .unseen)
    }

    @Test("a suspected version that is found at the opening becomes a conflict, once and for all")
    func suspectedVersionsBecomeConflicts() throws {
        let id: VersionID
        do {
            let store = try sandbox.store()
            id = try suspect(in: store)
            #expect(store.record(of: id)?.standing == .suspected)
        }
        do { #expect(try sandbox.store().record(of: id)?.standing == .conflict) }
        let lines = try log
        do { #expect(try sandbox.store().record(of: id)?.standing == .conflict) }
        #expect(try log == lines)
    }

    @Test("a suspected version becomes a conflict or is dropped, and is settled only once")
    func versionsAreSettled() throws {
        let store = try sandbox.store()
        let lost = try suspect(in: store)
        let harmless = try suspect(in: store)
        #expect(lost != harmless)
        #expect(try store.settle(lost, as: .conflict))
        #expect(try store.settle(harmless, as: .nothingLost))
        #expect(try !store.settle(lost, as: .nothingLost))
        #expect(try !store.settle(harmless, as: .conflict))
        #expect(store.list(under: bytes("a")).map(\.id) == [lost])
        #expect(store.record(of: lost)?.standing == .conflict)
        #expect(try sandbox.kept() == [lost.description])
    }

    @Test("a conflict is resolved once, and stays resolved")
    func conflictsAreResolved() throws {
        let id: VersionID
        do {
            let store = try sandbox.store()
            id = try store.preserveByCopying(try sandbox.file("a"), path: bytes("a"), cause: .orphan)
            #expect(store.record(of: id)?.standing == .conflict)
            #expect(try store.resolve(id))
            #expect(try !store.resolve(id))
            let plain = try store.preserveByCopying(try sandbox.file("a"), path: bytes("b"), cause: .claim)
            #expect(try !store.resolve(plain))
            #expect(throws: StoreError.noSuchEntry) {
                try store.resolve(try #require(VersionID("0000000000000001")))
            }
        }
        #expect(try sandbox.store().record(of: id)?.standing == .resolved)
    }

    @Test("conflicts stay longer than the age limit and the number of versions, until they are resolved")
    func conflictsStayUntilTheyAreResolved() throws {
        let now = Mutex<Int64>(1_790_000_000_000_000_000)
        var limits = StoreLimits()
        limits.versions = 2
        let store = try sandbox.store(limits: limits, clock: { now.withLock { $0 } })
        func keep(_ text: String, _ cause: PreservationCause) throws -> VersionID {
            try sandbox.write(text, to: "a")
            now.withLock { $0 += 7_200_000_000_000 }
            return try store.preserveByCopying(try sandbox.file("a"), path: bytes("a"), cause: cause)
        }
        let conflicts = try (0..<4).map { try keep("conflict \($0)", .orphan) }
        let plain = try keep("plain", .claim)
        #expect(store.list(under: []).map(\.id) == conflicts + [plain])
        now.withLock { $0 += Int64(clamping: limits.age.nanoseconds) + 1 }
        store.prune()
        #expect(store.list(under: []).map(\.id) == conflicts)
        #expect(try store.resolve(conflicts[1]))
        store.prune()
        #expect(store.list(under: []).map(\.id) == [conflicts[0], conflicts[2], conflicts[3]])
    }

    @Test("a version in conflict or with another provenance is not used again for other contents' sake")
    func suspectedVersionsAreNotShared() throws {
        let store = try sandbox.store()
        let plain = try store.preserveByCopying(try sandbox.file("a"), path: bytes("a"), cause: .claim)
        let suspected = try suspect(in: store)
        #expect(plain != suspected)
        #expect(
            try store.preserveByCopying(try sandbox.file("a"), path: bytes("a"), cause: .claim) == plain)
        #expect(try store.settle(suspected, as: .nothingLost))
        #expect(try contents(store, plain) == "contents")
    }

    @Test(
        "a log line without the new fields, and one with fields and events of a later release, stay readable")
    func otherReleasesLinesAreRead() throws {
        let id: VersionID
        do {
            let store = try sandbox.store()
            id = try store.preserveByCopying(try sandbox.file("a"), path: bytes("a"), cause: .presenter)
        }
        let line = try log
        for name in ["standing", "author", "saver", "generation", "read"] {
            #expect(!line.contains("\"\(name)\""))
        }
        let later = line.replacingOccurrences(of: "{\"by", with: "{\"colour\":\"red\",\"by")
            .replacingOccurrences(of: "{\"cause", with: "{\"colour\":\"red\",\"cause")
        #expect(later.contains("colour"))
        try sandbox.write(
            later
                + "{\"cause\":\"x\",\"event\":\"painted\",\"id\":\"\(id)\",\"nanoseconds\":1,\"time\":\"x\"}\n"
                + "{\"cause\":\"x\",\"event\":\"settled\",\"id\":\"\(id)\",\"nanoseconds\":1,"
                + "\"standing\":\"odd\",\"time\":\"x\"}\n", to: ".truce/store/kept.log")
        let store = try sandbox.store()
        #expect(store.list(under: []).map(\.id) == [id])
        #expect(store.record(of: id)?.standing == .conflict)
        #expect(store.record(of: id)?.provenance == nil)
        #expect(!sandbox.log.contains { $0.contains("unknown lines") })
    }

    @Test("long names of programs are cut")
    func longNamesAreCut() {
        let name = String(repeating: "ä", count: 400)
        let actor = VersionActor(program: name, run: name)
        #expect(actor.program.utf8.count == 254)
        #expect(actor.run?.utf8.count == 254)
    }
}

@Suite("Deferred durability")
struct DeferredDurabilityTests {
    private let sandbox: Sandbox

    init() throws {
        sandbox = try Sandbox()
        try sandbox.write("contents", to: "a")
    }

    private var request: PreservationRequest {
        PreservationRequest(path: bytes("a"), cause: .unseen, standing: .suspected, durability: .deferred)
    }

    @Test("a deferred link waits for no disk, is listed at once, and calls for the synchronisation once")
    func deferredVersionsDoNotWait() throws {
        let (syncs, calls) = (Counter(), Counter())
        let store = try VersionStore(
            in: try sandbox.root(),
            synchronisingBy: { file throws(Errno) in
                syncs.add()
                try file.synchronize()
            }, log: { _ in })
        let before = syncs.count
        store.whenDeferred { calls.add() }
        let ids = try (0..<3).map { _ in try store.preserveByLinking(try sandbox.file("a"), for: request) }
        #expect(syncs.count == before)
        #expect(calls.count == 1)
        #expect(store.list(under: []).map(\.id) == ids)
        #expect(try store.settle(ids[0], as: .nothingLost))
        #expect(try store.settle(ids[1], as: .conflict))
        #expect(syncs.count == before)
        store.synchronizeDeferred()
        #expect(syncs.count > before)
        let after = syncs.count
        store.synchronizeDeferred()
        #expect(syncs.count == after)
        #expect(try store.resolve(ids[1]))
        _ = try store.preserveByLinking(try sandbox.file("a"), for: request)
        #expect(calls.count == 2)
    }

    @Test("what was deferred before the daemon has set its call leads to this call")
    func anEarlyDeferralIsNotForgotten() throws {
        let calls = Counter()
        let store = try sandbox.store()
        _ = try store.preserveByLinking(try sandbox.file("a"), for: request)
        store.whenDeferred { calls.add() }
        #expect(calls.count == 1)
    }

    @Test("after a kill before the synchronisation, the version has its path")
    func deferredVersionsSurviveAKill() throws {
        let id = try sandbox.store().preserveByCopying(try sandbox.file("a"), for: request)
        let record = try #require(try sandbox.store().record(of: id))
        #expect(record.path == bytes("a"))
        #expect(record.cause == .unseen)
    }
}

private final class Counter: Sendable {
    private let value = Atomic(0)
    func add() { value.add(1, ordering: .relaxed) }
    var count: Int { value.load(ordering: .relaxed) }
}
