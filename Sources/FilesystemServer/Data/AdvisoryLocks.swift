// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// The files that programs lock themselves, by flock(2) or fcntl(2).
///
/// A file gets an entry when the daemon first sees that a program has locked the file by a writable descriptor. When
/// the last handle with such a lock is closed, the daemon removes the entry after the time ``memory``.
final class AdvisoryLocks: Sendable {
    private struct Entry {
        weak var node: Node?
        /// The names of the programs that have locked the file.
        var programs: Set<[UInt8]> = []
        /// The open handles by which programs have locked the file.
        var handles: Set<HandleID> = []
        /// The time at which the entry is removed; nil while `handles` is not empty.
        var end: Instant?
    }

    private struct State {
        var entries: [NodeID: Entry] = [:]
        /// The files for which the daemon is polling the writers now, to find out which writers hold a lock.
        var looked: Set<NodeID> = []
    }

    /// For how long a file stays in the table after the last handle with a lock was closed.
    static let memory = TimeSpan.seconds(60)
    /// The most files that have an entry at the same time.
    private static let most = 4096

    private let state = Mutex(State())
    private let count = Atomic<Int>(0)

    /// Whether no file has an entry. Requests check this before they search the entries, because this check takes no mutex.
    var isEmpty: Bool { count.load(ordering: .relaxed) == 0 }

    /// Whether the file has an entry: a program has locked the file, and the entry has not been removed yet.
    func contains(_ node: Node) -> Bool {
        !isEmpty && state.withLock { $0.entries[node.id]?.node === node }
    }

    /// Whether a program with the name `program` has locked the file.
    func isKnown(_ program: [UInt8], on node: Node) -> Bool {
        state.withLock { state in
            guard let entry = state.entries[node.id], entry.node === node else { return false }
            return entry.programs.contains(program)
        }
    }

    /// Notes that a program with the name `program` has locked a file by `handle`, which is still open.
    func note(_ program: [UInt8], by handle: Handle) {
        let node = handle.node
        change { state in
            guard state.entries.count < Self.most || state.entries[node.id] != nil else { return }
            var entry = state.entries[node.id] ?? Entry()
            // The kernel may have used the node's number for another file after this entry was made. The entry is then
            // about the former file.
            if entry.node !== node { entry = Entry(node: node) }
            entry.programs.insert(program)
            entry.handles.insert(handle.id)
            entry.end = nil
            state.entries[node.id] = entry
        }
    }

    /// Notes that a handle is closed. If it was the last handle with a lock on its file, returns the time at which the file's
    /// entry is to be removed.
    func left(_ handle: Handle, at now: Instant) -> Instant? {
        state.withLock { state in
            let id = handle.node.id
            guard state.entries[id]?.handles.remove(handle.id) != nil,
                state.entries[id]?.handles.isEmpty ?? false
            else { return nil }
            let end = now + Self.memory
            state.entries[id]?.end = end
            return end
        }
    }

    func forget(_ id: NodeID, at now: Instant) {
        change { state in
            if let end = state.entries[id]?.end, end <= now { state.entries[id] = nil }
        }
    }

    /// Returns true if no other caller is polling the file's writers. In this case the caller polls the writers, and then calls
    /// ``endPoll(at:)``.
    func beginPoll(at node: Node) -> Bool { state.withLock { $0.looked.insert(node.id).inserted } }
    func endPoll(at node: Node) { state.withLock { _ = $0.looked.remove(node.id) } }

    private func change(_ body: (inout State) -> Void) {
        state.withLock { state in
            body(&state)
            count.store(state.entries.count, ordering: .relaxed)
        }
    }
}

extension DataPlane {
    /// How the program will use the file, if this allows other programs to use the file at the same time. The program only
    /// appends to the file, or it locks the file itself.
    func accessPattern(of handle: Handle) -> ClaimRequest.AccessPattern {
        let accessPattern: ClaimRequest.AccessPattern = handle.onlyAppends ? .appends : []
        guard !advisoryLocks.isEmpty, handle.mayReadAndWrite, advisoryLocks.contains(handle.node) else {
            return accessPattern
        }
        handle.expectLock()
        return accessPattern.union(.locks)
    }

    func noteEnd(ofLocksBy handle: Handle) {
        guard !advisoryLocks.isEmpty, let end = advisoryLocks.left(handle, at: Engine.now) else { return }
        let id = handle.node.id
        engine.timers.schedule(at: end.nanoseconds) { [self] in advisoryLocks.forget(id, at: Engine.now) }
    }
}

extension Handle {
    /// Whether the program opened the file to read and write (`O_RDWR`), without truncating it.
    var mayReadAndWrite: Bool { flags & (O_ACCMODE | O_TRUNC) == O_RDWR }

    /// Whether both handles belong to programs that lock the file themselves. Two such programs do not wait for each other.
    func locks(like other: Handle) -> Bool {
        locksFile && other.locksFile
    }
}
