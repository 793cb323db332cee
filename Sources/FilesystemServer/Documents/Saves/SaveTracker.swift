// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Synchronization

/// The save detector and its pending saves behind one lock.
///
///     a step begins ──the name is vacated──▶ pending save open ──▶ ended (see ``PendingSaveTable``)
///          ╰──────────the name stays──────▶ the step ends
///
/// 1. A name is vacated within a step: ``beginStep(in:)`` comes before, ``endStep(in:)`` after the pending save is open.
/// 2. One thread watches the pending saves while there are any (``beginWatching()``).
/// 3. ``hasNoPendingSaves`` is false from the begin of a step until the last pending save and move are over.
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

    private let state: Mutex<State>
    private let recentRemovals = Mutex(RecentRemovals())
    private let subscribers = Mutex(Subscribers())
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
}

// The pending saves.
extension SaveTracker {
    /// The pending save of a name; nil for its saver, which sees the name as missing.
    func pendingSave(of name: [UInt8], in directory: NodeNumber, for saver: SavingProcess?) -> PendingSave? {
        state.withLock { $0.pendingSaves.pendingSave(of: name, in: directory, for: saver) }
    }

    /// The pending saves in a directory of documents that others use, the oldest first.
    func pendingSaves(in directory: NodeNumber) -> [PendingSave] {
        state.withLock { $0.pendingSaves.pendingSaves(in: directory, for: nil) }
    }

    func isOpen(_ pendingSave: PendingSave) -> Bool { state.withLock { $0.pendingSaves.isOpen(pendingSave) } }

    /// Whether a name is missing in the middle of a save of a document that others use, or is being vacated.
    func isVacated(_ name: [UInt8], in directory: NodeNumber) -> Bool {
        state.withLock { state in
            state.steps[directory] != nil
                || state.pendingSaves.pendingSave(of: name, in: directory, for: nil)?.audience == .users
        }
    }

    /// Whether a listing still waits for one of these pending saves, or for a name that is being vacated.
    func mustWait(for pendingSaves: [PendingSave], in directory: NodeNumber) -> Bool {
        let (isVacating, open) = state.withLock { state in
            (state.steps[directory] != nil, pendingSaves.filter { state.pendingSaves.isOpen($0) })
        }
        return isVacating || open.contains { !areManyDepartures(by: $0) }
    }

    /// The pending save with this claim has ended.
    func forgetListings(waitingFor claim: ClaimID) {
        state.withLock { _ = $0.listed.removeValue(forKey: claim) }
    }

    /// Whether a document with this file was moved a moment ago.
    func isMoved(_ node: NodeNumber) -> Bool { state.withLock { $0.moved.contains(node) } }

    /// Whether a file goes back to its name of a moment ago.
    func isReturn(of node: NodeNumber, to name: [UInt8], in directory: NodeNumber) -> Bool {
        state.withLock { $0.moved.isReturn(of: node, to: name, in: directory) }
    }

    /// The savers of pending saves and moved documents, which are watched for their exit.
    var savers: [SavingProcess] { state.withLock { $0.pendingSaves.savers + $0.moved.savers } }

    /// Returns whether the caller has to watch the pending saves, which no other thread does.
    func beginWatching() -> Bool {
        state.withLock { state in
            defer { state.isWatched = true }
            return !state.isWatched
        }
    }
}

// The detector of saves.
extension SaveTracker {
    /// Whether a program has made a helper file a short time ago.
    var knowsHelperFiles: Bool { state.withLock { $0.saveDetector.count > 0 } }

    /// Whether any step of a save is remembered.
    var remembersSteps: Bool {
        state.withLock { $0.saveDetector.count > 0 || !$0.pendingSaves.isEmpty || !$0.moved.isEmpty }
    }

    /// The processes that have made helper files of a document, and are relatives of its saver.
    func makers(
        ofHelperFilesOf name: [UInt8], in directory: NodeNumber, for saver: SavingProcess
    ) -> Set<ProcessID> {
        state.withLock { $0.saveDetector.makers(ofHelperFilesOf: name, in: directory, for: saver) }
    }
}

// The names that threads leave empty.
extension SaveTracker {
    func noteRemoved(_ name: [UInt8], from directory: NodeNumber, by thread: Int32, at now: Instant) {
        recentRemovals.withLock { $0.noteRemoved(name, from: directory, by: thread, at: now) }
    }

    func noteFilled(_ name: [UInt8], in directory: NodeNumber, by thread: Int32) {
        recentRemovals.withLock { $0.noteFilled(name, in: directory, by: thread) }
    }

    /// Whether a thread leaves so many names empty that none of them is in the middle of a save.
    func areManyDepartures(by thread: Int32, from directory: NodeNumber, at now: Instant) -> Bool {
        recentRemovals.withLock { $0.areMany(by: thread, from: directory, at: now) }
    }

    func areManyDepartures(by pendingSave: PendingSave) -> Bool {
        areManyDepartures(by: pendingSave.thread, from: pendingSave.directory, at: Engine.now)
    }
}

// The requests that wait for missing names. They are above the saves, so they subscribe.
extension SaveTracker {
    typealias NameHandler = @Sendable (_ name: [UInt8], _ directory: NodeID) -> Void
    typealias DirectoryHandler = @Sendable (NodeID) -> Void

    struct Subscribers {
        fileprivate var names: [NameHandler] = []
        fileprivate var directories: [DirectoryHandler] = []
    }

    /// `handler` runs when a missing name is filled or given up, until ``endSubscriptions()``.
    func onNameResolved(_ handler: @escaping NameHandler) {
        subscribers.withLock { $0.names.append(handler) }
    }

    /// `handler` runs when a save in a directory has gone on or was given up, until ``endSubscriptions()``.
    func onProgress(_ handler: @escaping DirectoryHandler) {
        subscribers.withLock { $0.directories.append(handler) }
    }

    /// Releases all handlers. The subscribers refer to the tracker, so without this call none of them would be released.
    func endSubscriptions() { subscribers.withLock { $0 = Subscribers() } }

    func publishResolved(_ name: [UInt8], in directory: NodeID) {
        for handler in subscribers.withLock({ $0.names }) { handler(name, directory) }
    }

    func publishProgress(in directory: NodeID) {
        for handler in subscribers.withLock({ $0.directories }) { handler(directory) }
    }
}
