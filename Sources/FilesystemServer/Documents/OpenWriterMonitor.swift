// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// Watches files that programs have open to write and that have interested presenters.
///
/// Presenters are told of a program's writes when it closes the file. A program that keeps the file open, or has mapped
/// it, may never close it. So a timer polls such a file, and writes are reported within a second (D182).
///
///     quiet ──a poll finds a difference──▶ changed ──`patience` later──▶ told, and quiet again
///
/// A file without an interested presenter is not in the table. The first poll without a writer or presenter removes it.
final class OpenWriterMonitor: Sendable {
    /// How often a quiet file is polled, and how long a handle is open before its writes are reported.
    ///
    /// Most programs open, write and close a file within this time. The close then reports it, once.
    static let interval = TimeSpan.milliseconds(500)
    /// How long a change is not reported after it was observed. With the interval this is less than the promised
    /// second.
    static let patience = TimeSpan.milliseconds(250)

    private struct File {
        /// The state that presenters know.
        var told: Stamp
        /// The file system's clock might not show a change that came after that state.
        var isDoubtful = false
        /// The handle under which it was reported; nil for other events.
        var teller: HandleID?
        /// When a poll first found a difference.
        var changed: Instant?
        /// Another writer or presenter has come since the last poll began.
        var isRenewed = false
    }

    /// The result of a poll.
    enum PollResult: Equatable {
        case rest(TimeSpan)
        /// The presenters are to be told.
        case tell
    }

    private let files = Mutex<[ObjectIdentifier: File]>([:])
    private let count = Atomic<Int>(0)

    /// Whether it has no file, for the fast paths.
    var isEmpty: Bool { count.load(ordering: .relaxed) == 0 }

    /// Adds the file of a node in the state that presenters know. Returns whether it is new; the caller then starts to
    /// poll it.
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

    /// Takes the file out, unless another writer or presenter has come since the poll began. Returns whether it is out.
    func remove(_ node: Node) -> Bool {
        change { files in
            if files[ObjectIdentifier(node)]?.isRenewed ?? false { return false }
            files[ObjectIdentifier(node)] = nil
            return true
        }
    }

    /// Evaluates a poll. The writes of a handle that was opened a moment ago wait for its close.
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
            // Other programs may open the file again and again meanwhile.
            let patience = isYoung ? Self.interval : Self.patience
            return now.since(since) >= patience ? .tell : .rest(Self.patience)
        }
    }

    /// Notes the state that presenters are told of now, or need not be told of.
    func noteTold(_ node: Node, _ stamp: Stamp, isDoubtful: Bool = false, under teller: HandleID? = nil) {
        files.withLock { files in
            guard files[ObjectIdentifier(node)] != nil else { return }
            files[ObjectIdentifier(node)] = File(told: stamp, isDoubtful: isDoubtful, teller: teller)
        }
    }

    /// Notes a state that another event reports, for a program that found `baseline` at its open.
    ///
    /// A presenter is not told of its own program's writes. So if other writers had changed the file before, that
    /// change stays to be reported.
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

    /// Whether all writes through a handle were reported. The arbiter knows it for handles with a claim.
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
    /// Watches a file that a program has opened to write and that has interested presenters.
    func watch(_ handle: Handle) {
        guard let baseline = handle.baseline else { return }
        watch(handle.node, known: baseline.stamp, isDoubtful: baseline.isRacy)
    }

    /// Does the same if a presenter came after the handle's file was found.
    func watchIfHeard(_ handle: Handle) {
        guard engine.hasAwareClients, handle.mayWrite, handle.node.itemClass != .private,
            hasInterestedPresenter(handle.node)
        else { return }
        watch(handle)
    }

    /// Watches the open writers of a file that may have an interested presenter from now on.
    func watchWriters(of node: Node) {
        guard engine.hasAwareClients, node.kind == S_IFREG, !handles.writers(on: node).isEmpty else { return }
        context.work(on: node) { [self] in
            guard hasInterestedPresenter(node), let status = node.presentStatus else { return }
            watch(node, known: Stamp(status), isDoubtful: context.isTimeRacy(status))
        }
    }

    /// Does the same for all files in a directory.
    func watchWriters(in node: Node) {
        if node.kind != S_IFDIR { return watchWriters(of: node) }
        for id in handles.writtenNodes {
            if let node = nodes[id] { watchWriters(of: node) }
        }
    }

    /// Notes that another event reports a program's changes. If the program still has the file open, its access session
    /// goes on and reports them only at its end. In that case the next poll reports them.
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
            // Most files are closed by the first poll.
            if handles.writers(on: node).isEmpty, writerMonitor.remove(node) { return }
            context.work(on: node) { [self] in pollWriters(at: node) }
        }
    }

    /// Polls a file; stops when no program has it open to write, or no presenter is interested.
    private func pollWriters(at node: Node) {
        writerMonitor.beginPoll(at: node)
        let writers = handles.writers(on: node)
        let isNeeded = !writers.isEmpty && engine.hasAwareClients && hasInterestedPresenter(node)
        if context.hasEnded || !isNeeded && writerMonitor.remove(node) { return }
        pollWriters(at: node, after: pollAndPublish(node, writers))
    }

    /// Returns the time until the next poll.
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
        // A program with an announced access also reports its end.
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

    /// The writer that the event names. The kernel does not say which of them has written.
    ///
    /// A presenter is not told of its own writes. If another program may have written as well, that program is named: a
    /// notice too many does no harm, a missing notice does.
    private func author(among writers: [Handle], of node: Node) -> Handle? {
        let candidates = writers.filter(\.mayHaveWritten)
        guard candidates.count > 1 else { return candidates.first }
        let (item, place) = (node.item, place(of: node))
        return candidates.first { !engine.hasInterestedPresenter(of: item, at: place, by: $0.identify()) }
            ?? candidates.first
    }
}
