// SPDX-License-Identifier: Apache-2.0
import Coordination
import Foundation
import LinuxSystem
import Testing
import VersionStore

@Suite("Limits of the histories of documents (D264)")
struct HistoryLimitTests {
    private let sandbox: Sandbox
    private let clock = ManualClock()

    init() throws { sandbox = try Sandbox() }

    private func store(blocks: Int = 1 << 20, versions: Int = 100) throws -> VersionStore {
        var limits = StoreLimits()
        (limits.room, limits.share, limits.versions) = (blocks * 4096, 100, versions)
        return try sandbox.store(limits: limits, clock: clock.now)
    }

    private func keep(
        _ number: Int, as path: String = "a", _ cause: PreservationCause = .write, in store: VersionStore
    ) throws -> VersionID {
        try sandbox.write("contents \(number)", to: "a")
        return try store.preserveByCopying(try sandbox.file("a"), path: bytes(path), cause: cause)
    }

    private func ids(_ store: VersionStore) -> [VersionID] { store.list(under: []).map(\.id) }

    @Test("a version that a step needs takes the room of the history at once; the history takes only its own")
    func historyGivesWayAtOnce() throws {
        let store = try store(blocks: 3)
        let plain = try keep(0, .claim, in: store)
        let history = try (1...2).map { try keep($0, in: store) }
        let needed = try keep(3, .claim, in: store)
        #expect(ids(store) == [plain, history[1], needed])
        let next = try keep(4, in: store)
        #expect(ids(store) == [plain, needed, next])
        let last = try keep(5, .claim, in: store)
        #expect(ids(store) == [plain, needed, last])
        clock.pass(hours: 2)
        #expect(throws: StoreError.overLimit(3 * 4096)) { try keep(6, in: store) }
        #expect(ids(store) == [plain, needed, last])
    }

    @Test("a document's own limits remove its history by number and age, and no other version")
    func ownLimitsApplyToTheHistoryOnly() throws {
        let store = try store(versions: 4)
        store.limitHistory { path in
            path == bytes("a") ? KeptWritesLimits(age: .seconds(3600), versions: 2) : nil
        }
        let plain = try (0..<4).map { try keep($0, .claim, in: store) }
        let others = try (10...11).map { try keep($0, as: "b", in: store) }
        let history = try (4...6).map { try keep($0, in: store) }
        #expect(ids(store) == plain + others + history[1...])
        #expect(sandbox.log == [])
        clock.pass(hours: 2)
        store.prune()
        #expect(ids(store) == plain + others)
        // The limits of the mount apply to the other document.
        let more = try (12...14).map { try keep($0, as: "b", in: store) }
        #expect(ids(store) == plain + others[1...] + more)
    }

    @Test("a history can be longer and older than the other versions of a mount")
    func ownLimitsCanBeHigher() throws {
        let store = try store(versions: 2)
        store.limitHistory { _ in KeptWritesLimits(age: .seconds(90 * 24 * 3600), versions: 5) }
        let history = try (0..<5).map { try keep($0, in: store) }
        clock.pass(hours: 24 * 40)
        store.prune()
        #expect(ids(store) == history)
    }

    @Test("equal contents of the history are not used for a step that needs them")
    func historyIsNoStepsVersion() throws {
        let store = try store()
        let history = try keep(0, in: store)
        let needed = try keep(0, .claim, in: store)
        #expect(ids(store) == [history, needed])
    }
}
