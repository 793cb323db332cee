// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import LinuxSystem

/// Finds out which programs lock a file themselves, while opens wait for it.
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

    /// The most writers that are polled each time.
    private static let mostLookers = 8

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
        !context.hasEnded && expectedRetries.hasWaitingOpen(node.item) && !handles.writers(on: node).isEmpty
    }

    private func pollLocks(on node: Node) {
        let unknown = handles.writers(on: node).filter { !$0.isObservedLocker }
        for handle in unknown.prefix(Self.mostLookers)
        where processes.holdsLock(thread: handle.thread, or: handle.process, on: node) {
            advisoryLocks.note(handle.identify().program, by: handle)
            if handle.noteObservedLock() { tellLock(of: handle) }
            // If it was closed meanwhile, no other call would note the end of its locks.
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

    private func tellLock(of handle: Handle) {
        if handle.hasClaim { engine.noteLock(of: handle.currentClaim) }
    }
}
