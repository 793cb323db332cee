// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import VersionStore

/// How a merged text comes into its file, so that a killed daemon leaves a whole text there in the end.
///
/// The file stays the same file, with its owner, rights, attributes and links. So it is written in place, which takes two system
/// calls. A record in the store has both texts meanwhile. After a kill, the next daemon completes the merge before it serves
/// requests (D281).
extension SaveMerger {
    /// Replaces the contents of a file that no program has open, and settles the suspicions. Returns whether this succeeded.
    func write(
        _ text: [UInt8], to node: Node, over former: [UInt8], settling suspicions: [Suspicion]
    ) -> Bool {
        guard let store = context.store else { return false }
        let change = sourceWatch.noteOwn(node, .contents)
        defer { sourceWatch.finishOwnChange(node, change) }
        do throws(StoreError) {
            let file = try open(node)
            let record = MergeRecord(
                path: node.path, device: file.status.device, inode: file.status.inode, former: former,
                text: text, versions: suspicions.map(\.version))
            try store.begin(record)
            defer { store.end(record) }
            do throws(Errno) {
                // A change around the mount since the comparison must stay.
                guard try file.descriptor.contents(atMost: former.count) == former else {
                    throw Errno(rawValue: ESTALE)
                }
                try Self.replace(former, by: text, in: file.descriptor)
            } catch {
                throw .io(error)
            }
            context.connection.invalidateContents(of: node.id)
            for suspicion in suspicions { resolve(suspicion, at: node.path) }
            return true
        } catch {
            context.engine.logDocument(node.path, "could not be merged (\(error))")
            return false
        }
    }

    private struct OpenFile: ~Copyable {
        let descriptor: OwnedDescriptor
        let status: FileStatus
    }

    private func open(_ node: Node) throws(StoreError) -> OpenFile {
        do throws(Errno) {
            let descriptor = try node.descriptor().descriptor.reopen(flags: O_RDWR)
            let status = try descriptor.status()
            return OpenFile(descriptor: descriptor, status: status)
        } catch {
            throw .io(error)
        }
    }

    private static func replace(
        _ former: [UInt8], by text: [UInt8], in file: borrowing OwnedDescriptor
    ) throws(Errno) {
        let status = try file.status()
        do throws(Errno) {
            try ThreadIdentity.withQuota(of: status.user, group: status.group) { () throws(Errno) in
                try file.replaceContents(by: text)
            }
        } catch {
            // Both texts are preserved. The file gets its former text back, as far as there is room.
            try file.replaceContents(by: former)
            throw error
        }
    }

    /// The version of the other program is no conflict: the document has its changes.
    private func resolve(_ suspicion: Suspicion, at path: [UInt8]) {
        context.engine.counters.merged.count()
        let attribution = Attribution(of: suspicion.saver, path: path)
        do throws(StoreError) { _ = try context.store?.resolve(suspicion.version) } catch {
            context.engine.logAction(
                "left the version \(suspicion.version) undecided (\(error))", attribution)
        }
        context.engine.logAction(
            "had not read the present contents; its changes were merged with them (\(suspicion.version))",
            attribution)
    }
}

// What a kill in the middle of a merge has left.
extension SaveMerger {
    /// Completes the merges in which the last daemon was killed. Must be called before requests are served. May block.
    ///
    /// A file that was changed in the meantime stays as it is. Then the version of the other program stays a conflict.
    func completeMerges(below root: Node) {
        guard let store = context.store else { return }
        for record in store.interruptedMerges {
            do throws(Errno) {
                if try complete(record, below: root) { resolve(record, in: store) }
            } catch {
                context.engine.logDocument(
                    record.path,
                    "was being merged when the daemon ended, and the merge could not be completed (\(error))")
                if [.noSpace, .quotaExceeded].contains(error) { continue }
            }
            store.end(record)
        }
    }

    private func resolve(_ record: MergeRecord, in store: VersionStore) {
        for version in record.versions {
            do throws(StoreError) { _ = try store.resolve(version) } catch {
                context.engine.logDocument(
                    record.path, "is merged, but the version \(version) is still a conflict (\(error))")
            }
        }
    }

    /// Returns whether the file has the merged text.
    private func complete(_ record: MergeRecord, below root: Node) throws(Errno) -> Bool {
        let parts = record.path.split(separator: UInt8(ascii: "/"))
        guard let last = parts.last else { return false }
        let name = NameBytes(Array(last))
        let above = Array(parts.dropLast().joined(separator: [UInt8(ascii: "/")]))
        let source = try root.descriptor()
        let path = try name.withName { (name) throws(Errno) in
            if above.isEmpty { return try source.descriptor.path(of: name) }
            return try source.descriptor.openResolved(above).path(of: name)
        }
        let status = try path.status()
        guard status.isRegularFile, status.inode == record.inode else { return false }
        let file = try path.reopen(flags: O_RDWR)
        guard status.size <= UInt64(max(record.former.count, record.text.count)) else { return false }
        let contents = try file.contents(atMost: max(record.former.count, record.text.count))
        if contents == record.text { return true }
        guard contents != record.former, record.canBeInterrupted(as: contents) else { return false }
        try Self.replace(contents, by: record.text, in: file)
        return true
    }
}

extension OwnedDescriptor {
    fileprivate borrowing func replaceContents(by bytes: [UInt8]) throws(Errno) {
        let result: Result<Int, Errno> = bytes.withUnsafeBytes { buffer in
            do throws(Errno) { return .success(try write(buffer, at: 0)) } catch { return .failure(error) }
        }
        guard try result.get() == bytes.count else { throw Errno(rawValue: ENOSPC) }
        try truncateOpenFile(to: Int64(bytes.count))
    }
}
