// SPDX-License-Identifier: Apache-2.0
package import Coordination
package import FuseBridge
import Synchronization

/// The recent changes that programs made through the mount.
///
/// The watch of the source reports these changes as well as out-of-band changes, and the daemon must distinguish the
/// two. The process of a change does not show the difference: for passthrough, the kernel writes to the source under
/// the number of the program's process. inotify reports no process at all.
package final class OwnChanges: Sendable {
    /// For this long after a change through the mount, an event of the kernel about the file may report this change.
    package static let period = TimeSpan.seconds(1)
    /// After ``note(_:at:)`` was called for a name, the change of the name through the mount may take this long.
    package static let moment = TimeSpan.milliseconds(250)

    /// Whether a change is one of the file's attributes or of its contents.
    package enum ChangeKind: Sendable { case attributes, contents }

    fileprivate struct ChangeRecord {
        /// `contents`: the time of the last change of contents. `any`: the time of the last change of any kind.
        var contents: Instant?
        var any: Instant
        /// The number of the last change of contents.
        var serial: UInt64 = 0
        /// The file's stamp after the last change of contents; nil until that change has ended.
        var left: Stamp?
    }

    private struct Generation {
        var names: [EntryName: Instant] = [:]
        var nodes: [NodeID: ChangeRecord] = [:]
    }

    private struct State {
        var recent = Generation()
        /// The records that are older than the time `since`. Later records are in `recent`.
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

    /// Forgets records that are so old that no event for them can come any more. Returns whether other records remain.
    /// Without this, the records of 100,000 removals would take megabytes.
    package func forget(at now: Instant) -> Bool {
        state.withLock { state in
            state.rotate(at: now)
            return !state.isEmpty
        }
    }

    /// Notes that a program is about to add or remove a name through the mount.
    package func note(_ name: EntryName, at now: Instant) {
        state.withLock { state in
            state.rotate(at: now)
            state.recent.names[name] = now
        }
    }

    /// Notes that a program is about to change a file through the mount, or to close a handle that could change it.
    ///
    /// Returns a number for the change. The caller passes this number to ``finish(_:change:leaving:)``.
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

    /// Notes the file's stamp at the end of a change of contents. If the file later has another stamp, another program
    /// has changed the file.
    ///
    /// Does nothing if the file was changed once more in the meantime.
    package func finish(_ node: NodeID, change: UInt64, leaving stamp: Stamp) {
        state.withLock { state in
            if state.recent.nodes[node]?.serial == change {
                state.recent.nodes[node]?.left = stamp
            } else if state.recent.nodes[node] == nil, state.older.nodes[node]?.serial == change {
                state.older.nodes[node]?.left = stamp
            }
        }
    }

    /// Returns the recent changes of a file through the mount.
    package func changes(of node: NodeID) -> ChangeHistory {
        ChangeHistory(trace: state.withLock { $0.trace(of: node) })
    }

    /// Returns whether a program has added or removed a name through the mount within the last `period`.
    package func has(_ name: EntryName, within period: TimeSpan, at now: Instant) -> Bool {
        let noted = state.withLock { $0.recent.names[name] ?? $0.older.names[name] }
        return noted.map { !(now.since($0) > period) } ?? false
    }
}

extension OwnChanges {
    /// The recent changes of a file through the mount.
    package struct ChangeHistory: Sendable {
        fileprivate let trace: ChangeRecord?

        /// The number of the last change of the file's contents, or 0 if there is none.
        package var latest: UInt64 { trace?.serial ?? 0 }

        /// Returns whether all changes of the file that the kernel reports can be changes through the mount.
        ///
        /// `stamp`: the file's present stamp, or nil if only the file's attributes have changed.
        package func explain(_ stamp: Stamp?, at now: Instant) -> Bool {
            guard let trace else { return false }
            guard let stamp else { return !(now.since(trace.any) > OwnChanges.period) }
            guard let noted = trace.contents, !(now.since(noted) > OwnChanges.period) else { return false }
            return trace.left.map { stamp.hasSameContents(as: $0) } ?? true
        }
    }
}
