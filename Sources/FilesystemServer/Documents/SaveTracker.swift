// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Synchronization

/// The save detector and its pending saves behind one lock.
///
/// **Lock rule.** Only values change under it; the caller sends events afterwards.
final class SaveTracker: Sendable {
    struct State {
        var saveDetector: SaveDetector
        var pendingSaves = PendingSaveTable()
        var moved = MovedDocuments()
        var isWatched = false
        /// Steps under way that are about to vacate a name, by directory.
        var steps: [NodeNumber: Int] = [:]
        /// The processes with listings that have waited for a pending save, by its claim.
        var listed: [ClaimID: Set<ProcessID>] = [:]

        /// Notes any operation of a saver on the mount; its save may go on.
        mutating func noteActivity(by saver: SavingProcess, at now: Instant) {
            pendingSaves.noteActivity(by: saver, at: now)
            moved.noteActivity(by: saver, at: now)
        }
    }

    let state: Mutex<State>
    let recentRemovals = Mutex(RecentRemovals())
    private let stepsBegun = Atomic<UInt64>(0)
    private let pendingSaveCount = Atomic<Int>(0)

    init(knowing programs: ProgramClasses) {
        state = Mutex(State(saveDetector: SaveDetector(knowing: programs)))
    }

    /// Whether no name is vacated now, for the fast paths.
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

    /// A file is gone, or has become a document.
    func forgetFile(_ node: NodeNumber) {
        state.withLock { if $0.saveDetector.count > 0 { $0.saveDetector.forget(node) } }
    }

    /// A writer has closed a file.
    func closedFile(_ node: NodeNumber) {
        state.withLock { if $0.saveDetector.count > 0 { $0.saveDetector.noteClosed(node, at: Engine.now) } }
    }

    /// A name of a directory is about to be vacated. Until ``endStep(in:)`` a listing without the name is told so.
    func beginStep(in directory: NodeID) {
        change { $0.steps[NodeNumber(directory.rawValue), default: 0] += 1 }
        stepsBegun.add(1, ordering: .sequentiallyConsistent)
    }

    /// The pending save of the name is open, or the name was not vacated.
    func endStep(in directory: NodeID) {
        let number = NodeNumber(directory.rawValue)
        change { state in
            state.steps[number, default: 1] -= 1
            if state.steps[number] == 0 { state.steps[number] = nil }
        }
    }

    /// Grows with each step that is about to vacate a name.
    var lastStep: UInt64 { stepsBegun.load(ordering: .sequentiallyConsistent) }

    /// The pending saves that a program's listing would lack and has not waited for yet, and whether a name is being
    /// vacated.
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

    /// Notes that a program's listing waits for pending saves; it waits only once for each.
    func noteListing(of pendingSaves: [PendingSave], for saver: SavingProcess?) {
        guard let saver else { return }
        state.withLock { state in
            for pendingSave in pendingSaves where state.pendingSaves.isOpen(pendingSave) {
                state.listed[pendingSave.claim, default: []].insert(saver.process)
            }
        }
    }

    /// Whether a thread leaves so many names empty that none of them is in the middle of a save.
    func areManyDepartures(by pendingSave: PendingSave) -> Bool {
        recentRemovals.withLock {
            $0.areMany(by: pendingSave.thread, from: pendingSave.directory, at: Engine.now)
        }
    }
}
