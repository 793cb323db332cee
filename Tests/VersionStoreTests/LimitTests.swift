// SPDX-License-Identifier: Apache-2.0
import Coordination
import Foundation
import LinuxSystem
import Synchronization
import Testing
import VersionStore

/// A clock that advances only when a test advances it.
final class ManualClock: Sendable {
    private let seconds = Mutex<Int64>(1_800_000_000)

    var now: @Sendable () -> Int64 {
        { [self] in seconds.withLock { $0 * 1_000_000_000 } }
    }

    func pass(hours: Int64) { pass(seconds: hours * 3600) }
    func pass(seconds: Int64) { self.seconds.withLock { $0 += seconds } }
}

@Suite("Limits of the store (D193)")
struct LimitTests {
    private let sandbox: Sandbox
    private let clock = ManualClock()

    init() throws { sandbox = try Sandbox() }

    private static func limits(
        blocks: Int = 1 << 20, versions: Int = 100, change: (inout StoreLimits) -> Void = { _ in }
    ) -> StoreLimits {
        var limits = StoreLimits()
        (limits.room, limits.share, limits.versions) = (blocks * 4096, 100, versions)
        change(&limits)
        return limits
    }

    private func store(_ limits: StoreLimits = limits()) throws -> VersionStore {
        try sandbox.store(limits: limits, clock: clock.now)
    }

    /// Writes a file of the given number of blocks. Two files with different `number` differ in their contents.
    private func write(_ number: Int, blocks: Int = 1, to name: String = "a") throws {
        let text = String(format: "%08d", number)
        try sandbox.write(text + String(repeating: "x", count: blocks * 4096 - text.utf8.count), to: name)
    }

    private func keep(
        _ number: Int, blocks: Int = 1, as path: String = "a", _ cause: PreservationCause = .claim,
        in store: VersionStore
    ) throws -> VersionID {
        try write(number, blocks: blocks)
        return try store.preserveByCopying(try sandbox.file("a"), path: bytes(path), cause: cause)
    }

    private func ids(_ store: VersionStore) throws -> [VersionID] { store.list(under: []).map(\.id) }

    @Test(
        "at the store's size limit, as many of the owner's oldest versions are evicted as needed, and logged")
    func atTheStoresSizeLimitTheOldestVersionsAreEvicted() throws {
        let store = try store(Self.limits(blocks: 5))
        let kept = try (0..<5).map { try keep($0, in: store) }
        #expect(sandbox.log == [])
        clock.pass(hours: 2)
        let large = try keep(5, blocks: 2, in: store)
        #expect(try ids(store) == Array(kept[2...]) + [large])
        #expect(
            sandbox.log == [
                "removed kept/\(kept[0]) and 1 more of user \(geteuid()): the limit of 20480 bytes is reached"
            ])
        #expect(try sandbox.kept() == (kept[2...] + [large]).map(\.description))
        #expect(throws: StoreError.noSuchEntry) { _ = try contents(store, kept[0]) }
        #expect(try sandbox.text(of: ".truce/store/kept.log").contains("the limit of 20480 bytes is reached"))
    }

    @Test("versions of the last hour are not evicted; preserving fails instead")
    func versionsOfTheLastHourAreNotEvicted() throws {
        let store = try store(Self.limits(blocks: 3))
        let old = try keep(0, in: store)
        clock.pass(hours: 2)
        let new = [try keep(1, in: store), try keep(2, in: store)]
        // Only the old version may be evicted, but its room would not be enough. So the old version is not evicted.
        #expect(throws: StoreError.overLimit(3 * 4096)) { try keep(3, blocks: 2, in: store) }
        #expect(throws: StoreError.overLimit(3 * 4096)) { try keep(3, blocks: 4, in: store) }
        #expect(try ids(store) == [old] + new)
        let last = try keep(4, in: store)
        #expect(try ids(store) == new + [last])
        #expect(throws: StoreError.overLimit(3 * 4096)) { try keep(5, in: store) }
        #expect(try sandbox.kept().count == 3)
        // A link also counts as a used block, because the disk cannot free the file as long as the link exists.
        #expect(throws: StoreError.overLimit(3 * 4096)) {
            try store.preserveByLinking(try sandbox.file("a"), path: bytes("a"), cause: .claim)
        }
        clock.pass(hours: 2)
        _ = try keep(5, in: store)
        #expect(try ids(store).count == 3)
    }

    @Test("versions in conflict are evicted last, the oldest first, each with a line in the log")
    func versionsInConflictAreEvictedLast() throws {
        let store = try store(Self.limits(blocks: 3))
        let conflict = try keep(0, .presenter, in: store)
        let plain = [try keep(1, in: store), try keep(2, .suspendedWriter, in: store)]
        clock.pass(hours: 2)
        let next = try keep(3, in: store)
        #expect(try ids(store) == [conflict, plain[1], next])
        clock.pass(hours: 2)
        let others = [try keep(4, .orphan, in: store), try keep(5, .conflict, in: store)]
        #expect(try ids(store) == [conflict] + others)
        // Like other versions, versions in conflict are not evicted within an hour.
        #expect(throws: StoreError.overLimit(3 * 4096)) { try keep(6, blocks: 2, in: store) }
        #expect(try ids(store) == [conflict] + others)
        clock.pass(hours: 2)
        let last = try keep(6, in: store)
        #expect(try ids(store) == others + [last])
        #expect(
            sandbox.log.last
                == "removed kept/\(conflict) of user \(geteuid()), in conflict: the limit of 12288 bytes is reached"
        )
        // Now the store has versions in conflict and one other version. The other version is evicted.
        clock.pass(hours: 2)
        let newest = try keep(7, in: store)
        #expect(try ids(store) == others + [newest])
    }

    @Test("a document with many versions in conflict does not push out those of other documents (D275)")
    func manyConflictsOfOneDocumentGoBeforeThoseOfOthers() throws {
        let store = try store(Self.limits(blocks: 8, versions: 3))
        let quiet = try keep(0, as: "quiet", .orphan, in: store)
        clock.pass(hours: 2)
        var noisy = try (1..<7).map { try keep($0, .orphan, in: store) }
        let plain = try keep(7, as: "plain", in: store)
        clock.pass(hours: 2)
        // Plain versions go first, then the oldest versions of the document with more than three in conflict.
        noisy.append(try keep(8, .orphan, in: store))
        #expect(try ids(store) == [quiet] + noisy)
        clock.pass(hours: 2)
        noisy += [try keep(9, .orphan, in: store), try keep(10, .orphan, in: store)]
        #expect(try !ids(store).contains(plain))
        #expect(try ids(store) == [quiet] + noisy.dropFirst(2))
        // A document with three versions in conflict has none too many, so the oldest of all goes.
        clock.pass(hours: 2)
        let large = try keep(11, blocks: 4, as: "large", in: store)
        #expect(try ids(store) == [quiet] + noisy.suffix(3) + [large])
        clock.pass(hours: 2)
        let last = try keep(12, blocks: 5, as: "large", .orphan, in: store)
        #expect(try ids(store) == noisy.suffix(3) + [last])
    }

    @Test("the number of versions of one document is limited; versions in conflict stay")
    func eachDocumentsVersionsAreLimited() throws {
        let store = try store(Self.limits(versions: 3))
        let conflict = try keep(0, .presenter, in: store)
        let kept = try (1..<5).map { try keep($0, in: store) }
        let other = try keep(9, as: "other", in: store)
        // More versions exist than the limit of 3. All are younger than an hour, so none may be evicted.
        #expect(try ids(store).count == 6)
        clock.pass(hours: 2)
        let last = try keep(5, in: store)
        #expect(try ids(store) == [conflict, kept[3], other, last])
        #expect(sandbox.log.last?.contains("more than 3 versions") == true)
        clock.pass(hours: 2)
        let conflicts = try (6..<9).map { try keep($0, .presenter, in: store) }
        #expect(try ids(store) == [conflict, other] + conflicts)
    }

    @Test(
        "versions above the age limit are dropped by a prune or at an opening, unless a program still writes to their file"
    )
    func oldVersionsAreDroppedIfNoProgramStillWritesToTheirFile() throws {
        let first: VersionID
        do {
            let store = try store()
            first = try keep(0, in: store)
            clock.pass(hours: 29 * 24)
            let second = try keep(1, in: store)
            let linked = try store.preserveByLinking(try sandbox.file("a"), path: bytes("a"), cause: .claim)
            store.noteWriter(of: linked, "writer", by: 1)
            clock.pass(hours: 2 * 24)
            #expect(try ids(store) == [first, second, linked])
            store.prune()
            #expect(try ids(store) == [second, linked])
            clock.pass(hours: 30 * 24)
            store.prune()
            #expect(try ids(store) == [linked])
            store.noteClosed(linked, by: 1)
            store.prune()
            #expect(try ids(store) == [])
            #expect(sandbox.log.filter { $0.contains("older than 2592000 s") }.count == 3)
            _ = try keep(2, in: store)
        }
        clock.pass(hours: 31 * 24)
        #expect(try ids(try store()) == [])
        #expect(try sandbox.kept() == [])
    }

    @Test("a version is not dropped within the guaranteed time, even if it is above the age limit")
    func aVersionIsNotDroppedWithinTheGuaranteedTime() throws {
        let store = try store(Self.limits { ($0.age, $0.certain) = (.seconds(3600), .seconds(3 * 3600)) })
        let kept = try keep(0, in: store)
        clock.pass(hours: 2)
        store.prune()
        #expect(try ids(store) == [kept])
        clock.pass(hours: 2)
        store.prune()
        #expect(try ids(store) == [])
    }

    @Test("a linked file's growth is charged when its last writer closes it")
    func aLinkedFilesGrowthIsChargedAtTheLastClose() throws {
        let store = try store(Self.limits(blocks: 4))
        try write(0)
        let linked = try store.preserveByLinking(try sandbox.file("a"), path: bytes("a"), cause: .claim)
        store.noteWriter(of: linked, "writer", by: 1)
        try sandbox.append(String(repeating: "y", count: 3 * 4096), to: "a")
        #expect(unlink("\(sandbox.path)/a") == 0)
        store.noteClosed(linked, by: 1)
        #expect(throws: StoreError.overLimit(4 * 4096)) { try keep(1, in: store) }
        clock.pass(hours: 2)
        let next = try keep(1, in: store)
        #expect(try ids(store) == [next])
    }

    @Test("opening a store computes the used room from its files and their names")
    func openingAStoreComputesItsUsedRoom() throws {
        // For the limit, each further name of a file counts as one block.
        let limits = Self.limits(blocks: 7)
        let kept: [VersionID]
        do {
            let store = try store(limits)
            kept = try (0..<4).map { try keep($0 / 2, as: $0 % 2 == 0 ? "a" : "b", in: store) }
            // The four versions are two files with two names each.
            #expect(try sandbox.status(".truce/store/kept/\(kept[0])").linkCount == 2)
        }
        let store = try store(limits)
        let more = try (2..<5).map { try keep($0, in: store) }
        #expect(try ids(store) == kept + more)
        clock.pass(hours: 2)
        // The new version needs two blocks. The store must remove both names of a file to make this room.
        let last = try keep(5, blocks: 2, in: store)
        #expect(try ids(store) == Array(kept[2...]) + more + [last])
    }

    @Test("if the allowed share of the disk is less than the limit in bytes, the share is the limit")
    func aShareOfTheDiskBelowTheLimitReplacesTheLimit() throws {
        let store = try store(Self.limits { $0.share = 0 })
        #expect(throws: StoreError.overLimit(0)) { try keep(0, in: store) }
        #expect(try sandbox.kept() == [])
    }

    @Test("a copy that is not yet recorded reserves its room")
    func anUnfinishedCopyReservesItsRoom() throws {
        let store = try store(Self.limits(blocks: 2))
        try write(0)
        let first = try store.copyWithoutSync(try sandbox.file("a"))
        try write(1)
        let second = try store.copyWithoutSync(try sandbox.file("a"))
        #expect(throws: StoreError.overLimit(2 * 4096)) { try keep(2, in: store) }
        store.discard(first)
        _ = try keep(3, in: store)
        let id = try store.record(second, path: bytes("a"), cause: .claim)
        #expect(throws: StoreError.overLimit(2 * 4096)) { try keep(4, in: store) }
        try store.drop(id, reason: "the test is done with it")
        _ = try keep(4, in: store)
    }

    @Test("the log is compacted when most of its lines are about dropped versions")
    func aLogWithManyObsoleteLinesIsCompacted() throws {
        let store = try VersionStore(
            in: try sandbox.root(), limits: Self.limits(versions: 2) { $0.certain = .zero }, clock: clock.now,
            log: { _ in }, compactingLogsOf: 20)
        try sandbox.write("grown", to: "log")
        let held = try store.preserveGrown(try sandbox.file("log"), path: bytes("log"), cause: .claim)
        try sandbox.append(" more", to: "log")
        let holder = try store.preserveGrown(try sandbox.file("log"), path: bytes("log"), cause: .claim)
        #expect(store.letGoOfGrown() == [held])
        for number in 0..<100 {
            clock.pass(hours: 1)
            _ = try keep(number, in: store)
            #expect(try sandbox.text(of: ".truce/store/kept.log").split(separator: "\n").count <= 30)
        }
        #expect(try ids(store).count == 3)
        #expect(try contents(store, held) == "grown" && contents(store, holder) == "grown more")
        // As long as a process has a store open, no process can open this store a second time.
        #expect(throws: StoreError.inUse) { _ = try sandbox.store() }
        #expect(try sandbox.names(".truce/store") == ["kept", "kept.log", "version"])
    }
}

@Suite("Equal contents of one owner are stored once")
struct DeduplicationTests {
    private let sandbox: Sandbox
    private let store: VersionStore

    init() throws {
        sandbox = try Sandbox()
        store = try sandbox.store()
    }

    private func keep(_ text: String, as path: String = "a") throws -> VersionID {
        try sandbox.write(text, to: "a")
        return try store.preserveByCopying(try sandbox.file("a"), path: bytes(path), cause: .claim)
    }

    private func inode(_ id: VersionID) throws -> UInt64 {
        try sandbox.status(".truce/store/kept/\(id)").inode
    }

    @Test("versions with equal contents share one file, whatever their paths are")
    func equalContentsOfTwoPathsShareOneFile() throws {
        let text = String(repeating: "same ", count: 100_000)
        let (first, other, second) = (try keep(text), try keep("other"), try keep(text, as: "b"))
        #expect(try inode(first) == inode(second))
        #expect(try inode(first) != inode(other))
        #expect(try store.entry(second).method == .shared && store.entry(first).method != .shared)
        try store.drop(first, reason: "the test is done with it")
        #expect(
            try contents(store, second).count == text.count || contents(store, second) == text.prefix(1 << 20)
        )
        let third = try keep(text)
        #expect(try inode(third) == inode(second))
    }

    @Test(
        "contents that differ in one byte anywhere get a separate file",
        arguments: [0, 4095, 4096, 150_000, 299_998, 299_999])
    func aDifferentByteMakesASeparateFile(position: Int) throws {
        var text = [UInt8](repeating: UInt8(ascii: "a"), count: 300_000)
        let first = try keep(String(decoding: text, as: UTF8.self))
        text[position] = UInt8(ascii: "b")
        let second = try keep(String(decoding: text, as: UTF8.self))
        #expect(try inode(first) != inode(second))
        #expect(try contents(store, second).utf8.elementsEqual(text))
    }

    @Test("contents equal to a linked document are copied, because the document may still be written")
    func aCopyIsNotSharedWithALinkedDocument() throws {
        try sandbox.write("text", to: "a")
        let link = try store.preserveByLinking(try sandbox.file("a"), path: bytes("a"), cause: .claim)
        let copy = try store.preserveByCopying(try sandbox.file("a"), path: bytes("a"), cause: .claim)
        #expect(try inode(link) != inode(copy))
        try sandbox.write("changed", to: "a")
        #expect(try contents(store, copy) == "text")
    }

    @Test(
        "equal contents of two owners are stored in two files, each of which belongs to its owner",
        .enabled(if: geteuid() == 0, "only root can give files away"))
    func versionsOfTwoOwnersShareNoFile() throws {
        var kept: [VersionID] = []
        for user: uid_t in [4242, 4343, 4242] {
            try sandbox.write("text", to: "a")
            #expect(chown("\(sandbox.path)/a", user, user) == 0)
            kept.append(try store.preserveByCopying(try sandbox.file("a"), path: bytes("a"), cause: .claim))
            let status = try sandbox.status(".truce/store/kept/\(kept[kept.count - 1])")
            #expect(status.user == user && status.group == user && status.mode & 0o777 == 0o600)
        }
        #expect(try inode(kept[0]) != inode(kept[1]))
        #expect(try inode(kept[0]) == inode(kept[2]))
    }
}
