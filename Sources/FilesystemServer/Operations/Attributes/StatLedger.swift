// SPDX-License-Identifier: Apache-2.0
package import Coordination
import CoordinationEngine
import Synchronization

/// Remembers programs that call stat(2) for documents with unsaved changes (D168, D169).
///
/// It limits how long a program waits, and how often a session has a document saved. It also remembers the programs that
/// got the attributes of a document without its unsaved changes.
package final class StatLedger: Sendable {
    /// A command of a session, identified by a hash of its words: a prompt runs the same command again and again.
    package struct Command: Hashable, Sendable {
        let session: Int32
        let words: UInt64

        package init(_ words: UInt64, of session: Int32) {
            self.session = session
            self.words = words
        }
    }

    /// The most time that a process waits within each ``window``.
    package static let patience = TimeSpan.seconds(1)
    package static let window = TimeSpan.seconds(2)
    /// How long a program that got the size on the disk also reads the contents on the disk.
    package static let tellingLasts = window
    /// How long a save counts that a program's stat has caused. During this time, contents that the program would destroy
    /// without having read them are preserved.
    package static let savingCounts = TimeSpan.seconds(60)
    /// The most documents, and the most commands or processes of a document, that are remembered. Above this limit, all
    /// entries are dropped.
    fileprivate static let capacity = 4096
    /// How long the retry of a thread is expected after ESTALE.
    private static let retryExpected = TimeSpan.seconds(1)

    private struct Record {
        /// The time at which a stat of each command had the document saved.
        var asked: [Command: Instant] = [:]
        /// The time at which each process got the attributes without the unsaved changes.
        var told: [ProcessID: Instant] = [:]
        /// The time at which the document was saved for each process that has not read the document since.
        var saved: [ProcessID: Instant] = [:]
    }

    private struct State {
        var waits: [ProcessID: StatWaits] = [:]
        var records: [ItemID: Record] = [:]
        /// The threads that were answered ESTALE, so that the kernel looks the name up again.
        var retries: [Int32: (item: ItemID, until: Instant)] = [:]
        var isToBeTidied = false
    }

    private let askAgain: TimeSpan
    private let state = Mutex(State())
    private let count = Atomic<Int>(0)

    package init(askAgain: TimeSpan) { self.askAgain = askAgain }

    /// Whether there are no entries. Each open reads this before any other check.
    package var isEmpty: Bool { count.load(ordering: .relaxed) == 0 }

    /// Returns whether a document has an entry.
    func knows(_ item: ItemID) -> Bool { !isEmpty && state.withLock { $0.records[item] != nil } }

    /// Notes that a process begins to wait. Returns the time until which it may wait, or nil if it has waited enough.
    /// After each wait the caller calls ``endWait(of:at:)``.
    package func beginWait(of process: ProcessID, at now: Instant) -> Instant? {
        state.withLock { state in
            if state.waits.count >= 64 { state.waits = state.waits.filter { !$0.value.isOver(at: now) } }
            return state.waits[process, default: StatWaits()].begin(at: now)
        }
    }

    package func endWait(of process: ProcessID, at now: Instant) {
        state.withLock { $0.waits[process]?.end(at: now) }
    }

    /// Returns whether a command may have a document saved because of its stat.
    package func mayAsk(_ command: Command, for item: ItemID, at now: Instant) -> Bool {
        state.withLock { $0.records[item]?.asked[command] }.map { now >= $0 + askAgain } ?? true
    }

    /// Notes that a command had a document saved. A command of an unknown session is not noted, because it cannot be
    /// recognised again.
    package func noteAsked(_ command: Command, for item: ItemID, at now: Instant) {
        guard command.session != 0, askAgain > .zero else { return }
        change { $0.records[item, default: Record()].asked.note(command, at: now) }
    }

    /// Notes that a program of a session opens a document. So the session does not only read the document's attributes.
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

    /// Notes that a process gets the attributes of the saved document.
    package func forgetTold(_ process: ProcessID, of item: ItemID) {
        if !isEmpty { change { $0.records[item]?.told[process] = nil } }
    }

    /// Returns whether a process lately got the attributes of a document without its unsaved changes.
    package func wasTold(_ process: ProcessID, of item: ItemID, at now: Instant) -> Bool {
        state.withLock { $0.records[item]?.told[process] }.map { now < $0 + Self.tellingLasts } ?? false
    }

    /// Notes that a document is saved because a process asks for its attributes.
    package func noteSaved(_ item: ItemID, for process: ProcessID, at now: Instant) {
        change { $0.records[item, default: Record()].saved.note(process, at: now) }
    }

    /// Notes that a process reads the contents that were saved for it.
    package func forgetSaved(_ item: ItemID, for process: ProcessID) {
        change { $0.records[item]?.saved[process] = nil }
    }

    /// Returns whether a document was lately saved because one of these processes asked for its attributes, and the
    /// process has not read it.
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

// The ledger drops expired entries. Without entries, opens need no check.
extension StatLedger {
    /// Returns the time at which the caller is to call ``tidy(at:)``. Returns nil if there are no entries, or if another
    /// caller does it.
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

// These functions remember threads that were answered ESTALE, so that the kernel looks the name up once more.
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

/// The recent waits of a process. Waits of several of its threads at the same time count once.
package struct StatWaits: Sendable {
    private struct Wait {
        var ended: Instant
        var nanoseconds: UInt64
    }

    private enum WaitState {
        case idle
        case waiting(since: Instant, until: Instant, threads: Int)
    }

    /// The most waits that are remembered. Further waits are added to the last wait.
    private static let capacity = 32

    private var past: [Wait] = []
    private var waitState = WaitState.idle

    package init() {}

    /// Begins a wait, and returns the time until which it may last. Returns nil if the process has waited enough.
    ///
    /// A wait that ended less than ``StatLedger/window`` ago counts in full.
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
