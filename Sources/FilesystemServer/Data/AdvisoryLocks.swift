// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// Files that their programs lock themselves.
///
/// A file is one from the first time that a program was seen to lock it by a writable descriptor. It stops being one some
/// time after the last such handle was closed.
final class AdvisoryLocks: Sendable {
    private struct Entry {
        weak var node: Node?
        /// The names of the programs that were seen to lock it.
        var programs: Set<[UInt8]> = []
        /// The open handles of these programs.
        var handles: Set<HandleID> = []
        /// The time at which the entry is removed; nil while there are such handles.
        var end: Instant?
    }

    private struct State {
        var entries: [NodeID: Entry] = [:]
        /// Files with a running poll of their writers.
        var looked: Set<NodeID> = []
    }

    /// How long a file counts as locked by its programs after they have all closed it.
    static let memory = TimeSpan.seconds(60)
    /// The most files that are remembered.
    private static let most = 4096

    private let state = Mutex(State())
    private let count = Atomic<Int>(0)

    /// Whether there are no such files; the fast paths check only this.
    var isEmpty: Bool { count.load(ordering: .relaxed) == 0 }

    /// Whether programs were seen to lock a file recently.
    func contains(_ node: Node) -> Bool {
        !isEmpty && state.withLock { $0.entries[node.id]?.node === node }
    }

    /// Whether a program of that name was seen to lock a file.
    func isKnown(_ program: [UInt8], on node: Node) -> Bool {
        state.withLock { state in
            guard let entry = state.entries[node.id], entry.node === node else { return false }
            return entry.programs.contains(program)
        }
    }

    /// Notes that a program was seen to lock a file by a handle, which is still open.
    func note(_ program: [UInt8], by handle: Handle) {
        let node = handle.node
        change { state in
            guard state.entries.count < Self.most || state.entries[node.id] != nil else { return }
            var entry = state.entries[node.id] ?? Entry()
            // The number may belong to another file now.
            if entry.node !== node { entry = Entry(node: node) }
            entry.programs.insert(program)
            entry.handles.insert(handle.id)
            entry.end = nil
            state.entries[node.id] = entry
        }
    }

    /// Notes a closed handle. If it was the file's last one with a lock, returns when the file is to be forgotten.
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

    /// Returns true if no poll of a file's writers runs. Then the caller polls, until ``endPoll(at:)``.
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
    /// The access pattern by which a handle can share the file with others.
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
    /// Whether it was opened to read and write the existing contents.
    var mayReadAndWrite: Bool { flags & (O_ACCMODE | O_TRUNC) == O_RDWR }

    /// Whether both handles belong to programs that lock the file: then neither waits for the other.
    func locks(like other: Handle) -> Bool {
        locksFile && other.locksFile
    }
}
