// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine
import Synchronization

/// Passes changes of versions from the store to the engine, which tells presenters (N16).
///
/// The store reports the path of the document. One job of the work queue at a time finds the item at this path, so that the
/// engine gets the changes in the order of the store.
final class VersionNotices: Sendable {
    private struct State {
        var waiting: [PreservedChange] = []
        /// Whether a job is on the work queue that passes on the waiting changes.
        var isScheduled = false
    }

    private let engine: Engine
    private let documents: any DocumentSource
    private let workQueue: FairWorkQueue
    private let state = Mutex(State())

    init(engine: Engine, documents: any DocumentSource, workQueue: FairWorkQueue) {
        self.engine = engine
        self.documents = documents
        self.workQueue = workQueue
    }

    /// Takes a change of a version. Any thread may call this; it does not wait.
    func take(_ change: PreservedChange) {
        // Without presenters, no program is told.
        guard engine.hasAwareClients, !change.path.isEmpty else { return }
        let isFirst = state.withLock { state in
            if state.waiting.count >= ProtocolLimits.versionNotices { state.waiting.removeFirst() }
            state.waiting.append(change)
            defer { state.isScheduled = true }
            return !state.isScheduled
        }
        if isFirst { workQueue.submit(in: workQueue.serverLane) { [self] in passOn() } }
    }

    private func passOn() {
        while let change = next() { tell(change) }
    }

    private func next() -> PreservedChange? {
        state.withLock { state in
            guard !state.waiting.isEmpty else {
                state.isScheduled = false
                return nil
            }
            return state.waiting.removeFirst()
        }
    }

    private func tell(_ change: PreservedChange) {
        let document: any TrackedDocument
        do throws(LookupFailure) {
            document = try documents.find(change.path)
        } catch {
            // The directory of the document does not exist any more, so nothing below it is presented.
            return
        }
        defer { document.release() }
        engine.noteVersion(
            change.change, of: document.item, at: document.place,
            Cause(Party(change.actor), .write(.updating)))
    }
}

extension Party {
    /// A party that only names the program. The process can have ended already.
    fileprivate init(_ actor: ProcessDescription?) {
        let process = actor.flatMap { $0.pid == 0 ? nil : ProcessID(number: $0.pid, started: 0) }
        self.init(process: process, ancestors: [])
        program = actor?.program ?? []
        user = actor?.user
    }
}
