// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Synchronization

/// The recogniser and its open windows behind one lock.
///
/// **Lock rule.** Only values change under it; whoever has to be told is told by the caller, afterwards.
final class Episodes: Sendable {
    struct State {
        var recogniser: Recogniser
        var windows = VacancyTable()
        var moved = MovedDocuments()
        var isWatched = false
        /// Steps under way that are about to vacate a name, by directory.
        var steps: [NodeNumber: Int] = [:]
        /// The processes whose listings have waited for a window, by the claim of the window.
        var listed: [ClaimID: Set<ProcessID>] = [:]

        /// Tells of any operation of an actor on the mount, which may not have done saving yet.
        mutating func touched(by actor: Actor, at now: Instant) {
            windows.touched(by: actor, at: now)
            moved.touched(by: actor, at: now)
        }
    }

    let state: Mutex<State>
    let departures = Mutex(Departures())
    private let stepsBegun = Atomic<UInt64>(0)
    private let openWindows = Atomic<Int>(0)

    init(knowing programs: ProgramClasses) {
        state = Mutex(State(recogniser: Recogniser(knowing: programs)))
    }

    /// Whether no name is vacated just now, which is what the fast paths ask.
    var isQuiet: Bool { openWindows.load(ordering: .relaxed) == 0 }

    /// Changes the book, and keeps ``isQuiet`` true to it.
    func change<Result>(_ body: (inout State) -> Result) -> Result {
        state.withLock { state in
            let result = body(&state)
            openWindows.store(
                state.windows.count + state.steps.count + state.moved.count, ordering: .sequentiallyConsistent
            )
            return result
        }
    }

    /// A file is gone, or has become a document.
    func forgetFile(_ node: NodeNumber) {
        state.withLock { if $0.recogniser.count > 0 { $0.recogniser.forget(node) } }
    }

    /// A file was closed by somebody who could write to it.
    func closedFile(_ node: NodeNumber) {
        state.withLock { if $0.recogniser.count > 0 { $0.recogniser.closed(node, at: Engine.now) } }
    }

    /// A name of a directory is about to be vacated: a listing that lacks it already is told so until ``endStep(in:)``.
    func beginStep(in directory: NodeID) {
        change { $0.steps[NodeNumber(directory.rawValue), default: 0] += 1 }
        stepsBegun.add(1, ordering: .sequentiallyConsistent)
    }

    /// The window of the name is open, or the name was not vacated.
    func endStep(in directory: NodeID) {
        let number = NodeNumber(directory.rawValue)
        change { state in
            state.steps[number, default: 1] -= 1
            if state.steps[number] == 0 { state.steps[number] = nil }
        }
    }

    /// Grows with each step that is about to vacate a name.
    var lastStep: UInt64 { stepsBegun.load(ordering: .sequentiallyConsistent) }

    /// What a listing of a directory by a program would lack and has not waited for yet, and whether a name is being vacated.
    func missing(in directory: NodeID, for actor: Actor?) -> (vacancies: [Vacancy], isVacating: Bool) {
        let number = NodeNumber(directory.rawValue)
        return state.withLock { state in
            let vacancies = state.windows.vacancies(in: number, for: actor).filter { vacancy in
                guard let actor else { return true }
                return !(state.listed[vacancy.claim]?.contains(actor.process) ?? false)
            }
            return (vacancies, state.steps[number] != nil)
        }
    }

    /// A program's listing waits for windows: it does so once for each.
    func noteListing(of vacancies: [Vacancy], for actor: Actor?) {
        guard let actor else { return }
        state.withLock { state in
            for vacancy in vacancies where state.windows.isOpen(vacancy) {
                state.listed[vacancy.claim, default: []].insert(actor.process)
            }
        }
    }

    /// Whether a thread leaves so many names empty that none of them is in the middle of a save.
    func areManyDepartures(by vacancy: Vacancy) -> Bool {
        departures.withLock { $0.areMany(by: vacancy.thread, from: vacancy.directory, at: Engine.now) }
    }
}
