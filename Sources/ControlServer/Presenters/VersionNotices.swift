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
        var waiting = WaitingVersionChanges()
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
            state.waiting.add(change)
            defer { state.isScheduled = true }
            return !state.isScheduled
        }
        if isFirst { workQueue.submit(in: workQueue.serverLane) { [self] in passOn() } }
    }

    private func passOn() {
        while let changes = next() {
            for change in changes { tell(change) }
        }
    }

    private func next() -> [PreservedChange]? {
        state.withLock { state in
            let changes = state.waiting.takeAll()
            if changes.isEmpty { state.isScheduled = false }
            return changes.isEmpty ? nil : changes
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

/// The changes of versions that presenters are not told of yet. Their number is bounded.
///
/// When there are too many, all are replaced by one change without a version for each document and kind of change. After such a
/// change a program lists the versions of the document.
package struct WaitingVersionChanges: Sendable {
    private struct Missed: Hashable {
        let path: [UInt8]
        let kind: VersionChange.Kind
    }

    private var waiting: [PreservedChange] = []
    private var missed: Set<Missed> = []

    package init() {}

    package mutating func add(_ change: PreservedChange) {
        if waiting.count >= ProtocolLimits.versionNotices {
            for former in waiting where missed.count < ProtocolLimits.versionNotices {
                missed.insert(Missed(path: former.path, kind: former.change.kind))
            }
            waiting = []
        }
        waiting.append(change)
    }

    /// Returns and removes all changes, those without a version first.
    package mutating func takeAll() -> [PreservedChange] {
        defer { (waiting, missed) = ([], []) }
        return missed.map { PreservedChange(VersionChange($0.kind, nil), of: $0.path, by: nil) } + waiting
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
