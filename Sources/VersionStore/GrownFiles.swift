// SPDX-License-Identifier: Apache-2.0
import LinuxSystem
import Synchronization

/// What was copied last of files that are only appended to.
///
/// Each of those who append beside each other has what is there kept, and the next copy begins with all of the one before: a log
/// would be kept once for every line of it. So the later one stands for both. It is compared, and not believed, that it does.
struct GrownFiles: Sendable {
    private struct File: Hashable {
        let device: UInt64
        let inode: UInt64
    }

    /// One that is forgotten leaves a copy that could have gone, no more.
    private static let most = 256

    private var last: [File: KeptEntry] = [:]

    /// Remembers a copy, and returns the one before it that it may stand for: of the same name and for the same readers.
    mutating func replace(with entry: KeptEntry) -> KeptEntry? {
        let file = File(device: entry.device, inode: entry.inode)
        if last.count >= Self.most, last[file] == nil { last = [:] }
        let former = last.updateValue(entry, forKey: file)
        return former.flatMap { $0.path == entry.path && $0.rights == entry.rights ? $0 : nil }
    }
}

extension KeptFiles {
    /// Keeps a file like ``copy(_:path:cause:limit:)``, and lets go of the copy before it if the new one holds all of that.
    func copyGrown(
        _ file: borrowing OwnedDescriptor, path: [UInt8], cause: KeepCause, limit: Int
    ) throws(StoreError) -> (id: KeptID, replaced: KeptID?) {
        let entry = try copied(file, path: path, cause: cause, limit: limit)
        let former = state.withLock { $0.grown.replace(with: entry) }
        guard let former, former.id != entry.id else { return (entry.id, nil) }
        // Whatever fails here, both are kept.
        do throws(StoreError) {
            guard try holdsAll(entry.id, of: former.id, limit: limit) else { return (entry.id, nil) }
            try drop(former.id, reason: "kept/\(entry.id) begins with all of it")
            return (entry.id, former.id)
        } catch {
            if error != .noSuchEntry { report("kept/\(former.id) need not be kept, and is (\(error))") }
            return (entry.id, nil)
        }
    }

    /// Whether one kept file begins with what another one holds. Of more than is ever copied it is not looked at.
    private func holdsAll(_ later: KeptID, of former: KeptID, limit: Int) throws(StoreError) -> Bool {
        let former = try open(former)
        let later = try open(later)
        return try storing { () throws(Errno) in
            let (size, room) = (Int(try former.status().size), Int(try later.status().size))
            guard size <= min(room, limit) else { return false }
            var offset = 0
            while offset < size {
                let bytes = try former.read(at: offset, count: min(size - offset, 1 << 18))
                guard !bytes.isEmpty, try later.read(at: offset, count: bytes.count) == bytes else {
                    return false
                }
                offset += bytes.count
            }
            return true
        }
    }
}
