// SPDX-License-Identifier: Apache-2.0
import Arbitration
import Coordination
import Testing

/// Checks limits that are reached only after many events, too many for a scenario file.
@Suite("Limits of names that are not yet sent to presenters")
struct NameLimitTests {
    /// Rule N8: the access sessions of all presenters share one limit of unsent names. The limit does not grow with the number
    /// of presenters.
    @Test func thousandsOfPresentersShareOneLimitOfNamesThatAreNotYetSent() {
        var (most, told) = (0, 0)
        var arbiter = Arbiter(bounds: Bounds())
        var effects: [Effect] = []
        let (directory, start) = (ItemID(1), Instant(nanoseconds: 0))
        let count = 4096
        arbiter.handle(.placed(directory, DirectoryInfo(in: nil)), at: start, into: &effects)
        for number in 1...count {
            let party = Party(process: ProcessID(number: 50, started: 1), ancestors: [])
            let presenter = Presenter(PresenterID(UInt64(number)), of: directory, by: party, .all)
            arbiter.handle(.presented(presenter), at: start, into: &effects)
        }
        let archiver = Party(process: ProcessID(number: 100, started: 1), ancestors: [])
        for number in 100..<120 as Range<UInt64> {
            effects = []
            arbiter.handle(
                .created(ItemID(number), at: Place(in: directory), by: archiver, under: nil), at: start,
                into: &effects)
            told += effects.count { if case .tell = $0 { true } else { false } }
            most = max(most, Int(number - 99) * count - told)
        }
        // Each access session has at most eight unsent names.
        #expect(most == 32_768 - count)
        #expect(told == 16 * count)
    }

    /// Rule N8: the number of names that an access session has not yet sent to presenters is limited.
    @Test func anAccessSessionSendsItsNamesWhenTheyReachTheLimit() {
        var arbiter = Arbiter(bounds: Bounds())
        var effects: [Effect] = []
        let directory = ItemID(1)
        let start = Instant(nanoseconds: 0)
        let editor = Party(process: ProcessID(number: 50, started: 1), ancestors: [])
        let archiver = Party(process: ProcessID(number: 100, started: 1), ancestors: [])
        arbiter.handle(.placed(directory, DirectoryInfo(in: nil)), at: start, into: &effects)
        let presenter = Presenter(PresenterID(1), of: directory, by: editor, .all)
        arbiter.handle(.presented(presenter), at: start, into: &effects)

        func create(_ numbers: Range<UInt64>) -> [ItemID] {
            effects = []
            for number in numbers {
                let place = Place(in: directory)
                arbiter.handle(
                    .created(ItemID(number), at: place, by: archiver, under: nil), at: start, into: &effects)
            }
            return told()
        }
        func told() -> [ItemID] {
            effects.compactMap { effect in
                guard case .tell(let notice) = effect, notice.kind == .subitemDidAppear else { return nil }
                return notice.subitem?.item
            }
        }
        #expect(create(100..<355).isEmpty)
        #expect(create(355..<356) == (100..<356).map { ItemID($0) })
        // The access session continues, and its presenters get the next names only when the session ends.
        #expect(create(356..<359).isEmpty)
        effects = []
        arbiter.handle(.tick, at: start + Bounds().steps, into: &effects)
        #expect(told() == [356, 357, 358].map { ItemID($0) })
    }
}

@Suite("A dictionary from which most entries were removed")
struct SparseDictionaryTests {
    private final class HashCount {
        var hashes = 0
    }

    private struct Key: Hashable {
        let number: Int
        let count: HashCount

        static func == (one: Key, other: Key) -> Bool { one.number == other.number }

        func hash(into hasher: inout Hasher) {
            count.hashes += 1
            hasher.combine(number)
        }
    }

    @Test("a dictionary frees the memory of removed entries, and each removal computes only a few hashes")
    func aDictionaryFreesTheMemoryOfRemovedEntriesAndComputesFewHashes() {
        let (entries, remaining) = (16_384, 100)
        let count = HashCount()
        var dictionary: [Key: Int] = [:]
        for number in 0..<entries { dictionary[Key(number: number, count: count)] = number }
        let (full, added) = (dictionary.capacity, count.hashes)
        for number in remaining..<entries {
            dictionary[Key(number: number, count: count)] = nil
            dictionary.shrinkIfSparse()
        }
        #expect(dictionary.count == remaining)
        #expect(dictionary.values.sorted() == Array(0..<remaining))
        #expect(dictionary.capacity < full / 8)
        #expect(count.hashes - added < 4 * entries)
    }
}
