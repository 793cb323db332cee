// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// Files that their programs lock themselves: from when one was seen to hold a lock by a descriptor that it may write with, until
/// some time after its last such handle is closed.
final class AdvisoryLocks: Sendable {
    private struct Entry {
        weak var node: Node?
        /// What the programs are called that were seen to lock it.
        var programs: Set<[UInt8]> = []
        /// Their open handles.
        var handles: Set<HandleID> = []
        /// When it is forgotten; nil while there are such handles.
        var end: Instant?
    }

    private struct State {
        var entries: [NodeID: Entry] = [:]
        /// Files whose writers are being looked at.
        var looked: Set<NodeID> = []
    }

    /// How long a file is known to be locked by its programs when none of these has it open.
    static let memory = TimeSpan.seconds(60)
    /// More files are not remembered.
    private static let most = 4096

    private let state = Mutex(State())
    private let count = Atomic<Int>(0)

    /// Whether there is none, which is what the fast paths ask.
    var isEmpty: Bool { count.load(ordering: .relaxed) == 0 }

    /// Whether programs were seen to lock a file lately.
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

    /// A program was seen to lock a file by a handle, which is still open.
    func note(_ program: [UInt8], by handle: Handle) {
        let node = handle.node
        change { state in
            guard state.entries.count < Self.most || state.entries[node.id] != nil else { return }
            var entry = state.entries[node.id] ?? Entry()
            // A number may be another file's by now.
            if entry.node !== node { entry = Entry(node: node) }
            entry.programs.insert(program)
            entry.handles.insert(handle.id)
            entry.end = nil
            state.entries[node.id] = entry
        }
    }

    /// A handle was closed. Returns when its file is to be forgotten, if it was the last by which it was seen to be locked.
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

    /// Whether nobody looks at a file's writers; then the caller does, until ``endPoll(at:)``.
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
    /// How many writers are looked at, at most, each time.
    private static let mostLookers = 8

    /// What lets a handle have its file beside others.
    func accessPattern(of handle: Handle) -> ClaimRequest.AccessPattern {
        let accessPattern: ClaimRequest.AccessPattern = handle.onlyAppends ? .appends : []
        guard !advisoryLocks.isEmpty, handle.mayReadAndWrite, advisoryLocks.contains(handle.node) else {
            return accessPattern
        }
        handle.state.withLock { $0.locksFile = true }
        return accessPattern.union(.locks)
    }

    func noteEnd(ofLocksBy handle: Handle) {
        guard !advisoryLocks.isEmpty, let end = advisoryLocks.left(handle, at: Engine.now) else { return }
        let id = handle.node.id
        engine.timers.schedule(at: end.nanoseconds) { [self] in advisoryLocks.forget(id, at: Engine.now) }
    }

    /// An open begins to wait: as long as any waits for the file, its writers are looked at, in case their programs lock the file
    /// themselves. Most waits are over before the first look. The lock may be made after the open that it belongs to, so it is looked
    /// for again, less and less often.
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
            // One that began to wait meanwhile has not begun to look.
            if needsLockPoll(for: node) { scheduleLockPoll(on: node) }
        }
    }

    private func needsLockPoll(for node: Node) -> Bool {
        !hasEnded && expectedRetries.hasWaitingOpen(node.item) && !handles.writers(on: node).isEmpty
    }

    private func pollLocks(on node: Node) {
        let unknown = handles.writers(on: node).filter { !$0.state.withLock { $0.isObservedLocker } }
        for handle in unknown.prefix(Self.mostLookers)
        where processes.holdsLock(thread: handle.thread, or: handle.process, on: node) {
            handle.state.withLock { $0.isObservedLocker = true }
            advisoryLocks.note(handle.identify().program, by: handle)
            noteLock(of: handle)
            // Closed meanwhile: nobody else would say so.
            if handles[handle.id] == nil { noteEnd(ofLocksBy: handle) }
        }
        guard advisoryLocks.contains(node) else { return }
        for handle in handles.all(on: node) where mayBeExpectedToLock(handle) { noteLock(of: handle) }
        for open in expectedRetries.opens(waitingFor: node.item) {
            let handle = open.state.withLock { $0.handle }
            guard handle.node === node else { continue }
            if mayBeExpectedToLock(handle) { noteLock(of: handle) } else { letPass(handle) }
        }
    }

    private func noteLock(of handle: Handle) {
        let isNew = handle.state.withLock { state in
            defer { state.locksFile = true }
            return !state.locksFile
        }
        if isNew, handle.hasClaim { engine.noteLock(of: handle.currentClaim) }
    }

    /// Whether a program that has a file open, or opens it, which others lock, is taken to lock it too: if it reads and writes it, or
    /// has the name of one that was seen to. Not if it does away with what is in the file: a lock that comes after that protects
    /// nothing. Nor a shell, which opens files for any program, and by whose name nothing is known.
    private func mayBeExpectedToLock(_ handle: Handle) -> Bool {
        if handle.state.withLock({ $0.locksFile }) { return true }
        if handle.truncates { return false }
        if handle.mayReadAndWrite { return true }
        let program = handle.identify().program
        return !processes.programs.isShell(program) && advisoryLocks.isKnown(program, on: handle.node)
    }

    /// An empty file is there to be locked, and nothing in it can be lost: its lockers let a program pass that has the name of one of
    /// them, and any other when they have had the file for `idle` and written nothing. What it writes then is kept as ever. A shell
    /// passes at once, too: it may have locked the file and run another program in its place, which has another name.
    private func letPass(_ opener: Handle) {
        let node = opener.node
        guard node.presentStatus?.size == 0 else { return }
        let program = opener.identify().program
        let isKnown = processes.programs.isShell(program) || advisoryLocks.isKnown(program, on: node)
        for handle in handles.writers(on: node)
        where handle.hasClaim && handle.state.withLock({ $0.isObservedLocker }) {
            let isOld = Engine.now.since(handle.opened) >= engine.bounds.idle
            if isKnown || isOld { engine.noteNothingToLose(by: handle.currentClaim) }
        }
    }
}

extension Handle {
    /// Whether it was opened to read and write what is there.
    var mayReadAndWrite: Bool { flags & (O_ACCMODE | O_TRUNC) == O_RDWR }

    /// Whether it and another one are of programs that lock the file: neither is kept from the other.
    func locks(like other: Handle) -> Bool {
        state.withLock { $0.locksFile } && other.state.withLock { $0.locksFile }
    }
}
