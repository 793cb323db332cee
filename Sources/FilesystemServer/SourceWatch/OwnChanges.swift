// SPDX-License-Identifier: Apache-2.0
package import Coordination
package import FuseBridge
import Synchronization

/// Recent changes made through the mount, since the source reports them like changes of other programs.
///
/// The kernel writes to the files below on behalf of the mount's programs, and under their process numbers. inotify reports
/// no process at all.
package final class OwnChanges: Sendable {
    /// How long a change may explain events of the source.
    package static let period = TimeSpan.seconds(1)
    /// How long the mount may take to record its own change.
    package static let moment = TimeSpan.milliseconds(250)

    /// The kind of change that is about to be made.
    package enum ChangeKind: Sendable { case attributes, contents }

    fileprivate struct ChangeRecord {
        /// The last change of contents, and the last change of any kind.
        var contents: Instant?
        var any: Instant
        /// The number of the last change of contents.
        var serial: UInt64 = 0
        /// The stamp after that change, once it has ended.
        var left: Stamp?
    }

    private struct Generation {
        var names: [EntryName: Instant] = [:]
        var nodes: [NodeID: ChangeRecord] = [:]
    }

    private struct State {
        var recent = Generation()
        /// Earlier records; none is younger than the beginning of `recent`.
        var older = Generation()
        var since: Instant
        var serial: UInt64 = 0

        mutating func rotate(at now: Instant) {
            guard now.since(since) > OwnChanges.period else { return }
            (older, recent, since) = (recent, Generation(), now)
        }

        var isEmpty: Bool {
            recent.names.isEmpty && recent.nodes.isEmpty && older.names.isEmpty && older.nodes.isEmpty
        }

        func trace(of node: NodeID) -> ChangeRecord? { recent.nodes[node] ?? older.nodes[node] }
    }

    private let state: Mutex<State>

    package init(at now: Instant) { state = Mutex(State(since: now)) }

    /// Forgets records that explain no events any more: after 100,000 removals these take megabytes. Returns whether any
    /// records are left.
    package func forget(at now: Instant) -> Bool {
        state.withLock { state in
            state.rotate(at: now)
            return !state.isEmpty
        }
    }

    /// Notes that a name is about to be added or removed.
    package func note(_ name: EntryName, at now: Instant) {
        state.withLock { state in
            state.rotate(at: now)
            state.recent.names[name] = now
        }
    }

    /// Notes that a file is about to be changed, or that a handle that could change it is about to end. Returns the number
    /// of the change, for ``finish(_:change:leaving:)``.
    @discardableResult
    package func note(_ node: NodeID, _ matter: ChangeKind, at now: Instant) -> UInt64 {
        state.withLock { state in
            state.rotate(at: now)
            state.serial += 1
            var trace = state.trace(of: node) ?? ChangeRecord(any: now)
            trace.any = now
            if matter == .contents { (trace.contents, trace.serial, trace.left) = (now, state.serial, nil) }
            state.recent.nodes[node] = trace
            return state.serial
        }
    }

    /// Notes the end of a change of contents: a different stamp after that is another program's change. Does nothing if
    /// another change was noted since.
    package func finish(_ node: NodeID, change: UInt64, leaving stamp: Stamp) {
        state.withLock { state in
            if state.recent.nodes[node]?.serial == change {
                state.recent.nodes[node]?.left = stamp
            } else if state.recent.nodes[node] == nil, state.older.nodes[node]?.serial == change {
                state.older.nodes[node]?.left = stamp
            }
        }
    }

    /// The history of a file, as it is now.
    package func changes(of node: NodeID) -> ChangeHistory {
        ChangeHistory(trace: state.withLock { $0.trace(of: node) })
    }

    /// Whether the mount added or removed a name within a period.
    package func has(_ name: EntryName, within period: TimeSpan, at now: Instant) -> Bool {
        let noted = state.withLock { $0.recent.names[name] ?? $0.older.names[name] }
        return noted.map { !(now.since($0) > period) } ?? false
    }
}

extension OwnChanges {
    /// The recent changes of a file through the mount.
    package struct ChangeHistory: Sendable {
        fileprivate let trace: ChangeRecord?

        /// The number of the last change of its contents, or 0.
        package var latest: UInt64 { trace?.serial ?? 0 }

        /// Whether the mount itself may have made all changes that the source reports of the file. `stamp` is the file's
        /// present stamp; nil if only its attributes have changed.
        package func explain(_ stamp: Stamp?, at now: Instant) -> Bool {
            guard let trace else { return false }
            guard let stamp else { return !(now.since(trace.any) > OwnChanges.period) }
            guard let noted = trace.contents, !(now.since(noted) > OwnChanges.period) else { return false }
            return trace.left.map { stamp.hasSameContents(as: $0) } ?? true
        }
    }
}
