// SPDX-License-Identifier: Apache-2.0
import Foundation
import LinuxSystem
import Synchronization
import Testing
import VersionStore

/// A store with a low limit, and a clock that advances only when a test advances it.
private struct SmallStore {
    let sandbox: Sandbox
    let clock = ManualClock()

    init() throws { sandbox = try Sandbox() }

    static func limits(blocks: Int, change: (inout StoreLimits) -> Void = { _ in }) -> StoreLimits {
        var limits = StoreLimits()
        (limits.room, limits.share) = (blocks * 4096, 100)
        change(&limits)
        return limits
    }

    func open(
        _ blocks: Int = 1 << 20, largestCopy: Int = VersionStore.largestCopy
    ) throws -> VersionStore {
        try sandbox.store(largestCopy: largestCopy, limits: Self.limits(blocks: blocks), clock: clock.now)
    }

    func write(_ number: Int, blocks: Int = 1, to name: String = "a") throws {
        let text = String(format: "%08d", number)
        try sandbox.write(text + String(repeating: "x", count: blocks * 4096 - text.utf8.count), to: name)
    }

    func keep(
        _ number: Int, blocks: Int = 1, as path: String = "a", _ cause: PreservationCause = .claim,
        by user: UInt32? = nil, in store: VersionStore
    ) throws -> VersionID {
        try write(number, blocks: blocks)
        return try store.preserveByCopying(try sandbox.file("a"), path: bytes(path), cause: cause, by: user)
    }

    func ids(_ store: VersionStore) throws -> [VersionID] { store.list(under: []).map(\.id) }
}

/// D210: the store evicts a version only if the new version then has enough room.
@Suite("No version is evicted without need (D210)")
struct FutileEvictionTests {
    private let small: SmallStore

    init() throws { small = try SmallStore() }

    /// The file is in `/dev/shm`, another file system. So a copy cannot share blocks with the file, and needs room.
    @Test("the attempt to copy a file above the size limit evicts no version")
    func aFileAboveTheCopyLimitEvictsNoVersion() throws {
        let store = try small.open(4, largestCopy: 8192)
        let kept = try (0..<3).map { try small.keep($0, in: store) }
        small.clock.pass(hours: 2)
        let name = "/dev/shm/truce-store-\(getpid())-large"
        #expect(FileManager.default.createFile(atPath: name, contents: Data(count: 3 * 4096)))
        defer { unlink(name) }
        let file = OwnedDescriptor(adopting: open(name, O_RDWR | O_CLOEXEC))
        #expect(throws: StoreError.tooLarge(limit: 8192)) {
            try store.preserveByCopying(file, path: bytes("b"), cause: .claim)
        }
        #expect(try small.ids(store) == kept)
        #expect(try small.sandbox.kept() == kept.map(\.description))
        // The copy that failed had reserved room. This room must be free now.
        _ = try small.keep(3, in: store)
        #expect(try small.ids(store).count == 4)
    }

    @Test("a provisional copy evicts no version")
    func aProvisionalCopyEvictsNoVersion() throws {
        let store = try small.open(2)
        let kept = try (0..<2).map { try small.keep($0, in: store) }
        small.clock.pass(hours: 2)
        try small.write(2)
        #expect(throws: StoreError.overLimit(2 * 4096)) {
            _ = try store.copyWithoutSync(try small.sandbox.file("a"))
        }
        #expect(try small.ids(store) == kept)
        #expect(try small.sandbox.kept().count == 2)
    }

    @Test(
        "a version that shares its file with another version is evicted only if the eviction frees enough room"
    )
    func aVersionStaysIfItsEvictionFreesTooLittleRoom() throws {
        let store = try small.open(4)
        let plain = try small.keep(0, in: store)
        let conflict = try small.keep(0, as: "b", .presenter, in: store)
        let other = try small.keep(1, in: store)
        #expect(try small.sandbox.status(".truce/store/kept/\(plain)").linkCount == 2)
        small.clock.pass(hours: 2)
        let next = try small.keep(2, blocks: 2, in: store)
        #expect(try small.ids(store) == [plain, conflict, next])
        #expect(throws: StoreError.noSuchEntry) { _ = try contents(store, other) }
    }

    @Test("versions that share one file are evicted only when no other version can be evicted")
    func versionsOfOneFileAreEvictedLast() throws {
        let store = try small.open(4)
        let conflict = try small.keep(0, as: "b", .presenter, in: store)
        let names = try ["c", "d"].map { try small.keep(0, as: $0, in: store) }
        small.clock.pass(hours: 2)
        // The file has several names in the store, and each further name counts as a block. So the store gets enough room if it
        // removes one name.
        let next = try small.keep(1, in: store)
        #expect(try small.ids(store) == [conflict] + names + [next])
        let last = try small.keep(2, in: store)
        #expect(try small.ids(store) == [conflict, names[1], next, last])
    }

    @Test(
        "on a full disk, versions of the last minute stay",
        .enabled(if: geteuid() == 0, "only root can make a file system"))
    func aFullDiskEvictsNoVersionYoungerThanAMinute() throws {
        let path = small.sandbox.path + "/disk"
        #expect(mkdir(path, 0o700) == 0)
        try #require(mount("none", path, "tmpfs", 0, "size=80k") == 0)
        defer { umount2(path, Int32(MNT_DETACH)) }
        let source = path + "/a"
        func write(_ letter: String) throws {
            let file = OwnedDescriptor(
                adopting: open(source, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600))
            try file.writeAll(bytes(String(repeating: letter, count: 16384)))
        }
        let limits = SmallStore.limits(blocks: 1 << 20)
        let store = try VersionStore(
            in: try OwnedDescriptor.openPath(path), limits: limits, clock: small.clock.now, log: { _ in })
        func keep(_ letter: String) throws -> VersionID {
            try write(letter)
            let file = OwnedDescriptor(adopting: open(source, O_RDWR | O_CLOEXEC))
            return try store.preserveByCopying(file, path: bytes("a"), cause: .claim)
        }
        let first = try keep("a")
        small.clock.pass(seconds: 30)
        let second = try keep("b")
        #expect(throws: StoreError.noSpace) { try keep("c") }
        #expect(store.list(under: []).map(\.id) == [first, second])
        small.clock.pass(seconds: 31)
        let third = try keep("c")
        #expect(store.list(under: []).map(\.id) == [second, third])
    }

    @Test("a second link to a preserved file needs room only for its name")
    func aSecondLinkToAFileNeedsRoomForItsNameOnly() throws {
        let store = try small.open(12)
        let old = try small.keep(0, blocks: 2, as: "old", in: store)
        small.clock.pass(hours: 2)
        try small.write(1, blocks: 8)
        let links = try ["a", "b"].map { path in
            try store.preserveByLinking(try small.sandbox.file("a"), path: bytes(path), cause: .claim)
        }
        #expect(try small.ids(store) == [old] + links)
    }

    /// The file has a name outside the store. If the store removed the name in `.truce`, the disk would get no free block.
    @Test(
        "on a full disk, a file that has names outside the store is not evicted",
        .enabled(if: geteuid() == 0, "only root can make a file system"))
    func aFullDiskEvictsNoFileWithOtherNames() throws {
        let path = small.sandbox.path + "/disk"
        #expect(mkdir(path, 0o700) == 0)
        try #require(mount("none", path, "tmpfs", 0, "size=112k") == 0)
        defer { umount2(path, Int32(MNT_DETACH)) }
        let limits = SmallStore.limits(blocks: 1 << 20)
        let store = try VersionStore(
            in: try OwnedDescriptor.openPath(path), limits: limits, clock: small.clock.now, log: { _ in })
        func file(_ name: String) throws -> OwnedDescriptor {
            let file = OwnedDescriptor(
                adopting: open("\(path)/\(name)", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600))
            try file.writeAll(bytes(String(repeating: name, count: 16384)))
            return file
        }
        let kept = try ["1", "2", "3", "4"].map { name in
            try store.preserveByLinking(try file(name), path: bytes(name), cause: .claim)
        }
        #expect(unlink(path + "/3") == 0)
        small.clock.pass(seconds: 61)
        let next = try store.preserveByCopying(try file("a"), path: bytes("a"), cause: .claim)
        #expect(store.list(under: []).map(\.id) == [kept[0], kept[1], kept[3], next])
    }

    @Test("after a linked file is removed, its growth is charged, even if two versions link to the file")
    func theGrowthOfARemovedLinkedFileIsCharged() throws {
        let store = try small.open(8)
        try small.write(0)
        var links: [VersionID] = []
        for _ in 0..<2 {
            links.append(
                try store.preserveByLinking(try small.sandbox.file("a"), path: bytes("a"), cause: .claim))
        }
        try small.sandbox.append(String(repeating: "y", count: 8 * 4096), to: "a")
        #expect(unlink("\(small.sandbox.path)/a") == 0)
        store.noteWriter(of: links[0], "writer", by: 1)
        store.noteClosed(links[0], by: 1)
        #expect(throws: StoreError.overLimit(8 * 4096)) { try small.keep(1, in: store) }
    }
}

/// D211: the store measures the age of versions by a monotonic clock, which never jumps.
@Suite("Jumps of the clock neither disable the store's limits nor drop versions (D211)")
struct JumpingClockTests {
    private let small: SmallStore
    private static let years: Int64 = 14 * 365 * 24

    init() throws { small = try SmallStore() }

    @Test(
        "a version that was preserved while the clock was ahead can be evicted after the clock is corrected")
    func aVersionPreservedWhileTheClockWasAheadIsEvictedAsUsual() throws {
        small.clock.pass(hours: Self.years)
        let early = try small.keep(0, in: try small.open(3))
        small.clock.pass(hours: -Self.years)
        let store = try small.open(3)
        let others = [try small.keep(1, in: store), try small.keep(2, in: store)]
        #expect(try small.ids(store) == [early] + others)
        #expect(throws: StoreError.overLimit(3 * 4096)) { try small.keep(3, in: store) }
        small.clock.pass(hours: 2)
        let last = try small.keep(3, in: store)
        #expect(try small.ids(store) == others + [last])
    }

    @Test("a store that is opened while the clock is ahead drops no version, and later drops old versions")
    func openingWithTheClockAheadDropsNoVersion() throws {
        var kept: [VersionID] = []
        do {
            let store = try small.open(3)
            kept = [try small.keep(0, .presenter, in: store), try small.keep(1, in: store)]
        }
        small.clock.pass(hours: Self.years)
        do {
            let store = try small.open(3)
            store.prune()
            #expect(try small.ids(store) == kept)
            kept.append(try small.keep(2, in: store))
            #expect(try small.ids(store) == kept)
        }
        small.clock.pass(hours: -Self.years)
        let store = try small.open(3)
        #expect(try small.ids(store) == kept)
        small.clock.pass(hours: 31 * 24)
        store.prune()
        // Only the version in conflict stays.
        #expect(try small.ids(store) == [kept[0]])
    }

    @Test("a store that is opened twice while the clock is ahead drops no version")
    func reopeningWithTheClockAheadDropsNoVersion() throws {
        var kept: [VersionID] = []
        do {
            let store = try small.open()
            kept = [try small.keep(0, .presenter, in: store), try small.keep(1, in: store)]
        }
        small.clock.pass(hours: Self.years)
        kept.append(try small.keep(2, in: try small.open()))
        small.clock.pass(hours: 1)
        #expect(try small.ids(try small.open()) == kept)
        small.clock.pass(hours: -Self.years)
        kept.append(try small.keep(3, in: try small.open()))
        small.clock.pass(hours: 1)
        #expect(try small.ids(try small.open()) == kept)
    }

    @Test("a version that was preserved before the clock was first set has its true age")
    func aVersionFromBeforeTheClockWasSetHasItsTrueAge() throws {
        var kept: [VersionID] = []
        small.clock.pass(hours: -Self.years / 7)
        do {
            let store = try small.open()
            kept.append(try small.keep(0, in: store))
            small.clock.pass(hours: Self.years / 7)
            kept.append(try small.keep(1, in: store))
        }
        small.clock.pass(hours: 24)
        #expect(try small.ids(try small.open()) == kept)
        small.clock.pass(hours: 31 * 24)
        #expect(try small.ids(try small.open()) == [])
    }

    @Test("a log line that is written late makes no other version older")
    func aLateLogLineMakesNoOtherVersionOlder() throws {
        var kept: [VersionID] = []
        do {
            let store = try small.open()
            kept.append(try small.keep(0, in: store))
            try small.write(1)
            let late = try store.copyWithoutSync(try small.sandbox.file("a"))
            small.clock.pass(hours: 20 * 24)
            let last = try small.keep(2, in: store)
            kept.append(try store.record(late, path: bytes("late"), cause: .claim))
            small.clock.pass(hours: 1)
            kept += [last, try small.keep(3, in: store)]
        }
        #expect(try small.ids(try small.open()) == kept)
    }

    @Test("while a store is open, ages follow the steady clock and not the clock that jumps")
    func anOpenStoreUsesTheSteadyClock() throws {
        let steady = ManualClock()
        let store = try small.sandbox.store(
            limits: SmallStore.limits(blocks: 2), clock: small.clock.now, steadyClock: steady.now)
        let kept = [try small.keep(0, in: store), try small.keep(1, .presenter, in: store)]
        small.clock.pass(hours: Self.years)
        store.prune()
        #expect(throws: StoreError.overLimit(2 * 4096)) { try small.keep(2, in: store) }
        #expect(try small.ids(store) == kept)
        small.clock.pass(hours: -Self.years - 1)
        steady.pass(hours: 2)
        let last = try small.keep(2, in: store)
        #expect(try small.ids(store) == [kept[1], last])
    }
}

/// D212: how much room a version uses, and to which user this room is charged.
@Suite("Each version is charged to the user that caused it (D212)")
struct QuotaChargeTests {
    private let small: SmallStore
    private let stranger: UInt32 = 12_345

    init() throws { small = try SmallStore() }

    @Test("a recent version with equal contents is reused, unless path, rights or conflict differ")
    func aRecentEqualVersionIsReused() throws {
        let store = try small.open()
        let first = try small.keep(0, in: store)
        let line = try small.sandbox.text(of: ".truce/store/kept.log")
        for _ in 0..<5 { #expect(try small.keep(0, in: store) == first) }
        #expect(try small.sandbox.text(of: ".truce/store/kept.log") == line)
        #expect(try small.keep(0, as: "b", in: store) != first)
        let conflict = try small.keep(0, .presenter, in: store)
        #expect(conflict != first)
        #expect(try small.keep(0, in: store) == conflict)
        #expect(chmod("\(small.sandbox.path)/a", 0o600) == 0)
        let closed = try store.preserveByCopying(
            try small.sandbox.file("a"), path: bytes("a"), cause: .claim)
        #expect(closed != conflict)
        let changed = try small.keep(1, in: store)
        #expect(changed != closed)
        small.clock.pass(seconds: 61)
        #expect(try small.keep(1, in: store) != changed)
    }

    @Test(
        "each version's name and each long log line is charged, so that the store does not grow without limit"
    )
    func namesAndLongLogLinesAreCharged() throws {
        let store = try small.open(10)
        var count = 0
        #expect(throws: StoreError.overLimit(10 * 4096)) {
            while count < 100 {
                _ = try small.keep(0, as: "path \(count)", in: store)
                count += 1
            }
        }
        #expect((2...10).contains(count))
        small.clock.pass(hours: 2)
        let long = String(repeating: "\u{1}", count: 4000)
        _ = try small.keep(1, as: long, in: store)
        // In the log, each byte of this path is written as six bytes. So the log line uses more room than the file.
        #expect(throws: StoreError.overLimit(10 * 4096)) { try small.keep(2, as: long, in: store) }
    }

    @Test(
        "a user other than the owner has half of the store's room, and evicts versions of the same document only"
    )
    func aUserThatIsNotTheOwnerHasHalfOfTheStoresRoom() throws {
        let store = try small.open(8)
        let others = try (0..<2).map { try small.keep($0, as: "other", in: store) }
        small.clock.pass(hours: 2)
        let shared = try (2..<6).map { try small.keep($0, as: "shared", by: stranger, in: store) }
        // Another user may use only half of the room, because the other half is reserved for the owner.
        #expect(throws: StoreError.overLimit(4 * 4096)) {
            try small.keep(6, as: "shared", by: stranger, in: store)
        }
        small.clock.pass(hours: 2)
        let next = try small.keep(6, as: "shared", by: stranger, in: store)
        #expect(try small.ids(store) == others + shared[1...] + [next])
        #expect(throws: StoreError.overLimit(4 * 4096)) {
            try small.keep(7, as: "new", by: stranger, in: store)
        }
        let mine = try (8..<10).map { try small.keep($0, as: "mine", in: store) }
        #expect(try small.ids(store) == others + shared[1...] + [next] + mine)
        // The store is full now. For a version that the owner's program causes, the store may evict any version.
        let last = try small.keep(10, as: "mine", in: store)
        #expect(try small.ids(store) == others[1...] + shared[1...] + [next] + mine + [last])
    }

    @Test("a provisional copy of another user's contents is charged to that user")
    func anotherUsersProvisionalCopyIsChargedToThatUser() throws {
        let store = try small.open(8)
        var kept = try (0..<3).map { try small.keep($0, as: "other", in: store) }
        small.clock.pass(hours: 2)
        let request = PreservationRequest(path: bytes("shared"), cause: .suspendedWriter, user: stranger)
        func copy(_ number: Int) throws -> UnfinishedCopy {
            try small.write(number)
            return try store.copyWithoutSync(try small.sandbox.file("a"), for: request, need: .possible)
        }
        let needed = try copy(3)
        for number in 4..<7 { _ = try copy(number) }
        #expect(throws: StoreError.overLimit(4 * 4096)) { _ = try copy(7) }
        kept.append(try small.keep(8, as: "mine", in: store))
        #expect(try small.ids(store) == kept)
        // The owner's program preempts the claim of the stranger. The version is charged to the stranger, because the stranger
        // wrote the contents.
        let id = try store.record(needed, path: bytes("shared"), cause: .suspendedWriter, by: geteuid())
        #expect(try store.entry(id).user == stranger)
    }

    @Test("charges to another user are known after the store is opened again")
    func chargesToAnotherUserSurviveReopening() throws {
        var kept: [VersionID] = []
        do {
            let store = try small.open(4)
            kept = try (0..<2).map { try small.keep($0, as: "shared", by: stranger, in: store) }
        }
        let store = try small.open(4)
        #expect(throws: StoreError.overLimit(2 * 4096)) {
            try small.keep(2, as: "shared", by: stranger, in: store)
        }
        // Half of the room is the limit for other users, but not for root.
        kept.append(try small.keep(3, as: "shared", by: 0, in: store))
        #expect(try small.ids(store) == kept)
    }
}

/// D213: a step that needs a version can use an existing version. This version is then not evicted for an hour.
@Suite("A version that a later step relies on stays (D213)")
struct VersionRenewalTests {
    private let small: SmallStore

    init() throws { small = try SmallStore() }

    @Test("a recent version can be renewed and then stays for an hour; an old version cannot be renewed")
    func aRenewedRecentVersionStaysForAnHour() throws {
        let store = try small.open(2)
        let first = try small.keep(0, in: store)
        small.clock.pass(seconds: 50)
        #expect(store.renewIfRecent(first))
        small.clock.pass(seconds: 3570)
        let second = try small.keep(1, in: store)
        // The first version is more than an hour old. But it was renewed less than an hour ago, so the store does not evict it.
        #expect(throws: StoreError.overLimit(2 * 4096)) { try small.keep(2, in: store) }
        #expect(!store.renewIfRecent(first))
        small.clock.pass(seconds: 60)
        let third = try small.keep(2, in: store)
        #expect(try small.ids(store) == [second, third])
        #expect(!store.renewIfRecent(first))
        #expect(!store.renewIfRecent(second) && store.renewIfRecent(third))
    }

    @Test("if contents equal an old version's, the new version uses the file of the old version")
    func contentsEqualToAnOldVersionShareItsFile() throws {
        let store = try small.open(8)
        let first = try small.keep(0, in: store)
        small.clock.pass(hours: 2)
        #expect(!store.renewIfRecent(first))
        let second = try small.keep(0, in: store)
        #expect(first != second && store.renewIfRecent(second))
        let names = try [first, second].map { try small.sandbox.status(".truce/store/kept/\($0)").inode }
        #expect(names[0] == names[1])
    }

    @Test("a version that was renewed is not dropped together with other versions")
    func aRenewedVersionIsNotDropped() throws {
        let store = try small.open(8)
        let first = try small.keep(0, in: store)
        #expect(try small.keep(0, in: store) == first)
        store.dropVersions(of: [first], reason: "the same suspended writer has three later versions")
        #expect(try small.ids(store) == [first])
        let other = try small.keep(1, in: store)
        store.dropVersions(of: [other], reason: "the same suspended writer has three later versions")
        #expect(try small.ids(store) == [first])
        let last = try small.keep(2, in: store)
        small.clock.pass(seconds: 1)
        let moment = store.moment()
        #expect(store.renewIfRecent(last))
        store.dropVersions(
            of: [last], reason: "the same suspended writer has three later versions",
            unlessNeededSince: moment)
        #expect(try small.ids(store) == [first, last])
        small.clock.pass(seconds: 1)
        store.dropVersions(
            of: [last], reason: "the same suspended writer has three later versions",
            unlessNeededSince: store.moment())
        #expect(try small.ids(store) == [first])
    }

    @Test("a copy whose fsync failed is not renewed or reused")
    func aCopyThatIsNotOnTheDiskIsNotRenewed() throws {
        let isFull = Atomic<Bool>(false)
        let store = try VersionStore(
            in: try small.sandbox.root(),
            synchronisingBy: { file throws(Errno) in
                if isFull.load(ordering: .relaxed), try !file.status().isDirectory {
                    throw Errno(rawValue: EIO)
                }
                try file.synchronize()
            }, log: { _ in })
        try small.write(0)
        let copy = try store.copyWithoutSync(try small.sandbox.file("a"))
        isFull.store(true, ordering: .relaxed)
        let id = try store.record(copy, path: bytes("a"), cause: .claim)
        #expect(!store.renewIfRecent(id))
        isFull.store(false, ordering: .relaxed)
        #expect(try small.keep(0, in: store) != id)
    }
}

/// The store compacts `kept.log` from time to time. It writes a new file, and then renames the new file to `kept.log`.
@Suite("Compaction of the store's log")
struct LogCompactionTests {
    private final class Fault: Sendable {
        let isOn = Atomic<Bool>(false)
        let failures = Atomic<Int>(0)
    }

    @Test("the compacted log is used even if the fsync of its directory failed")
    func theCompactedLogIsUsedAfterAFailedSync() throws {
        let sandbox = try Sandbox()
        try sandbox.prepare()
        let home = try sandbox.status(".truce/store").inode
        let fault = Fault()
        let heard = Mutex<[String]>([])
        let store = try VersionStore(
            in: try sandbox.root(),
            synchronisingBy: { file throws(Errno) in
                if fault.isOn.load(ordering: .relaxed), try file.status().inode == home {
                    fault.failures.add(1, ordering: .relaxed)
                    throw Errno(rawValue: EIO)
                }
                try file.synchronize()
            }, log: { line in heard.withLock { $0.append(line) } }, compactingLogsOf: 10)
        func keep(_ text: String) throws -> VersionID {
            try sandbox.write(text, to: "a")
            return try store.preserveByCopying(try sandbox.file("a"), path: bytes("a"), cause: .claim)
        }
        fault.isOn.store(true, ordering: .relaxed)
        for number in 0..<10 where fault.failures.load(ordering: .relaxed) == 0 {
            try store.drop(try keep("text \(number)"), reason: "the test is done with it")
        }
        #expect(fault.failures.load(ordering: .relaxed) > 0)
        #expect(heard.withLock { $0 }.contains { $0.contains("kept.log") })
        fault.isOn.store(false, ordering: .relaxed)
        let id = try keep("later")
        #expect(try sandbox.text(of: ".truce/store/kept.log").contains(id.description))
        #expect(throws: StoreError.inUse) { _ = try sandbox.store() }
    }

    @Test("a log of few long lines is compacted")
    func aLogOfFewLongLinesIsCompacted() throws {
        let sandbox = try Sandbox()
        let store = try VersionStore(
            in: try sandbox.root(), log: { _ in }, compactingLogsOf: 100, orOfBytes: 100_000)
        let path = [UInt8](repeating: 1, count: 4000)
        for number in 0..<20 {
            try sandbox.write("text \(number)", to: "a")
            let id = try store.preserveByCopying(try sandbox.file("a"), path: path, cause: .claim)
            try store.drop(id, reason: "the test is done with it")
            #expect(try sandbox.status(".truce/store/kept.log").size < 150_000)
        }
    }
}
