// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Synchronization

/// Holds the save detector and the pending saves under one lock.
///
///     a step begins ──the name is vacated──▶ pending save open ──▶ ended (see ``PendingSaveTable``)
///          ╰──────────the name stays──────▶ the step ends
///
/// 1. A name is taken away within a step. The request calls ``beginStep(in:)`` before it takes the name away, and
///   ``endStep(in:)`` when the pending save is open.
/// 2. While there are pending saves, one thread checks them regularly (``beginWatching()``).
/// 3. ``hasNoPendingSaves`` is false from the begin of a step until the last pending save and the last recent move have ended.
///
/// **Lock rule.** Only values change under the lock; the caller sends events after releasing it.
final class SaveTracker: Sendable {
    struct State {
        var saveDetector: SaveDetector
        var pendingSaves = PendingSaveTable()
        var moved = MovedDocuments()
        var isWatched = false
        /// For each directory, the number of requests that are about to take a name away from it.
        var steps: [NodeNumber: Int] = [:]
        /// The processes that have listed a directory and waited for a pending save, by the claim of the pending save.
        var listed: [ClaimID: Set<ProcessID>] = [:]

        /// Prolongs the pending saves of the saving program, because it has made a request.
        mutating func noteActivity(by saver: SavingProcess, at now: Instant) {
            pendingSaves.noteActivity(by: saver, at: now)
            moved.noteActivity(by: saver, at: now)
        }
    }

    private let state: Mutex<State>
    private let recentRemovals = Mutex(RecentRemovals())
    private let subscribers = Mutex(Subscribers())
    private let stepsBegun = Atomic<UInt64>(0)
    private let pendingSaveCount = Atomic<Int>(0)

    init(knowing programs: ProgramClasses) {
        state = Mutex(State(saveDetector: SaveDetector(knowing: programs)))
    }

    /// Whether no name is missing, or about to be missing, in the middle of a save. Requests check this before they use the
    /// state, because this check takes no mutex.
    var hasNoPendingSaves: Bool { pendingSaveCount.load(ordering: .relaxed) == 0 }

    /// Changes the state, and updates ``hasNoPendingSaves``.
    func change<Result>(_ body: (inout State) -> Result) -> Result {
        state.withLock { state in
            let result = body(&state)
            pendingSaveCount.store(
                state.pendingSaves.count + state.steps.count + state.moved.count,
                ordering: .sequentiallyConsistent
            )
            return result
        }
    }

    /// Forgets all facts about a file, because the file was removed or has become a document.
    func forgetFile(_ node: NodeNumber) {
        state.withLock { if $0.saveDetector.count > 0 { $0.saveDetector.forget(node) } }
    }

    /// Notes that a program has closed a file to which it may have written.
    func closedFile(_ node: NodeNumber) {
        state.withLock { if $0.saveDetector.count > 0 { $0.saveDetector.noteClosed(node, at: Engine.now) } }
    }

    /// Notes that a request is about to take a name away from the directory. Until ``endStep(in:)``, a listing without this
    /// name may have to wait.
    func beginStep(in directory: NodeID) {
        change { $0.steps[NodeNumber(directory.rawValue), default: 0] += 1 }
        stepsBegun.add(1, ordering: .sequentiallyConsistent)
    }

    /// Ends a step: a request has taken a name away and its pending save is open, or the name was not taken away.
    func endStep(in directory: NodeID) {
        let number = NodeNumber(directory.rawValue)
        change { state in
            state.steps[number, default: 1] -= 1
            if state.steps[number] == 0 { state.steps[number] = nil }
        }
    }

    /// The number of requests so far that were about to take a name away, counted for all directories. The number never
    /// decreases.
    var lastStep: UInt64 { stepsBegun.load(ordering: .sequentiallyConsistent) }

    /// The pending saves with names that are missing in a program's listing. Pending saves for which the program has already
    /// waited are left out. Also returns whether a name in the directory is about to be taken away.
    func missing(in directory: NodeID, for saver: SavingProcess?) -> (
        pendingSaves: [PendingSave], isVacating: Bool
    ) {
        let number = NodeNumber(directory.rawValue)
        return state.withLock { state in
            let pendingSaves = state.pendingSaves.pendingSaves(in: number, for: saver).filter { pendingSave in
                guard let saver else { return true }
                return !(state.listed[pendingSave.claim]?.contains(saver.process) ?? false)
            }
            return (pendingSaves, state.steps[number] != nil)
        }
    }

    /// Notes that a program's listing waits for pending saves. A program's listings wait only once for each pending save.
    func noteListing(of pendingSaves: [PendingSave], for saver: SavingProcess?) {
        guard let saver else { return }
        state.withLock { state in
            for pendingSave in pendingSaves where state.pendingSaves.isOpen(pendingSave) {
                state.listed[pendingSave.claim, default: []].insert(saver.process)
            }
        }
    }
}

// The pending saves.
extension SaveTracker {
    /// The pending save of a missing name. Nil if `saver` is the saving program itself, because its own look-ups do not wait.
    func pendingSave(of name: [UInt8], in directory: NodeNumber, for saver: SavingProcess?) -> PendingSave? {
        state.withLock { $0.pendingSaves.pendingSave(of: name, in: directory, for: saver) }
    }

    /// The pending saves in a directory, the oldest first. Only saves of documents that other programs use are returned.
    func pendingSaves(in directory: NodeNumber) -> [PendingSave] {
        state.withLock { $0.pendingSaves.pendingSaves(in: directory, for: nil) }
    }

    func isOpen(_ pendingSave: PendingSave) -> Bool { state.withLock { $0.pendingSaves.isOpen(pendingSave) } }

    /// Whether any name in the directory is being taken away now. Also true if the name `name` is missing in the middle of a
    /// save of a document that other programs use.
    func isVacated(_ name: [UInt8], in directory: NodeNumber) -> Bool {
        state.withLock { state in
            state.steps[directory] != nil
                || state.pendingSaves.pendingSave(of: name, in: directory, for: nil)?.audience == .users
        }
    }

    /// Whether a listing must still wait for one of these pending saves, or for a name that is being taken away.
    func mustWait(for pendingSaves: [PendingSave], in directory: NodeNumber) -> Bool {
        let (isVacating, open) = state.withLock { state in
            (state.steps[directory] != nil, pendingSaves.filter { state.pendingSaves.isOpen($0) })
        }
        return isVacating || open.contains { !areManyDepartures(by: $0) }
    }

    /// Forgets which listings have waited for the pending save with this claim. Called when the pending save has ended.
    func forgetListings(waitingFor claim: ClaimID) {
        state.withLock { _ = $0.listed.removeValue(forKey: claim) }
    }

    /// Whether the file is a presented document that was moved a moment ago.
    func isMoved(_ node: NodeNumber) -> Bool { state.withLock { $0.moved.contains(node) } }

    /// Whether a file that was moved a moment ago now gets the name that it had before.
    func isReturn(of node: NodeNumber, to name: [UInt8], in directory: NodeNumber) -> Bool {
        state.withLock { $0.moved.isReturn(of: node, to: name, in: directory) }
    }

    /// The programs that have pending saves or have moved a document. The daemon checks whether these programs have ended.
    var savers: [SavingProcess] { state.withLock { $0.pendingSaves.savers + $0.moved.savers } }

    /// Returns true if no thread checks the pending saves yet. In this case the caller must check them from now on.
    func beginWatching() -> Bool {
        state.withLock { state in
            defer { state.isWatched = true }
            return !state.isWatched
        }
    }
}

// The detector of saves.
extension SaveTracker {
    /// Whether the save detector remembers a helper file, which a program has made a short time ago.
    var knowsHelperFiles: Bool { state.withLock { $0.saveDetector.count > 0 } }

    /// Whether a helper file, a pending save or a moved document is remembered.
    var remembersSteps: Bool {
        state.withLock { $0.saveDetector.count > 0 || !$0.pendingSaves.isEmpty || !$0.moved.isEmpty }
    }

    /// The processes that have made helper files of a document and are relatives of the process that now saves it.
    func makers(
        ofHelperFilesOf name: [UInt8], in directory: NodeNumber, for saver: SavingProcess
    ) -> Set<ProcessID> {
        state.withLock { $0.saveDetector.makers(ofHelperFilesOf: name, in: directory, for: saver) }
    }
}

// The names that threads have taken away without putting another file under these names.
extension SaveTracker {
    func noteRemoved(_ name: [UInt8], from directory: NodeNumber, by thread: Int32, at now: Instant) {
        recentRemovals.withLock { $0.noteRemoved(name, from: directory, by: thread, at: now) }
    }

    func noteFilled(_ name: [UInt8], in directory: NodeNumber, by thread: Int32) {
        recentRemovals.withLock { $0.noteFilled(name, in: directory, by: thread) }
    }

    /// Whether a thread has taken many names in the directory away without making new files with these names. If so,
    /// the thread is removing files, and is not saving.
    func areManyDepartures(by thread: Int32, from directory: NodeNumber, at now: Instant) -> Bool {
        recentRemovals.withLock { $0.areMany(by: thread, from: directory, at: now) }
    }

    func areManyDepartures(by pendingSave: PendingSave) -> Bool {
        areManyDepartures(by: pendingSave.thread, from: pendingSave.directory, at: Engine.now)
    }
}

// Objects that let requests wait for missing names subscribe here. The tracker calls their handlers when a wait may be over.
extension SaveTracker {
    typealias NameHandler = @Sendable (_ name: [UInt8], _ directory: NodeID) -> Void
    typealias DirectoryHandler = @Sendable (NodeID) -> Void

    struct Subscribers {
        fileprivate var names: [NameHandler] = []
        fileprivate var directories: [DirectoryHandler] = []
    }

    /// Calls `handler` when a missing name has an item again, or is not awaited any more. Ends with ``endSubscriptions()``.
    func onNameResolved(_ handler: @escaping NameHandler) {
        subscribers.withLock { $0.names.append(handler) }
    }

    /// Calls `handler` when a step of a save in a directory has ended, or when requests need not wait for the save any more.
    /// Ends with ``endSubscriptions()``.
    func onProgress(_ handler: @escaping DirectoryHandler) {
        subscribers.withLock { $0.directories.append(handler) }
    }

    /// Releases all handlers. The handlers refer to objects that refer to this tracker. Without this call, the cycle of
    /// references would keep all of these objects in memory.
    func endSubscriptions() { subscribers.withLock { $0 = Subscribers() } }

    func publishResolved(_ name: [UInt8], in directory: NodeID) {
        for handler in subscribers.withLock({ $0.names }) { handler(name, directory) }
    }

    func publishProgress(in directory: NodeID) {
        for handler in subscribers.withLock({ $0.directories }) { handler(directory) }
    }
}
