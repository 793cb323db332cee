// SPDX-License-Identifier: Apache-2.0
import LinuxSystem

/// A merge that is being written into a file. If the daemon is killed in the middle, the next daemon completes it (D281).
package struct MergeRecord: Hashable, Sendable {
    /// The path of the file from the root of the source.
    package let path: [UInt8]
    package let device: UInt64
    package let inode: UInt64
    /// The contents of the file before the merge.
    package let former: [UInt8]
    /// The merged text.
    package let text: [UInt8]
    /// The versions with the contents of the other program. The merge resolves them.
    package let versions: [VersionID]

    package init(
        path: [UInt8], device: UInt64, inode: UInt64, former: [UInt8], text: [UInt8], versions: [VersionID]
    ) {
        (self.path, self.device, self.inode) = (path, device, inode)
        (self.former, self.text, self.versions) = (former, text, versions)
    }

    /// Whether contents can be what a kill has left: each byte is the former one or the merged one.
    package func canBeInterrupted(as contents: [UInt8]) -> Bool {
        let (least, most) = (min(former.count, text.count), max(former.count, text.count))
        guard least <= contents.count, contents.count <= most else { return false }
        return contents.indices.allSatisfy { index in
            index < former.count && contents[index] == former[index]
                || index < text.count && contents[index] == text[index]
        }
    }
}

// The form in the store: a line with a title, a line with numbers, a line with versions, and then the path and both texts.
extension MergeRecord {
    private static let title = "truce merge 1"
    private static let lineFeed = UInt8(ascii: "\n")

    var bytes: [UInt8] {
        let numbers = "\(device) \(inode) \(path.count) \(former.count) \(text.count)"
        let ids = versions.map(\.description).joined(separator: " ")
        return Array("\(Self.title)\n\(numbers)\n\(ids)\n".utf8) + path + former + text
    }

    /// Returns nil if the record is not complete, because the daemon was killed before it began to merge.
    init?(_ bytes: [UInt8]) {
        let lines = bytes.split(separator: Self.lineFeed, maxSplits: 3, omittingEmptySubsequences: false)
        guard lines.count == 4, String(decoding: lines[0], as: UTF8.self) == Self.title else { return nil }
        let words = String(decoding: lines[1], as: UTF8.self).split(separator: " ")
        let numbers = words.compactMap { UInt64($0) }
        let ids = String(decoding: lines[2], as: UTF8.self).split(separator: " ")
        let versions = ids.compactMap { VersionID(String($0)) }
        let counts = numbers.dropFirst(2).compactMap { Int(exactly: $0) }
        guard words.count == 5, counts.count == 3, versions.count == ids.count else { return nil }
        let texts = Array(lines[3])
        guard counts.allSatisfy({ $0 <= texts.count }), counts.reduce(0, +) == texts.count else { return nil }
        let (path, rest) = (texts[..<counts[0]], texts[counts[0]...])
        self.init(
            path: Array(path), device: numbers[0], inode: numbers[1], former: Array(rest.prefix(counts[1])),
            text: Array(rest.dropFirst(counts[1])), versions: versions)
    }
}

extension VersionStore {
    private static let prefix = "merging-"
    private static let mostBytes = 4 << 20

    /// Notes that a merge is about to be written. Throws if the merge must not be written. May block.
    ///
    /// The record outlives a kill, but it is not brought to the disk.
    package func begin(_ record: MergeRecord) throws(StoreError) {
        guard let files, !files.isReadOnly else { throw .readOnly }
        let bytes = record.bytes
        guard bytes.count <= Self.mostBytes else { throw .tooLarge(limit: Self.mostBytes) }
        let name = Self.name(of: record)
        do throws(Errno) {
            try Self.remove(name, from: files.home)
            let file = try files.home.create(name)
            let written: Result<Int, Errno> = bytes.withUnsafeBytes { bytes in
                do throws(Errno) { return .success(try file.write(bytes, at: 0)) } catch {
                    return .failure(error)
                }
            }
            guard try written.get() == bytes.count else { throw .io }
        } catch {
            end(record)
            throw StoreError(error)
        }
    }

    /// Notes that a merge is complete, or was taken back. May block.
    package func end(_ record: MergeRecord) {
        guard let files else { return }
        do throws(Errno) { try Self.remove(Self.name(of: record), from: files.home) } catch {
            files.report("the record of a merge could not be removed: \(error)")
        }
    }

    /// The merges in which the last daemon was killed. May block.
    package var interruptedMerges: [MergeRecord] {
        guard let files, !files.isReadOnly else { return [] }
        do throws(Errno) {
            var records: [MergeRecord] = []
            for name in try files.home.names() where name.hasPrefix(Self.prefix) {
                let file = try files.home.open(name)
                let size = min(Int(try file.status().size), Self.mostBytes + 1)
                if let record = MergeRecord(try file.read(at: 0, count: size)) {
                    records.append(record)
                } else {
                    try files.home.remove(name)
                }
            }
            return records
        } catch {
            files.report("the records of merges could not be read: \(error)")
            return []
        }
    }

    private static func name(of record: MergeRecord) -> String { "\(prefix)\(record.device)-\(record.inode)" }

    private static func remove(
        _ name: String, from home: borrowing StoreDirectory
    ) throws(Errno) {
        do throws(Errno) { try home.remove(name) } catch {
            guard error == .noEntry else { throw error }
        }
    }
}
