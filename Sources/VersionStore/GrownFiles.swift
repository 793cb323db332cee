// SPDX-License-Identifier: Apache-2.0
import LinuxSystem
import Synchronization

/// What was copied last of files that are only appended to (D125).
///
/// Each of those who append beside each other has what is there kept, and the next copy begins with all of the one before: a log
/// would be kept once for every line of it. So the later one stands for both. It is compared, and not believed, that it does.
struct GrownFiles: Sendable {
    struct Pair: Sendable {
        let former: KeptEntry
        let later: KeptID
    }

    private struct File: Hashable {
        let device: UInt64
        let inode: UInt64
    }

    /// One that is forgotten leaves a copy that could have gone, no more.
    private static let most = 256

    private var last: [File: KeptEntry] = [:]
    private var pairs: [Pair] = []

    mutating func insert(_ entry: KeptEntry) {
        let file = File(device: entry.device, inode: entry.inode)
        if last.count >= Self.most, last[file] == nil {
            let oldest = last.min { $0.value.id < $1.value.id }
            if let oldest { last[oldest.key] = nil }
        }
        // Of another name, or for other readers, it is another one to who looks for it.
        if let former = last.updateValue(entry, forKey: file), former.id < entry.id,
            former.path == entry.path, former.rights == entry.rights
        {
            pairs.append(Pair(former: former, later: entry.id))
        }
    }

    /// Those not compared yet.
    mutating func takePairs() -> [Pair] {
        defer { pairs = [] }
        return pairs
    }
}

extension KeptFiles {
    /// Keeps a file like ``copy(_:path:cause:limit:)``; ``letGoOfGrown(limit:)`` is to follow.
    func copyGrown(
        _ file: borrowing OwnedDescriptor, path: [UInt8], cause: KeepCause, limit: Int
    ) throws(StoreError) -> KeptID {
        let entry = try copied(file, path: path, cause: cause, limit: limit)
        // What shares its blocks takes no room.
        if entry.method == .copy { state.withLock { $0.grown.insert(entry) } }
        return entry.id
    }

    /// Lets go of each copy that the one after it begins with, and returns them.
    func letGoOfGrown(limit: Int) -> [KeptID] {
        state.withLock { $0.grown.takePairs() }.compactMap { pair in
            let former = pair.former.id
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

    /// The size of a kept file that another one begins with; nil if it does not. Of more than is ever copied it is not looked at.
    private func sizeHeld(of former: KeptID, by later: KeptID, limit: Int) throws(StoreError) -> Int? {
        let former = try open(former)
        let later = try open(later)
        return try storing { () throws(Errno) in
            let (size, room) = (Int(try former.status().size), Int(try later.status().size))
            guard size <= min(room, limit) else { return nil }
            var offset = 0
            while offset < size {
                let bytes = try former.read(at: offset, count: min(size - offset, 1 << 18))
                guard !bytes.isEmpty, try later.read(at: offset, count: bytes.count) == bytes else {
                    return nil
                }
                offset += bytes.count
            }
            return size
        }
    }
}
