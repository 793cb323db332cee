// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import History
import LinuxSystem
import Synchronization
import VersionStore

/// Collects the steps of programs for the history, and adds them to the log (D255).
///
/// A request appends its step to a buffer in memory, and does nothing else for the history. A worker takes the buffer 200 ms
/// after its first step, finds the paths, and appends the lines. If more steps come than the buffer holds, the log gets one line
/// that says how many are missing.
final class HistoryRecorder: Sendable {
    private struct State {
        var steps: [HistoryStep] = []
        var engineSteps: [EngineStep] = []
        var finished: [HistoryEvent] = []
        var missing = 0
        /// Whether a worker will take the steps.
        var isScheduled = false
        /// How often the worker has left the steps for later.
        var postponed = 0
    }

    private static let capacity = 16_384
    private static let pause = TimeSpan.milliseconds(200)
    /// A worker takes the steps only if none came in this time, so that all steps of a save are taken together. It waits for
    /// such a time at most ``mostPostponements`` times.
    private static let quietTime = TimeSpan.milliseconds(50)
    private static let mostPostponements = 4
    /// A new file that is closed within this time after its creation gets no second event for its contents.
    private static let newFileTime = TimeSpan.seconds(1)

    let log: HistoryLog?
    /// Whether the log takes events. Requests check this first.
    let isRecording: Bool
    private let engine: Engine
    private let drafts: HistoryDrafts
    private let state = Mutex(State())
    /// Only one worker at a time takes steps, so that the lines are in the order of the steps.
    private let writing = Mutex(())

    init(_ log: HistoryLog?, _ engine: Engine, isShared: Bool) {
        self.log = log
        self.engine = engine
        isRecording = log?.isRecording ?? false
        drafts = HistoryDrafts(isShared: isShared)
        guard isRecording else { return }
        log?.collect { [weak self] in self?.flush() }
        engine.journal.observeQuestions { [weak self] entry in
            guard let self, let subject = entry.subject else { return }
            append(
                EngineStep(kind: entry.step, moment: entry.moment, subject: subject, detail: entry.detail))
        }
    }

    /// Notes that a program closes a file that it could write to. `isNextContents`: whether the file is new, and has the next
    /// contents of a document that is being saved.
    @inline(__always)
    func noteClose(_ handle: Handle) {
        guard isRecording, handle.mayWrite || handle.truncates else { return }
        appendClose(handle)
    }

    private func appendClose(_ handle: Handle) {
        let now = Engine.now
        if handle.isNew, handle.author?.run == nil, now.since(handle.opened) < Self.newFileTime { return }
        let (name, directory, hasName) = handle.node.location
        guard hasName, let directory else { return }
        let (baseline, hasWritten, _) = handle.writing
        let isCertain = handle.truncates || hasWritten || baseline?.isRacy ?? true
        append(
            HistoryStep(
                kind: .closed(isCertain ? nil : baseline), name: name, directory: directory, moment: now,
                author: handle.author, user: handle.user))
    }

    /// Notes a step with a name.
    @inline(__always)
    func note(_ kind: @autoclosure () -> HistoryStep.Kind, _ change: NameChange, by author: Author?) {
        guard isRecording, !change.isOutOfBand else { return }
        append(
            HistoryStep(
                kind: kind(), name: change.name, directory: change.directory, moment: Engine.now,
                author: author,
                user: change.caller.user))
    }

    /// Notes a step with the file of a node.
    func note(_ kind: HistoryStep.Kind, _ node: Node, by author: Author?, user: UInt32?) {
        guard isRecording else { return }
        let (name, directory, _) = node.location
        guard let directory else { return }
        append(
            HistoryStep(
                kind: kind, name: name, directory: directory, moment: Engine.now, author: author, user: user))
    }

    /// Notes an event whose facts are all known.
    func note(_ event: HistoryEvent) {
        guard isRecording else { return }
        state.withLock { $0.finished.append(event) }
        scheduleIfNeeded()
    }

    private func append(_ step: HistoryStep) {
        let isFirst = state.withLock { state in
            guard state.steps.count < Self.capacity else {
                state.missing += 1
                return false
            }
            state.steps.append(step)
            defer { state.isScheduled = true }
            return !state.isScheduled
        }
        if isFirst { schedule() }
    }

    /// Called under the engine's lock, so it must not call the engine.
    private func append(_ step: EngineStep) {
        let isFirst = state.withLock { state in
            guard state.engineSteps.count < Self.capacity else {
                state.missing += 1
                return false
            }
            state.engineSteps.append(step)
            defer { state.isScheduled = true }
            return !state.isScheduled
        }
        if isFirst { schedule() }
    }

    private func scheduleIfNeeded() {
        let isFirst = state.withLock { state in
            defer { state.isScheduled = true }
            return !state.isScheduled
        }
        if isFirst { schedule() }
    }

    private func schedule(after pause: TimeSpan = HistoryRecorder.pause) {
        engine.timers.schedule(at: (Engine.now + pause).nanoseconds) { [weak self, engine] in
            engine.workers.run { [weak self] in
                guard let self else { return }
                if isQuiet() { flush() } else { schedule(after: Self.quietTime) }
            }
        }
    }

    private func isQuiet() -> Bool {
        state.withLock { state in
            guard let last = state.steps.last, state.postponed < Self.mostPostponements,
                state.steps.count < Self.capacity / 2, Engine.now.since(last.moment) < Self.quietTime
            else { return true }
            state.postponed += 1
            return false
        }
    }

    /// Adds all steps to the log. Can block.
    func flush() {
        guard let log else { return }
        writing.withLock { _ in
            let (steps, engineSteps, finished, missing) = state.withLock { state in
                defer { state = State() }
                return (state.steps, state.engineSteps, state.finished, state.missing)
            }
            log.append(
                drafts.events(of: steps, and: engineSteps, finished, missing: missing, at: HistoryClock()))
        }
    }

    func prune() { log?.prune() }
}

/// Converts moments of the monotonic clock to times of day.
struct HistoryClock: Sendable {
    private let now = Engine.now
    private let time = WallClock.nanoseconds()

    func time(of moment: Instant) -> Int64 {
        time - Int64(clamping: now.nanoseconds) + Int64(clamping: moment.nanoseconds)
    }

    var present: Int64 { time }
}
