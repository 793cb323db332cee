// SPDX-License-Identifier: Apache-2.0
import LinuxSystem
import Synchronization

/// The latest copies of files that programs only append to (D125).
///
/// Each of several appending writers has the present contents preserved, and each copy begins with all of the copy before. A
/// log would be preserved once for each of its lines. So the later copy stands for both, after a comparison of their bytes.
struct GrownFiles: Sendable {
    struct Pair: Sendable {
        let former: VersionID
        let later: VersionID
    }

    private struct File: Hashable {
        let device: UInt64
        let inode: UInt64
    }

    /// The most remembered files. A forgotten file only leaves a copy that could have been removed.
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
        // Concurrent copies may be completed in another order than that of their IDs.
        let (former, later) = known.id < entry.id ? (known, entry) : (entry, known)
        last[file] = later
        // With another path or other rights, the later copy cannot replace the former copy for every reader.
        guard former.path == later.path, former.rights == later.rights else { return }
        pairs.append(Pair(former: former.id, later: later.id))
    }

    /// Returns the pairs that were not compared yet.
    mutating func takePairs() -> [Pair] {
        defer { pairs = [] }
        return pairs
    }
}

extension VersionFiles {
    /// Preserves a file like ``copy(_:_:limit:)``; call ``letGoOfGrown(limit:)`` afterwards.
    func copyGrown(
        _ file: borrowing OwnedDescriptor, _ request: PreservationRequest, limit: Int
    ) throws(StoreError) -> VersionID {
        let entry = try copied(file, request, limit: limit)
        // A copy that shares its blocks with the document takes no room.
        if entry.method != .reflink { withState { $0.grown.insert(entry) } }
        return entry.id
    }

    /// Drops each copy that the next copy begins with, and returns the dropped ones.
    func letGoOfGrown(limit: Int) -> [VersionID] {
        withState { $0.grown.takePairs() }.compactMap { pair in
            let former = pair.former
            do throws(StoreError) {
                guard let size = try sizeHeld(of: former, by: pair.later, limit: limit) else { return nil }
                try drop(former, LogLine(dropping: former, heldBy: pair.later, size: size, at: clock()))
                return former
            } catch {
                // Another caller may have removed either copy.
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

    /// Returns the size of a version if another version begins with all of it. Nil if it does not, or if the version is larger
    /// than `limit`.
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

    /// Opens the file that holds a copy. If the copy was dropped for a later one, `end` becomes the offset where it ends there.
    private func openHolder(of id: VersionID, end: inout Int?) throws(StoreError) -> OwnedDescriptor {
        var holder = id
        while true {
            do throws(StoreError) {
                return try open(holder)
            } catch .noSuchEntry {
                // Each holder has a later ID, so the loop ends.
                guard let found = try find(id), found.holder > holder else { throw .noSuchEntry }
                (holder, end) = (found.holder, found.end)
            }
        }
    }
}
