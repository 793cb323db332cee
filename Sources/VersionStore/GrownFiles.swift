// SPDX-License-Identifier: Apache-2.0
import LinuxSystem
import Synchronization

/// What was copied last of files that are only appended to (D125).
///
/// Each of those who append beside each other has what is there kept, and the next copy begins with all of the one before: a log
/// would be kept once for every line of it. So the later one stands for both. It is compared, and not believed, that it does.
struct GrownFiles: Sendable {
    struct Pair: Sendable {
        let former: VersionID
        let later: VersionID
    }

    private struct File: Hashable {
        let device: UInt64
        let inode: UInt64
    }

    /// One that is forgotten leaves a copy that could have gone, no more.
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
        // Copies that are made at once are not complete in the order of their IDs.
        let (former, later) = known.id < entry.id ? (known, entry) : (entry, known)
        last[file] = later
        // Of another name, or for other readers, it is another one to who looks for it.
        guard former.path == later.path, former.rights == later.rights else { return }
        pairs.append(Pair(former: former.id, later: later.id))
    }

    /// Those not compared yet.
    mutating func takePairs() -> [Pair] {
        defer { pairs = [] }
        return pairs
    }
}

extension VersionFiles {
    /// Keeps a file like ``copy(_:path:cause:limit:)``; ``letGoOfGrown(limit:)`` is to follow.
    func copyGrown(
        _ file: borrowing OwnedDescriptor, _ request: PreservationRequest, limit: Int
    ) throws(StoreError) -> VersionID {
        let entry = try copied(file, request, limit: limit)
        // What shares its blocks with the document takes no room.
        if entry.method != .reflink { state.withLock { $0.grown.insert(entry) } }
        return entry.id
    }

    /// Lets go of each copy that the one after it begins with, and returns them.
    func letGoOfGrown(limit: Int) -> [VersionID] {
        state.withLock { $0.grown.takePairs() }.compactMap { pair in
            let former = pair.former
            do throws(StoreError) {
                guard let size = try sizeHeld(of: former, by: pair.later, limit: limit) else { return nil }
                try drop(former, LogLine(dropping: former, heldBy: pair.later, size: size, at: clock()))
                return former
            } catch {
                // Somebody may have removed either.
                if error != .noSuchEntry {
                    report("kept/\(former) was not let go of, though kept/\(pair.later) holds it (\(error))")
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

    /// The size of what is kept under an ID that what is kept under another one begins with; nil if it does not. Of more than is ever
    /// copied it is not looked at.
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

    /// Opens what holds a copy, which may have been let go of for one that is later still, and says where it ends in that.
    private func openHolder(of id: VersionID, end: inout Int?) throws(StoreError) -> OwnedDescriptor {
        var holder = id
        while true {
            do throws(StoreError) {
                return try open(holder)
            } catch .noSuchEntry {
                // A later one each time, so this ends.
                guard let found = try find(id), found.holder > holder else { throw .noSuchEntry }
                (holder, end) = (found.holder, found.end)
            }
        }
    }
}
