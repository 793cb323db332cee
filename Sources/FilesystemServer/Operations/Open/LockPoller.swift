// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import LinuxSystem

/// While opens wait for a file, finds out which programs have locked the file by `flock` or `fcntl`.
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

    /// The most writers of a file that are checked for a lock each time.
    private static let mostLookers = 8

    /// Called when an open begins to wait for a file. Begins to check whether the file's writers have locked it.
    ///
    /// A program may lock a file some time after its open. So the check is repeated as long as an open waits, after
    /// longer and longer pauses. Most waits end before the first check.
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
            // Another open may have begun to wait while the last check was running. That open has started no checks of
            // its own.
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
            // If the handle was closed during the check, its locks have ended, and only this call notes that.
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

    /// Returns whether a program will probably lock a file that other programs have locked.
    /// - No, if the program truncates the file in its open, because a later lock would protect nothing.
    /// - Otherwise yes, if the program opens the file to read and write.
    /// - Otherwise yes, if the program has the same name as a program that has locked the file, and is no shell. A
    ///   shell opens files for other programs.
    private func mayBeExpectedToLock(_ handle: Handle) -> Bool {
        if handle.locksFile { return true }
        if handle.truncates { return false }
        if handle.mayReadAndWrite { return true }
        let program = handle.identify().program
        return !processes.programs.isShell(program) && advisoryLocks.isKnown(program, on: handle.node)
    }

    /// Lets an open of an empty file go ahead of the programs that have locked it. Probably the file exists only to be
    /// locked, and an empty file has no contents to lose.
    /// - A program with the same name as a program that has locked the file does not wait.
    /// - A shell does not wait either. It may have locked the file itself before it executed the other program.
    /// - Any other program waits until the locking programs have had the file open for `idle` without a write.
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
