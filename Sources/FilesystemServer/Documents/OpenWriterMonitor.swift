// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// The files that programs have open to write and that presenters hear of.
///
/// Presenters hear what a program has written when it closes the file. A program that keeps the file open, or has mapped it, may
/// never close it. So such a file is looked at by a timer, and what was written is told within a second (D182).
///
///     quiet ──it looks otherwise than presenters know──▶ changed ──`patience` later──▶ told, and quiet again
///
/// A file that no presenter hears of is not in the table. One is taken out by the first look that finds no writer or no presenter.
final class OpenWriterMonitor: Sendable {
    /// How often a file is looked at that is quiet, and how long a handle is open before anything is told of it.
    ///
    /// Most programs open a file, write it and close it within this time. They are told of once, by the close.
    static let interval = TimeSpan.milliseconds(500)
    /// How long nothing is told after a change was seen. With the interval before, this is less than the second that is promised.
    static let patience = TimeSpan.milliseconds(250)

    private struct File {
        /// What presenters know of it.
        var told: Stamp
        /// The clock of the file system might not tell a change that came after that.
        var isDoubtful = false
        /// Under which handle it was told; nil if by another way.
        var teller: HandleID?
        /// Since when it looks otherwise.
        var changed: Instant?
        /// Another writer or presenter has come since the last look began.
        var isRenewed = false
    }

    /// What follows from a look.
    enum PollResult: Equatable {
        case rest(TimeSpan)
        /// Presenters are to be told.
        case tell
    }

    private let files = Mutex<[ObjectIdentifier: File]>([:])
    private let count = Atomic<Int>(0)

    /// Whether it has no file, which is what the fast paths ask.
    var isEmpty: Bool { count.load(ordering: .relaxed) == 0 }

    /// Adds the file of a node, of which presenters know what it looks like. Returns whether it is new, and the caller is to look
    /// at it from now on.
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

    /// Takes the file out, unless another writer or presenter has come since the look began. Returns whether it is out.
    func remove(_ node: Node) -> Bool {
        change { files in
            if files[ObjectIdentifier(node)]?.isRenewed ?? false { return false }
            files[ObjectIdentifier(node)] = nil
            return true
        }
    }

    /// Takes a look into account. A handle that was opened a moment ago has its close told, and nothing before.
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
            // Others may open the file again and again meanwhile.
            let patience = isYoung ? Self.interval : Self.patience
            return now.since(since) >= patience ? .tell : .rest(Self.patience)
        }
    }

    /// Presenters are told now, or need not be told, what the file looks like.
    func noteTold(_ node: Node, _ stamp: Stamp, isDoubtful: Bool = false, under teller: HandleID? = nil) {
        files.withLock { files in
            guard files[ObjectIdentifier(node)] != nil else { return }
            files[ObjectIdentifier(node)] = File(told: stamp, isDoubtful: isDoubtful, teller: teller)
        }
    }

    /// The same of what is told in another way: of a program that found the file at its open as `baseline` says. A presenter is not
    /// told what its own program did. So if other writers had changed the file before, that stays to be told.
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

    /// Whether all was told that was written through a handle. The arbiter knows it of handles with a claim.
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

extension CoordinatedFilesystem {
    /// A program has opened a file to write that presenters hear of.
    func watch(_ handle: Handle) {
        let (stamp, isTimeRacy) = handle.state.withLock { ($0.baseline, $0.isBaselineRacy) }
        if let stamp { watch(handle.node, known: stamp, isDoubtful: isTimeRacy) }
    }

    /// The same of a handle that presenters did not hear of when its file was found. One may have come meanwhile.
    func watchIfHeard(_ handle: Handle) {
        guard engine.hasAwareClients, handle.mayWrite, handle.node.itemClass != .private,
            hasInterestedPresenter(handle.node)
        else { return }
        watch(handle)
    }

    /// Presenters may hear of a file from now on, which programs may have open to write.
    func watchWriters(of node: Node) {
        guard engine.hasAwareClients, node.kind == S_IFREG, !handles.writers(on: node).isEmpty else { return }
        work(on: node) { [self] in
            guard hasInterestedPresenter(node), let status = node.presentStatus else { return }
            watch(node, known: Stamp(status), isDoubtful: isTimeRacy(status))
        }
    }

    /// The same of all files in a directory.
    func watchWriters(in node: Node) {
        if node.kind != S_IFDIR { return watchWriters(of: node) }
        for id in handles.writtenNodes {
            if let node = nodes[id] { watchWriters(of: node) }
        }
    }

    /// A document is presented from now on, or a directory with all that is in it.
    func didRegisterPresenter(_ document: any TrackedDocument) {
        if let node = nodes[document.item] { watchWriters(in: node) }
    }

    /// What a program has done to a file is told in another way. If the program still has the file open, the turn goes on, and tells it at
    /// its end only: then the next look tells it.
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
            // Most files are closed by the first look.
            if handles.writers(on: node).isEmpty, writerMonitor.remove(node) { return }
            work(on: node) { [self] in pollWriters(at: node) }
        }
    }

    /// Nothing is looked at any more when no program has the file open to write, or no presenter hears of it.
    private func pollWriters(at node: Node) {
        writerMonitor.beginPoll(at: node)
        let writers = handles.writers(on: node)
        let isNeeded = !writers.isEmpty && engine.hasAwareClients && hasInterestedPresenter(node)
        if hasEnded || !isNeeded && writerMonitor.remove(node) { return }
        pollWriters(at: node, after: pollAndPublish(node, writers))
    }

    /// Returns when to look again.
    private func pollAndPublish(_ node: Node, _ writers: [Handle]) -> TimeSpan {
        guard let status = node.presentStatus else { return OpenWriterMonitor.interval }
        let (now, stamp, isTimeRacy) = (Engine.now, Stamp(status), isTimeRacy(status))
        let isYoung = writers.contains { now.since($0.opened) < OpenWriterMonitor.interval }
        let verdict = writerMonitor.evaluate(
            at: node, stamp, isTimeRacy: isTimeRacy, isYoung: isYoung, at: now)
        if case .rest(let pause) = verdict { return pause }
        guard let writer = author(among: writers, of: node) else {
            writerMonitor.noteTold(node, stamp)
            return OpenWriterMonitor.interval
        }
        // A program that said when it begins says when it is done.
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

    /// Which of the writers is named. The kernel does not say which one has written.
    ///
    /// A presenter is not told what it has written itself. If another program may have written as well, that one is named:
    /// a notice too many does no harm, one too few does.
    private func author(among writers: [Handle], of node: Node) -> Handle? {
        let candidates = writers.filter(\.mayHaveWritten)
        guard candidates.count > 1 else { return candidates.first }
        let (item, place) = (node.item, place(of: node))
        return candidates.first { !engine.hasInterestedPresenter(of: item, at: place, by: $0.identify()) }
            ?? candidates.first
    }
}
