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

extension CoordinatedFilesystem {
    /// The most writers that are polled each time.
    private static let mostLookers = 8

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

    /// Begins to poll the writers of a file when an open waits for it, in case their programs lock the file themselves.
    ///
    /// Polling goes on while any open waits. Most waits end before the first poll. A program may lock the file some time
    /// after its open, so the poll is repeated at growing intervals.
    func scheduleLockPoll(on node: Node) {
        guard advisoryLocks.beginPoll(at: node) else { return }
        if advisoryLocks.contains(node) {
            return pollLocks(on: node, thenAfter: engine.bounds.firstObservationDelay)
        }
        scheduleLockPoll(on: node, after: engine.bounds.firstObservationDelay)
    }

    private func scheduleLockPoll(on node: Node, after pause: TimeSpan) {
        let next = min(TimeSpan(nanoseconds: 2 * pause.nanoseconds), engine.bounds.idle)
        engine.timers.schedule(at: (Engine.now + pause).nanoseconds) { [self] in
            pollLocks(on: node, thenAfter: max(next, engine.bounds.firstObservationDelay))
        }
    }

    private func pollLocks(on node: Node, thenAfter pause: TimeSpan) {
        node.threads(for: .processObservation).run { [self] in
            if needsLockPoll(for: node) { pollLocks(on: node) }
            if needsLockPoll(for: node) { return scheduleLockPoll(on: node, after: pause) }
            advisoryLocks.endPoll(at: node)
            // An open that began to wait meanwhile has started no poll.
            if needsLockPoll(for: node) { scheduleLockPoll(on: node) }
        }
    }

    private func needsLockPoll(for node: Node) -> Bool {
        !hasEnded && expectedRetries.hasWaitingOpen(node.item) && !handles.writers(on: node).isEmpty
    }

    private func pollLocks(on node: Node) {
        let unknown = handles.writers(on: node).filter { !$0.isObservedLocker }
        for handle in unknown.prefix(Self.mostLookers)
        where processes.holdsLock(thread: handle.thread, or: handle.process, on: node) {
            advisoryLocks.note(handle.identify().program, by: handle)
            if handle.noteObservedLock() { tellLock(of: handle) }
            // If it was closed meanwhile, no other call would note the end of its locks.
            if handles[handle.id] == nil { noteEnd(ofLocksBy: handle) }
        }
        guard advisoryLocks.contains(node) else { return }
        for handle in handles.all(on: node) where mayBeExpectedToLock(handle) { noteLock(of: handle) }
        for open in expectedRetries.opens(waitingFor: node.item) {
            let handle = open.handle
            guard handle.node === node else { continue }
            if mayBeExpectedToLock(handle) { noteLock(of: handle) } else { letPass(handle) }
        }
    }

    private func noteLock(of handle: Handle) {
        if handle.expectLock() { tellLock(of: handle) }
    }

    private func tellLock(of handle: Handle) {
        if handle.hasClaim { engine.noteLock(of: handle.currentClaim) }
    }

    /// Whether a program is expected to lock a file that others lock.
    /// - Expected: it opens the file to read and write, or it has the name of a program that was seen to lock it.
    /// - Not expected: it truncates the file, since a later lock would protect nothing.
    /// - Not expected by its name: a shell, which opens files for any other program.
    private func mayBeExpectedToLock(_ handle: Handle) -> Bool {
        if handle.locksFile { return true }
        if handle.truncates { return false }
        if handle.mayReadAndWrite { return true }
        let program = handle.identify().program
        return !processes.programs.isShell(program) && advisoryLocks.isKnown(program, on: handle.node)
    }

    /// Lets an open of an empty file go ahead of the programs that lock it. An empty file exists to be locked, and has no
    /// contents to lose.
    /// - At once: a program with the name of a locker.
    /// - At once: a shell, since it may have locked the file before it executed a program with another name.
    /// - After the lockers had the file for `idle` without writing: any other program. Its writes are preserved as usual.
    private func letPass(_ opener: Handle) {
        let node = opener.node
        guard node.presentStatus?.size == 0 else { return }
        let program = opener.identify().program
        let isKnown = processes.programs.isShell(program) || advisoryLocks.isKnown(program, on: node)
        for handle in handles.writers(on: node)
        where handle.hasClaim && handle.isObservedLocker {
            let isOld = Engine.now.since(handle.opened) >= engine.bounds.idle
            if isKnown || isOld { engine.noteNothingToLose(by: handle.currentClaim) }
        }
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
