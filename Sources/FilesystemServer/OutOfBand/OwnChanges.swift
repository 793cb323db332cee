// SPDX-License-Identifier: Apache-2.0
package import Coordination
import CoordinationEngine
package import FuseBridge
import Synchronization

/// What was changed through the mount a moment ago: the source tells of it as it tells of what others do.
///
/// The kernel writes to the files below for the programs that write to the mount, and does so under their names; and
/// inotify names nobody.
package final class OwnChanges: Sendable {
    /// How long a change may explain what the source tells of.
    package static let period = TimeSpan.seconds(1)
    /// How long the mount may take to follow what it has changed itself.
    package static let moment = TimeSpan.milliseconds(250)

    /// What is about to change in a file.
    package enum ChangeKind: Sendable { case attributes, contents }

    fileprivate struct ChangeRecord {
        /// When the contents were changed last, and when anything was.
        var contents: Instant?
        var any: Instant
        /// The last change of contents.
        var serial: UInt64 = 0
        /// What that has left, once it is over.
        var left: Stamp?
    }

    private struct Generation {
        var names: [DocumentTable.EntryName: Instant] = [:]
        var nodes: [NodeID: ChangeRecord] = [:]
    }

    private struct State {
        var recent = Generation()
        /// What was noted before; nothing in it is younger than the beginning of `recent`.
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

    /// Forgets what explains nothing any more: after a hundred thousand removals that is megabytes. Returns whether
    /// something is left.
    package func forget(at now: Instant) -> Bool {
        state.withLock { state in
            state.rotate(at: now)
            return !state.isEmpty
        }
    }

    /// A name is about to be given or taken away.
    package func note(_ name: DocumentTable.EntryName, at now: Instant) {
        state.withLock { state in
            state.rotate(at: now)
            state.recent.names[name] = now
        }
    }

    /// A file is about to be changed, or a handle to end that could change it. Returns the number of the change, for
    /// ``finish(_:change:leaving:)``.
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

    /// A change of contents is over: what looks otherwise from now on was changed by somebody else. Does nothing if
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

    /// What is remembered of a file, as it is now.
    package func changes(of node: NodeID) -> ChangeHistory {
        ChangeHistory(trace: state.withLock { $0.trace(of: node) })
    }

    /// Whether a name was given or taken away here within a period.
    package func has(_ name: DocumentTable.EntryName, within period: TimeSpan, at now: Instant) -> Bool {
        let noted = state.withLock { $0.recent.names[name] ?? $0.older.names[name] }
        return noted.map { !(now.since($0) > period) } ?? false
    }
}

extension OwnChanges {
    /// What was done to a file through the mount.
    package struct ChangeHistory: Sendable {
        fileprivate let trace: ChangeRecord?

        /// The number of the last change of its contents, or 0.
        package var latest: UInt64 { trace?.serial ?? 0 }

        /// Whether all that the source tells of the file may have been done here. `stamp` is what the file looked like
        /// afterwards; nil if only its attributes have changed.
        package func explain(_ stamp: Stamp?, at now: Instant) -> Bool {
            guard let trace else { return false }
            guard let stamp else { return !(now.since(trace.any) > OwnChanges.period) }
            guard let noted = trace.contents, !(now.since(noted) > OwnChanges.period) else { return false }
            return trace.left.map { stamp.hasSameContents(as: $0) } ?? true
        }
    }
}
