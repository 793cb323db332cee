// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import LinuxSystem
import VersionStore

/// The generations of documents, as they outlive a clean end of the daemon (D225).
///
/// Only files on the file system of the source are saved. Their device and mount have other numbers at each mount, so the
/// numbers of the source's root stand for them.
struct SavedSightings: Sendable {
    private static let title = "truce generations 1"

    let epoch: UInt64
    let latest: UInt64
    var generations: [FileKey: SightingTable<FileKey>.SavedGeneration] = [:]

    init(epoch: UInt64, latest: UInt64, generations: [FileKey: SightingTable<FileKey>.SavedGeneration]) {
        (self.epoch, self.latest, self.generations) = (epoch, latest, generations)
    }

    /// Takes the generations from the store. If the store has none, begins a new epoch.
    init(taking store: VersionStore?, below root: FileKey) {
        if let text = store?.takeSightings(), let saved = Self(parsing: text, below: root) {
            self = saved
        } else {
            self.init(epoch: UInt64(bitPattern: WallClock.nanoseconds()), latest: 0, generations: [:])
        }
    }

    /// Reads the text of the file. Returns nil if the text is not complete.
    init?(parsing text: [UInt8], below root: FileKey) {
        var lines = text.split(separator: UInt8(ascii: "\n")).makeIterator()
        guard let title = lines.next(), String(decoding: title, as: UTF8.self) == Self.title,
            let head = lines.next().map(Self.numbers), head.count == 3
        else { return nil }
        self.init(epoch: UInt64(bitPattern: head[0]), latest: UInt64(bitPattern: head[1]), generations: [:])
        while let line = lines.next() {
            let numbers = Self.numbers(line)
            guard numbers.count == 6 else { return nil }
            let born = FileStatus.Time(
                seconds: numbers[1], nanoseconds: UInt32(truncatingIfNeeded: numbers[2]))
            let key = FileKey(
                device: root.device, inode: UInt64(bitPattern: numbers[0]), mount: root.mount, born: born)
            generations[key] = SightingTable<FileKey>.SavedGeneration(
                number: UInt64(bitPattern: numbers[3]), size: UInt64(bitPattern: numbers[4]),
                modified: numbers[5])
        }
        guard generations.count == Int(head[2]) else { return nil }
    }

    private static func numbers(_ line: ArraySlice<UInt8>) -> [Int64] {
        line.split(separator: UInt8(ascii: " ")).compactMap { Int64(String(decoding: $0, as: UTF8.self)) }
    }

    func text(below root: FileKey) -> [UInt8] {
        let own = generations.filter { $0.key.device == root.device && $0.key.mount == root.mount }
        var text =
            "\(Self.title)\n\(Int64(bitPattern: epoch)) \(Int64(bitPattern: latest)) \(own.count)\n"
        for (key, generation) in own {
            let inode = Int64(bitPattern: key.inode)
            text +=
                "\(inode) \(key.born.seconds) \(key.born.nanoseconds) \(Int64(bitPattern: generation.number))"
            text += " \(Int64(bitPattern: generation.size)) \(generation.modified)\n"
        }
        return Array(text.utf8)
    }

    func save(to store: VersionStore?, below root: FileKey) { store?.saveSightings(text(below: root)) }
}
