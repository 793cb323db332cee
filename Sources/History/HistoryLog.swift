// SPDX-License-Identifier: Apache-2.0
package import LinuxSystem
import Synchronization

/// The most that the history of a source takes.
package struct HistoryLimits: Sendable {
    /// The size in bytes at which the log is rotated. The log takes at most twice this size.
    package var fileSize = 8 << 20
    /// Older events are not returned, in nanoseconds. Their file is removed when all its events are that old.
    package var age: Int64 = 30 * 24 * 60 * 60 * 1_000_000_000

    package init() {}
}

/// The log of what programs did with documents, in the store's directory.
///
///     events.log      the newest events, one line each (``HistoryLine``)
///     events.log.1    the events before them
///
/// The daemon appends many lines at a time, and never waits for the disk (D255). So the last events can be missing after a power
/// cut, and the last line can be torn. A torn line is skipped. All methods can block, so only worker threads call them.
package final class HistoryLog: Sendable {
    private static let current = "events.log"
    private static let former = "events.log.1"
    private static let mostStarts = 256

    /// The log's directory, as an object that several methods can borrow.
    private final class Home: Sendable {
        let directory: StoreDirectory
        init(_ directory: consuming StoreDirectory) { self.directory = directory }
    }

    /// An open file of the log.
    private final class Section: Sendable {
        let file: OwnedDescriptor
        init(_ file: consuming OwnedDescriptor) { self.file = file }

        /// The bytes of the file from an offset. The last line can be incomplete, because another thread can be appending it.
        func text(from offset: Int = 0) throws(Errno) -> [UInt8] {
            try file.read(at: offset, count: max(Int(file.status().size) - offset, 0))
        }
    }

    private struct State {
        var next: UInt64 = 1
        /// The time of the first event in the current file.
        var begin: Int64?
        var isTorn = false
        /// The first numbers of the last appends, and where they begin in the current file. A watch asks only for events after
        /// the last one that it has, so it need not read the whole log.
        var starts: [(number: UInt64, offset: Int)] = []
        /// The number of events that could not be appended since the last append. Such a failure is reported once.
        var missing = 0

        /// The offset in the current file from which all events after the event `number` are found; 0 if all files must be read.
        func start(after number: UInt64?) -> Int {
            guard let number else { return 0 }
            return starts.last { $0.number <= number }?.offset ?? 0
        }
    }

    private struct Watchers {
        var calls: [UInt64: @Sendable () -> Void] = [:]
        var next: UInt64 = 1
    }

    private let home: Home?
    private let limits: HistoryLimits
    private let report: @Sendable (String) -> Void
    /// Held while lines are appended, so only threads that may wait for the disk take this lock.
    private let state = Mutex(State())
    private let lastNumber = Atomic<UInt64>(0)
    private let watchers = Mutex(Watchers())
    private let collector = Mutex<(@Sendable () -> Void)?>(nil)

    /// Opens the log in a directory.
    ///
    /// - Parameters:
    ///   - directory: the log's own directory, which only the daemon uses; nil if the source cannot be written. Then nothing is
    ///     recorded.
    ///   - limits: the size and age at which events are dropped.
    ///   - now: the time of day, in nanoseconds since 1970.
    ///   - report: receives one sentence for each problem.
    package init(
        in directory: consuming StoreDirectory?, limits: HistoryLimits = HistoryLimits(),
        now: Int64 = WallClock.nanoseconds(), report: @escaping @Sendable (String) -> Void
    ) {
        switch consume directory {
        case .some(let directory): home = Home(directory)
        case .none: home = nil
        }
        self.limits = limits
        self.report = report
        guard home != nil else { return }
        do throws(Errno) {
            try dropFormer(before: now - limits.age)
            try readEnds()
        } catch {
            report("the history of this source could not be read (\(error))")
        }
    }

    /// Whether events are recorded.
    package var isRecording: Bool { home != nil }
    /// The number of the last event; 0 if there is none. This does not wait for an append.
    package var last: UInt64 { lastNumber.load(ordering: .acquiring) }

    /// Sets the function that appends the events which are noted but not appended yet.
    package func collect(by call: @escaping @Sendable () -> Void) {
        let former = collector.withLock { collector in
            defer { collector = call }
            return collector
        }
        withExtendedLifetime(former) {}
    }

    /// Appends all events that were noted before this call.
    package func bringUpToDate() {
        let call = collector.withLock { $0 }
        call?()
    }

    /// Appends events in this order, and gives them their numbers. A failure is reported, and the events are lost. The next append
    /// then adds an event that says how many are missing.
    package func append(_ events: [HistoryEvent]) {
        guard home != nil, !events.isEmpty else { return }
        state.withLock { state in
            do throws(Errno) {
                try append(
                    state.missing > 0 ? [Self.gap(before: events, in: state)] + events : events, in: &state)
                state.missing = 0
            } catch {
                if state.missing == 0 { report("events could not be added to the history (\(error))") }
                state.missing += events.count
            }
            lastNumber.store(state.next - 1, ordering: .releasing)
        }
        for call in watchers.withLock({ Array($0.calls.values) }) { call() }
    }

    private static func gap(before events: [HistoryEvent], in state: State) -> HistoryEvent {
        var gap = HistoryEvent(.gap, [], at: events[0].time)
        gap.detail = "\(state.missing)"
        return gap
    }

    private func append(_ events: [HistoryEvent], in state: inout State) throws(Errno) {
        guard let home else { return }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(events.count * 192)
        if state.isTorn { bytes.append(UInt8(ascii: "\n")) }
        let first = state.next
        for var event in events {
            event.number = state.next
            state.next += 1
            HistoryLine.append(event, to: &bytes)
        }
        let time = events[0].time
        // The file is open for writing only now. A file that is open for writing would prevent the remount of its file system as
        // read-only.
        var file = try home.directory.openAppending(Self.current)
        var size = Int(try file.status().size)
        let isOld = state.begin.map { time - $0 > limits.age / 2 } ?? false
        if size > 0, size + bytes.count > limits.fileSize || isOld {
            try home.directory.replace(Self.former, by: Self.current)
            file = try home.directory.openAppending(Self.current)
            state.begin = nil
            state.starts = []
            size = Int(try file.status().size)
        }
        try Self.write(bytes, to: file, after: size, in: &state)
        if state.starts.count >= Self.mostStarts { state.starts.removeFirst(Self.mostStarts / 2) }
        state.starts.append((first, size))
        if state.begin == nil { state.begin = time }
    }

    /// Appends lines to a file of this size. If the disk is full, takes back what was written of them, so that none of them counts.
    private static func write(
        _ bytes: [UInt8], to file: borrowing OwnedDescriptor, after size: Int, in state: inout State
    ) throws(Errno) {
        let wasTorn = state.isTorn
        state.isTorn = true
        do throws(Errno) {
            try file.writeAll(bytes)
            state.isTorn = false
        } catch {
            try file.shorten(to: size)
            state.isTorn = wasTorn
            throw error
        }
    }

    /// Removes events that are older than the limit, as far as they fill a file. The daemon calls this regularly.
    package func prune(now: Int64 = WallClock.nanoseconds()) {
        guard home != nil else { return }
        do throws(Errno) {
            try state.withLock { (_) throws(Errno) in try dropFormer(before: now - limits.age) }
        } catch {
            report("old events could not be removed from the history (\(error))")
        }
    }

    /// Returns the events that a query asks for and that `isVisible` accepts, the oldest first.
    ///
    /// Events that are added during the call are left out. The lock is not held while the files are read.
    package func events(
        _ query: HistoryQuery, now: Int64 = WallClock.nanoseconds(),
        isVisible: (HistoryEvent) -> Bool = { _ in true }
    ) throws(Errno) -> [HistoryEvent] {
        let sections = try state.withLock { (state) throws(Errno) in
            let current = (try section(Self.current), state.start(after: query.after))
            return current.1 == 0 ? [current, (try section(Self.former), 0)] : [current]
        }
        let oldest = max(query.since ?? .min, now - limits.age)
        var (trail, found) = (HistoryTrail(query.path), [HistoryEvent]())
        for case (let section?, let start) in sections {
            var lines = LinesFromEnd(try section.text(from: start))
            // The moves after `before` tell under which path the earlier events are. For the whole source, they do not matter.
            if let before = query.before, query.path.isEmpty { lines.leaveOut(from: before) }
            while let line = lines.next() {
                guard let event = HistoryLine.read(line) else { continue }
                if let after = query.after, event.number <= after { return query.chosen(from: found) }
                guard trail.takes(event), event.time >= oldest,
                    query.before.map({ event.number < $0 }) ?? true,
                    query.actor.map({ event.isBy($0) }) ?? true, isVisible(event)
                else { continue }
                if found.count >= query.most {
                    guard query.takesOldest else { return query.chosen(from: found) }
                    // The newest are dropped many at a time, so that a long log needs little memory and time.
                    if found.count >= 2 * query.most { found.removeFirst(query.most) }
                }
                found.append(event)
            }
        }
        return query.chosen(from: found)
    }

    /// Calls `call` after each append, on any thread, until ``unwatch(_:)`` is called with the returned number.
    package func watch(_ call: @escaping @Sendable () -> Void) -> UInt64 {
        watchers.withLock { watchers in
            watchers.next += 1
            watchers.calls[watchers.next] = call
            return watchers.next
        }
    }

    package func unwatch(_ watcher: UInt64) {
        let call = watchers.withLock { $0.calls.removeValue(forKey: watcher) }
        withExtendedLifetime(call) {}
    }
}

// The files of the log.
extension HistoryLog {
    /// Finds the number of the last event, and whether the last line is torn.
    private func readEnds() throws(Errno) {
        let newest = try section(Self.current)?.text() ?? []
        let older = try section(Self.former)?.text() ?? []
        let events = newest.events
        let last = events.last ?? older.events.last
        state.withLock { state in
            state.next = (last?.number ?? 0) + 1
            state.isTorn = newest.last.map { $0 != UInt8(ascii: "\n") } ?? false
            state.begin = events.first?.time
            lastNumber.store(state.next - 1, ordering: .releasing)
        }
    }

    /// Removes the former file if its last event is older than `time`.
    private func dropFormer(before time: Int64) throws(Errno) {
        guard let home, let former = try section(Self.former) else { return }
        let last = try former.text().events.last?.time ?? .min
        if last < time { try home.directory.remove(Self.former) }
    }

    private func section(_ name: String) throws(Errno) -> Section? {
        guard let home else { return nil }
        do throws(Errno) {
            return Section(try home.directory.open(name))
        } catch {
            guard error == .noEntry else { throw error }
            return nil
        }
    }
}

extension HistoryQuery {
    /// Returns the events of a list, the newest first, that the query asks for, the oldest first.
    fileprivate func chosen(from found: [HistoryEvent]) -> [HistoryEvent] {
        (takesOldest ? found.suffix(most) : found.prefix(most)).reversed()
    }
}

extension [UInt8] {
    /// The events of a file of the log, without its torn and unknown lines.
    fileprivate var events: [HistoryEvent] {
        split(separator: UInt8(ascii: "\n")).compactMap { HistoryLine.read($0) }
    }
}

extension HistoryEvent {
    /// Whether a program, a run or a process with this name had part in the event.
    fileprivate func isBy(_ name: [UInt8]) -> Bool {
        actor.isCalled(name) || author?.isCalled(name) ?? false
    }
}
