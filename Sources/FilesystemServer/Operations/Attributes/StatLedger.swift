// SPDX-License-Identifier: Apache-2.0
package import Coordination
import CoordinationEngine
import Synchronization

/// Remembers the programs that call stat(2) for documents with unsaved changes (D168, D169).
///
/// These records limit how long such a program waits for a save, and how often the programs of a session cause a save. The
/// daemon also remembers which programs got a document's attributes without the unsaved changes.
package final class StatLedger: Sendable {
    /// A command line in a session, as a hash of its words. A shell prompt may run the same command again and again.
    package struct Command: Hashable, Sendable {
        let session: Int32
        let words: UInt64

        package init(_ words: UInt64, of session: Int32) {
            self.session = session
            self.words = words
        }
    }

    /// How long a process waits for saves in all, within each ``window``.
    package static let patience = TimeSpan.seconds(1)
    package static let window = TimeSpan.seconds(2)
    /// How long a program that got the size of the saved contents also reads the saved contents, without the unsaved
    /// changes.
    package static let tellingLasts = window
    /// How long the daemon remembers that a program's stat(2) has caused a save. If the program destroys the saved
    /// contents without having read them, they are preserved.
    package static let savingCounts = TimeSpan.seconds(60)
    /// The most documents that are remembered, and the most commands or processes for each document. If there are more,
    /// all entries are dropped.
    fileprivate static let capacity = 4096
    /// After ESTALE, the thread must send its request again within this time.
    private static let retryExpected = TimeSpan.seconds(1)

    private struct Record {
        /// For each command, the time at which a stat(2) by the command has caused a save of the document.
        var asked: [Command: Instant] = [:]
        /// For each process, the time at which it got the attributes without the unsaved changes.
        var told: [ProcessID: Instant] = [:]
        /// For each process, the time at which a presenter was asked to save the document because the process called
        /// stat(2). An entry is removed when the process reads the document.
        var saved: [ProcessID: Instant] = [:]
    }

    private struct State {
        var waits: [ProcessID: StatWaits] = [:]
        var records: [ItemID: Record] = [:]
        /// The threads that were answered ESTALE. The kernel is looking up the document's name for the second time.
        var retries: [Int32: (item: ItemID, until: Instant)] = [:]
        var isToBeTidied = false
    }

    private let askAgain: TimeSpan
    private let state = Mutex(State())
    private let count = Atomic<Int>(0)

    package init(askAgain: TimeSpan) { self.askAgain = askAgain }

    /// Whether no document has an entry. Each open checks this before anything else.
    package var isEmpty: Bool { count.load(ordering: .relaxed) == 0 }

    /// Returns whether a document has an entry.
    func knows(_ item: ItemID) -> Bool { !isEmpty && state.withLock { $0.records[item] != nil } }

    /// Notes that a process begins to wait. Returns the time at which the wait must end. Returns nil if the process has
    /// already waited enough.
    ///
    /// After the wait, the caller must call ``endWait(of:at:)``.
    package func beginWait(of process: ProcessID, at now: Instant) -> Instant? {
        state.withLock { state in
            if state.waits.count >= 64 { state.waits = state.waits.filter { !$0.value.isOver(at: now) } }
            return state.waits[process, default: StatWaits()].begin(at: now)
        }
    }

    package func endWait(of process: ProcessID, at now: Instant) {
        state.withLock { $0.waits[process]?.end(at: now) }
    }

    /// Returns whether a stat by this command may cause a save of the document.
    package func mayAsk(_ command: Command, for item: ItemID, at now: Instant) -> Bool {
        state.withLock { $0.records[item]?.asked[command] }.map { now >= $0 + askAgain } ?? true
    }

    /// Notes that a stat by this command has caused a save. If the session is unknown, notes nothing, because the
    /// command could not be recognised later.
    package func noteAsked(_ command: Command, for item: ItemID, at now: Instant) {
        guard command.session != 0, askAgain > .zero else { return }
        change { $0.records[item, default: Record()].asked.note(command, at: now) }
    }

    /// Notes that a program of a session opens a document. The session's next stat may then cause a save again.
    package func noteOpened(_ item: ItemID, by session: Int32) {
        change { state in
            guard let asked = state.records[item]?.asked else { return }
            state.records[item]?.asked = asked.filter { $0.key.session != session }
        }
    }

    /// Notes that a process got the attributes of a document without its unsaved changes.
    package func noteTold(_ process: ProcessID, of item: ItemID, at now: Instant) {
        change { $0.records[item, default: Record()].told.note(process, at: now) }
    }

    /// Notes that a process has got the attributes of the saved document.
    package func forgetTold(_ process: ProcessID, of item: ItemID) {
        if !isEmpty { change { $0.records[item]?.told[process] = nil } }
    }

    /// Returns whether a process has lately got the attributes of a document without its unsaved changes.
    package func wasTold(_ process: ProcessID, of item: ItemID, at now: Instant) -> Bool {
        state.withLock { $0.records[item]?.told[process] }.map { now < $0 + Self.tellingLasts } ?? false
    }

    /// Notes that a document is being saved because of a stat by this process.
    package func noteSaved(_ item: ItemID, for process: ProcessID, at now: Instant) {
        change { $0.records[item, default: Record()].saved.note(process, at: now) }
    }

    /// Notes that a process reads the contents that were saved because of its stat.
    package func forgetSaved(_ item: ItemID, for process: ProcessID) {
        change { $0.records[item]?.saved[process] = nil }
    }

    /// Returns whether the document was lately saved because of a stat by one of these processes, and that process has
    /// not read the document yet.
    package func wasSaved(_ item: ItemID, for processes: [ProcessID], at now: Instant) -> Bool {
        let saved = state.withLock { $0.records[item]?.saved } ?? [:]
        return processes.contains { process in saved[process].map { now < $0 + Self.savingCounts } ?? false }
    }

    private func change(_ body: (inout State) -> Void) {
        state.withLock { state in
            body(&state)
            if state.records.count > Self.capacity { state.records = [:] }
            count.store(state.records.count, ordering: .relaxed)
        }
    }
}

// These functions remove entries that are too old. When no entries are left, opens need no check.
extension StatLedger {
    /// Returns when the caller must call ``tidy(at:)``. Returns nil if no document has an entry, or if another caller
    /// will call it.
    package func nextTidying(after now: Instant) -> Instant? {
        state.withLock { state in
            guard !state.isToBeTidied, !state.records.isEmpty else { return nil }
            state.isToBeTidied = true
            return now + max(askAgain, Self.savingCounts)
        }
    }

    package func tidy(at now: Instant) {
        change { state in
            state.isToBeTidied = false
            state.records = state.records.compactMapValues { record in
                var record = record
                record.asked = record.asked.filter { now < $0.value + askAgain }
                record.told = record.told.filter { now < $0.value + Self.tellingLasts }
                record.saved = record.saved.filter { now < $0.value + Self.savingCounts }
                let isEmpty = record.asked.isEmpty && record.told.isEmpty && record.saved.isEmpty
                return isEmpty ? nil : record
            }
        }
    }
}

// These functions remember threads that were answered ESTALE, after which the kernel looks the name up a second time.
extension StatLedger {
    func noteRetryRequest(_ thread: Int32, to item: ItemID, at now: Instant) {
        state.withLock { state in
            state.retries = state.retries.filter { now < $0.value.until }
            state.retries[thread] = (item, now + Self.retryExpected)
        }
    }

    /// Returns whether a thread is retrying the lookup of a document's name.
    func isRetrying(_ thread: Int32, to item: ItemID, at now: Instant) -> Bool {
        state.withLock { state in
            state.retries[thread].map { $0.item == item && now < $0.until } ?? false
        }
    }

    /// Removes the mark of a thread that has sent its request again. Returns whether the mark was still valid.
    func takeRetry(of thread: Int32, to item: ItemID, at now: Instant) -> Bool {
        state.withLock { state in
            guard let mark = state.retries[thread], mark.item == item else { return false }
            state.retries[thread] = nil
            return now < mark.until
        }
    }
}

extension Dictionary where Value == Instant {
    fileprivate mutating func note(_ key: Key, at now: Instant) {
        if count >= StatLedger.capacity { self = [:] }
        self[key] = now
    }
}

/// The recent waits of a process. If several of its threads wait at the same time, this counts as a single wait.
package struct StatWaits: Sendable {
    private struct Wait {
        var ended: Instant
        var nanoseconds: UInt64
    }

    private enum WaitState {
        case idle
        case waiting(since: Instant, until: Instant, threads: Int)
    }

    /// The most waits that are remembered. If there are more, the newest waits are merged into one.
    private static let capacity = 32

    private var past: [Wait] = []
    private var waitState = WaitState.idle

    package init() {}

    /// Begins a wait. Returns the time at which the wait must end. Returns nil if the process has already waited
    /// enough.
    ///
    /// Each wait that ended less than ``StatLedger/window`` ago counts with its whole length.
    package mutating func begin(at now: Instant) -> Instant? {
        if case .waiting(let since, let until, let threads) = waitState {
            guard now < until else { return nil }
            waitState = .waiting(since: since, until: until, threads: threads + 1)
            return until
        }
        past.removeAll { $0.ended + StatLedger.window <= now }
        let used = past.reduce(0) { $0 + $1.nanoseconds }
        guard used < StatLedger.patience.nanoseconds else { return nil }
        let until = now + TimeSpan(nanoseconds: StatLedger.patience.nanoseconds - used)
        waitState = .waiting(since: now, until: until, threads: 1)
        return until
    }

    package mutating func end(at now: Instant) {
        guard case .waiting(let since, let until, let threads) = waitState else { return }
        guard threads == 1 else {
            waitState = .waiting(since: since, until: until, threads: threads - 1)
            return
        }
        waitState = .idle
        var wait = Wait(ended: now, nanoseconds: now.since(since).nanoseconds)
        if past.count >= Self.capacity, let last = past.popLast() { wait.nanoseconds += last.nanoseconds }
        past.append(wait)
    }

    package func isOver(at now: Instant) -> Bool {
        guard case .idle = waitState else { return false }
        return past.allSatisfy { $0.ended + StatLedger.window <= now }
    }
}
