// SPDX-License-Identifier: Apache-2.0
import LinuxSystem
import Synchronization

/// The latest copies of files that programs only append to (D125: the last of these copies stays).
///
/// If several programs append to a log, the store preserves the whole log once for each new line. Each copy begins with all
/// bytes of the copy before it. After a comparison of the bytes, the store removes the earlier copy, and reads its contents
/// from the later copy.
struct GrownFiles: Sendable {
    struct Pair: Sendable {
        let former: VersionID
        let later: VersionID
    }

    private struct File: Hashable {
        let device: UInt64
        let inode: UInt64
    }

    /// The most files that are remembered. If a file is forgotten, its latest copy is never compared with the next copy, and
    /// stays in the store.
    private static let most = 256

    private var last: [File: VersionRecord] = [:]
    private var pairs: [Pair] = []

    mutating func insert(_ entry: VersionRecord) {
        let file = File(device: entry.device, inode: entry.inode)
        if last.count >= Self.most, last[file] == nil {
            let oldest = last.min { $0.value.id < $1.value.id }
            if let oldest { last[oldest.key] = nil }
        }
        guard let known = last[file] else {
            last[file] = entry
            return
        }
        // Two copies of one file can be made at the same time. The copy with the lower ID is not always completed before the
        // other copy.
        let (former, later) = known.id < entry.id ? (known, entry) : (entry, known)
        last[file] = later
        // If the path or the rights differ, some users can read the earlier copy, but not the later copy. So both copies stay.
        guard former.path == later.path, former.rights == later.rights else { return }
        pairs.append(Pair(former: former.id, later: later.id))
    }

    /// Returns the pairs of an earlier and a later copy that were not compared yet, and removes them from the list.
    mutating func takePairs() -> [Pair] {
        defer { pairs = [] }
        return pairs
    }
}

extension VersionFiles {
    /// Preserves a file that programs only append to. To remove earlier copies of the file, the caller must call
    /// ``letGoOfGrown(limit:)`` later.
    func copyGrown(
        _ file: borrowing OwnedDescriptor, _ request: PreservationRequest, limit: Int
    ) throws(StoreError) -> VersionID {
        let entry = try copied(file, request, limit: limit)
        // A copy by reflink shares its blocks with the document, so its removal would free no room.
        if entry.method != .reflink { withState { $0.grown.insert(entry) } }
        return entry.id
    }

    /// Drops each copy if the next copy of the same file begins with all of its bytes. Returns the dropped copies.
    func letGoOfGrown(limit: Int) -> [VersionID] {
        withState { $0.grown.takePairs() }.compactMap { pair in
            let former = pair.former
            do throws(StoreError) {
                guard let size = try sizeHeld(of: former, by: pair.later, limit: limit) else { return nil }
                try drop(former, LogLine(dropping: former, heldBy: pair.later, size: size, at: clock()))
                return former
            } catch {
                // Another thread has possibly removed one of the two copies. That is no error.
                if error != .noSuchEntry {
                    report("kept/\(former) was not removed, though kept/\(pair.later) holds it (\(error))")
                }
                return nil
            }
        }
    }

    func isSame(_ id: VersionID, as former: VersionID) throws(StoreError) -> Bool {
        let size = try withStoreErrors { () throws(Errno) in
            try directory.path(of: id.description).status().size
        }
        return try sizeHeld(of: former, by: id, limit: .max) == Int(size)
    }

    /// Returns the size of the version `former`, if the version `later` begins with all of its bytes. Otherwise, or if `former`
    /// is larger than `limit`, returns nil.
    private func sizeHeld(of former: VersionID, by later: VersionID, limit: Int) throws(StoreError) -> Int? {
        var end: Int?
        let former = try open(former)
        let later = try openHolder(of: later, end: &end)
        return try withStoreErrors { () throws(Errno) in
            let size = Int(try former.status().size)
            let room = if let end { end } else { Int(try later.status().size) }
            guard size <= min(room, limit) else { return nil }
            var offset = 0
            while offset < size {
                let bytes = try former.read(at: offset, count: min(size - offset, 1 << 16))
                guard !bytes.isEmpty, try later.read(at: offset, count: bytes.count) == bytes else {
                    return nil
                }
                offset += bytes.count
            }
            return size
        }
    }

    /// Opens the file that holds the contents of a copy. If the copy was dropped, the file of a later copy that begins with its
    /// bytes is opened. `end` is then set to the offset in that file at which the dropped copy ends.
    private func openHolder(of id: VersionID, end: inout Int?) throws(StoreError) -> OwnedDescriptor {
        var holder = id
        while true {
            do throws(StoreError) {
                return try open(holder)
            } catch .noSuchEntry {
                // Each pass of the loop uses a later ID than the pass before, so the loop ends.
                guard let found = try find(id), found.holder > holder else { throw .noSuchEntry }
                (holder, end) = (found.holder, found.end)
            }
        }
    }
}
