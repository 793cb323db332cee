// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// Polls files that programs have open for writing, if a presenter is interested in them.
///
/// A presenter normally gets an event for a program's writes when the program closes the file. But some programs never close a
/// file, or write to it by a mapping. So a timer polls the file, and the presenter gets an event within a second after a write
/// (D182).
///
///     quiet ──a poll finds a difference──▶ changed ──`patience` later──▶ told, and quiet again
///
/// A file is in the table only while a program has it open for writing and a presenter is interested in it. The first poll that
/// finds no such program or no such presenter removes the file.
final class OpenWriterMonitor: Sendable {
    /// The time between two polls of an unchanged file. If a handle was opened less than `interval` ago, a change is reported
    /// only `interval` after the poll that found the change.
    ///
    /// Most programs open, write and close a file within `interval`. For their writes, only the close causes an event.
    static let interval = TimeSpan.milliseconds(500)
    /// The time between the poll that finds a change and the event for it. The sum of this time and ``interval`` is less than
    /// one second, as promised.
    static let patience = TimeSpan.milliseconds(250)

    private struct File {
        /// The last state of the file that was reported to presenters.
        var told: Stamp
        /// Whether the file may have changed after the state `told` although its times are the same, because the clock is too
        /// coarse.
        var isDoubtful = false
        /// The handle by which the writes of the last event were made, if this monitor sent that event; otherwise nil.
        var teller: HandleID?
        /// The time of the first poll that found the file different from `told`; nil while the file does not differ.
        var changed: Instant?
        /// Whether a further writer or presenter has come since the last poll began.
        var isRenewed = false
    }

    /// The next step after a poll of a file: `rest` sends no event, and polls the file again after the given time.
    enum PollResult: Equatable {
        case rest(TimeSpan)
        /// An event for the file is sent to presenters now.
        case tell
    }

    private let files = Mutex<[ObjectIdentifier: File]>([:])
    private let count = Atomic<Int>(0)

    /// Whether no file is polled. Requests check this before they use the table, because this check takes no mutex.
    var isEmpty: Bool { count.load(ordering: .relaxed) == 0 }

    /// Adds a file, with the state that presenters know. Returns true if the file is new in the table. In this case the caller
    /// begins to poll the file.
    func add(_ node: Node, known stamp: Stamp, isDoubtful: Bool) -> Bool {
        change { files in
            if files[ObjectIdentifier(node)] != nil {
                files[ObjectIdentifier(node)]?.isRenewed = true
                return false
            }
            files[ObjectIdentifier(node)] = File(told: stamp, isDoubtful: isDoubtful)
            return true
        }
    }

    func beginPoll(at node: Node) { files.withLock { $0[ObjectIdentifier(node)]?.isRenewed = false } }

    /// Removes a file, unless a further writer or presenter has come since the poll began. Returns whether the file was
    /// removed.
    func remove(_ node: Node) -> Bool {
        change { files in
            if files[ObjectIdentifier(node)]?.isRenewed ?? false { return false }
            files[ObjectIdentifier(node)] = nil
            return true
        }
    }

    /// Decides after a poll whether presenters get an event now. `isYoung` means that a handle was opened a moment ago. The
    /// close of such a handle will probably report its writes.
    func evaluate(at node: Node, _ stamp: Stamp, isTimeRacy: Bool, isYoung: Bool, at now: Instant)
        -> PollResult
    {
        files.withLock { files in
            guard var file = files[ObjectIdentifier(node)] else { return .rest(Self.interval) }
            defer { files[ObjectIdentifier(node)] = file }
            let isKnown = stamp.hasSameContents(as: file.told) && (!file.isDoubtful || isTimeRacy)
            guard !isKnown else {
                file.changed = nil
                return .rest(Self.interval)
            }
            let since = file.changed ?? now
            file.changed = since
            // While a handle is young, the event is sent later. It is not delayed until all handles are old, because programs
            // may open the file again and again.
            let patience = isYoung ? Self.interval : Self.patience
            return now.since(since) >= patience ? .tell : .rest(Self.patience)
        }
    }

    /// Notes a state of the file that presenters know: an event for it is sent now, or is not needed.
    func noteTold(_ node: Node, _ stamp: Stamp, isDoubtful: Bool = false, under teller: HandleID? = nil) {
        files.withLock { files in
            guard files[ObjectIdentifier(node)] != nil else { return }
            files[ObjectIdentifier(node)] = File(told: stamp, isDoubtful: isDoubtful, teller: teller)
        }
    }

    /// Notes that another event reports this state of the file. That event is about a program that opened the file in the state
    /// `baseline`.
    ///
    /// The program's own presenter gets no event for the program's writes. If the file had already changed before `baseline`,
    /// that presenter does not know the earlier change. So in this case nothing is noted, and the next poll reports the change.
    func noteOther(_ node: Node, _ stamp: Stamp, since baseline: Stamp, isDoubtful: Bool) {
        files.withLock { files in
            guard let file = files[ObjectIdentifier(node)] else { return }
            guard baseline.hasSameContents(as: file.told) else { return }
            files[ObjectIdentifier(node)]?.told = stamp
            files[ObjectIdentifier(node)]?.isDoubtful = isDoubtful
            files[ObjectIdentifier(node)]?.teller = nil
            files[ObjectIdentifier(node)]?.changed = nil
        }
    }

    /// Whether events were sent for all writes by the handle. Call this only for a handle without a claim. If a handle has a
    /// claim, the arbiter knows which writes were reported.
    func hasTold(_ handle: Handle) -> Bool {
        if isEmpty { return false }
        let known = files.withLock { $0[ObjectIdentifier(handle.node)] }
        guard let known, known.teller == handle.id, !known.isDoubtful,
            let status = handle.node.presentStatus
        else { return false }
        return known.told.hasSameContents(as: Stamp(status))
    }

    private func change<Result>(_ body: (inout [ObjectIdentifier: File]) -> Result) -> Result {
        files.withLock { files in
            defer { count.store(files.count, ordering: .relaxed) }
            return body(&files)
        }
    }
}

extension DocumentEvents {
    /// Begins to poll a file that a program has just opened for writing. The caller has checked that a presenter is interested.
    func watch(_ handle: Handle) {
        guard let baseline = handle.baseline else { return }
        watch(handle.node, known: baseline.stamp, isDoubtful: baseline.isRacy)
    }

    /// Begins to poll the handle's file, if a presenter has become interested in it since the caller checked this.
    func watchIfHeard(_ handle: Handle) {
        guard engine.hasAwareClients, handle.mayWrite, handle.node.itemClass != .private,
            hasInterestedPresenter(handle.node)
        else { return }
        watch(handle)
    }

    /// Begins to poll a file that programs have open for writing. Called when a presenter may have become interested in the
    /// file.
    func watchWriters(of node: Node) {
        guard engine.hasAwareClients, node.kind == S_IFREG, !handles.writers(on: node).isEmpty else { return }
        context.work(on: node) { [self] in
            guard hasInterestedPresenter(node), let status = node.presentStatus else { return }
            watch(node, known: Stamp(status), isDoubtful: context.isTimeRacy(status))
        }
    }

    /// Calls ``watchWriters(of:)`` for the node. If the node is a directory, calls it for all open files of the mount.
    func watchWriters(in node: Node) {
        if node.kind != S_IFDIR { return watchWriters(of: node) }
        for id in handles.writtenNodes {
            if let node = nodes[id] { watchWriters(of: node) }
        }
    }

    /// Called when the close of a handle sends an event for a program's writes. Notes that presenters know the writes.
    ///
    /// If the program still has the file open, its access session continues, and presenters get the event only at the end of
    /// the session. In this case nothing is noted, and the next poll reports the writes.
    func noteOther(_ node: Node, _ stamp: Stamp, since baseline: Stamp, by party: Party, isDoubtful: Bool) {
        if writerMonitor.isEmpty { return }
        let goesOn = handles.writers(on: node).contains { $0.identify().isRelated(to: party) }
        if !goesOn { writerMonitor.noteOther(node, stamp, since: baseline, isDoubtful: isDoubtful) }
    }

    private func watch(_ node: Node, known stamp: Stamp, isDoubtful: Bool) {
        if writerMonitor.add(node, known: stamp, isDoubtful: isDoubtful) {
            pollWriters(at: node, after: OpenWriterMonitor.interval)
        }
    }

    private func pollWriters(at node: Node, after pause: TimeSpan) {
        engine.timers.schedule(at: (Engine.now + pause).nanoseconds) { [self] in
            writerMonitor.beginPoll(at: node)
            // Most programs have closed the file before the first poll, and no poll is needed.
            if handles.writers(on: node).isEmpty, writerMonitor.remove(node) { return }
            context.work(on: node) { [self] in pollWriters(at: node) }
        }
    }

    /// Polls a file, and schedules the next poll. Stops if no program has the file open for writing, or no presenter is
    /// interested.
    private func pollWriters(at node: Node) {
        writerMonitor.beginPoll(at: node)
        let writers = handles.writers(on: node)
        let isNeeded = !writers.isEmpty && engine.hasAwareClients && hasInterestedPresenter(node)
        if context.hasEnded || !isNeeded && writerMonitor.remove(node) { return }
        pollWriters(at: node, after: pollAndPublish(node, writers))
    }

    /// Polls a file, and sends an event if it has changed. Returns the time until the next poll.
    private func pollAndPublish(_ node: Node, _ writers: [Handle]) -> TimeSpan {
        guard let status = node.presentStatus else { return OpenWriterMonitor.interval }
        let (now, stamp, isTimeRacy) = (Engine.now, Stamp(status), context.isTimeRacy(status))
        let isYoung = writers.contains { now.since($0.opened) < OpenWriterMonitor.interval }
        let verdict = writerMonitor.evaluate(
            at: node, stamp, isTimeRacy: isTimeRacy, isYoung: isYoung, at: now)
        if case .rest(let pause) = verdict { return pause }
        guard let writer = author(among: writers, of: node) else {
            writerMonitor.noteTold(node, stamp)
            return OpenWriterMonitor.interval
        }
        // A program that writes within an access over the control socket reports the end of that access itself. So no event is
        // sent here.
        let party = writer.identify()
        if engine.isWithinAccess(party, of: node.item, at: place(of: node)) {
            return OpenWriterMonitor.interval
        }
        noteChange(
            of: node, writer.access, under: writer.hasClaim ? writer.currentClaim : nil, isOngoing: true
        ) { party }
        writerMonitor.noteTold(node, stamp, isDoubtful: isTimeRacy, under: writer.id)
        return OpenWriterMonitor.interval
    }

    /// The handle of the program that the event contains as the writer. If several programs have the file open, the kernel does
    /// not tell which of them has written.
    ///
    /// A presenter gets no event for the writes of its own program. So if several programs may have written, the event contains
    /// a program without an interested presenter. A needless event does no harm, but a missing event does.
    private func author(among writers: [Handle], of node: Node) -> Handle? {
        let candidates = writers.filter(\.mayHaveWritten)
        guard candidates.count > 1 else { return candidates.first }
        let (item, place) = (node.item, place(of: node))
        return candidates.first { !engine.hasInterestedPresenter(of: item, at: place, by: $0.identify()) }
            ?? candidates.first
    }
}
