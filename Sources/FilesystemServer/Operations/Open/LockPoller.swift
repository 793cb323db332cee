// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import LinuxSystem

/// Finds out which programs hold a lock on a file (`flock` or `fcntl`), while opens wait for the file.
final class LockPoller: Sendable {
    private let context: MountContext
    private let data: DataPlane
    private let engine: Engine
    private let processes: ProcessResolver
    private let handles: HandleTable
    private let advisoryLocks: AdvisoryLocks
    private let expectedRetries: ExpectedRetries<PendingOpen>

    init(_ context: MountContext, _ tree: FileTree, _ data: DataPlane, _ coordinator: RetryCoordinator) {
        self.context = context
        self.data = data
        engine = context.engine
        processes = context.processes
        handles = tree.handles
        advisoryLocks = data.advisoryLocks
        expectedRetries = coordinator.expectedRetries
    }

    /// The most writers that each poll checks for a lock.
    private static let mostLookers = 8

    /// Begins to check the writers of a file for locks, when an open waits for the file.
    ///
    /// The check is repeated as long as any open waits, at growing intervals, because a program may lock the file some
    /// time after its open. Most waits end before the first check.
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
            // An open may have begun to wait before the poll ended. Such an open has started no poll of its own.
            if needsLockPoll(for: node) { scheduleLockPoll(on: node) }
        }
    }

    private func needsLockPoll(for node: Node) -> Bool {
        !context.hasEnded && expectedRetries.hasWaitingOpen(node.item) && !handles.writers(on: node).isEmpty
    }

    private func pollLocks(on node: Node) {
        let unknown = handles.writers(on: node).filter { !$0.isObservedLocker }
        for handle in unknown.prefix(Self.mostLookers)
        where processes.holdsLock(thread: handle.thread, or: handle.process, on: node) {
            advisoryLocks.note(handle.identify().program, by: handle)
            if handle.noteObservedLock() { tellLock(of: handle) }
            // If the handle was closed meanwhile, no other call notes that its locks have ended.
            if handles[handle.id] == nil { data.noteEnd(ofLocksBy: handle) }
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

    /// Returns whether a program is expected to lock a file that other programs lock.
    /// - Expected: the program opens the file to read and write, or has the name of a program that was seen to lock the
    ///   file.
    /// - Not expected: the program truncates the file as it opens it, because a later lock would protect nothing.
    /// - Not expected by its name: a shell, because it opens files for other programs of any name.
    private func mayBeExpectedToLock(_ handle: Handle) -> Bool {
        if handle.locksFile { return true }
        if handle.truncates { return false }
        if handle.mayReadAndWrite { return true }
        let program = handle.identify().program
        return !processes.programs.isShell(program) && advisoryLocks.isKnown(program, on: handle.node)
    }

    /// Lets an open of an empty file go ahead of the programs that lock the file. An empty file has no contents to lose,
    /// and exists to be locked.
    /// - A program with the name of a program that was seen to lock the file goes ahead at once.
    /// - A shell goes ahead at once, because it may have locked the file before it executed a program with another name.
    /// - Any other program goes ahead when the locking programs have had the file for `idle` without a write. Its writes
    ///   are preserved as usual.
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

    private func tellLock(of handle: Handle) {
        if handle.hasClaim { engine.noteLock(of: handle.currentClaim) }
    }
}
