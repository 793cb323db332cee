// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Synchronization

/// What was changed through the mount a moment ago: the source tells of it as it tells of what others do.
///
/// The kernel writes to the files below for the programs that write to the mount, and does so under their names; and
/// inotify names nobody.
final class OwnChanges: Sendable {
    /// How long a change may explain what the source tells of.
    static let period = Span.seconds(1)
    /// How long the mount may take to follow what it has changed itself.
    static let moment = Span.milliseconds(250)

    private struct Generation {
        var names: [Documents.Name: Instant] = [:]
        var nodes: [NodeID: Instant] = [:]
    }

    private struct State {
        var recent = Generation()
        /// What was noted before; nothing in it is younger than the beginning of `recent`.
        var older = Generation()
        var since: Instant

        mutating func turn(at now: Instant) {
            guard now.since(since) > OwnChanges.period else { return }
            (older, recent, since) = (recent, Generation(), now)
        }
    }

    private let state: Mutex<State>

    init(at now: Instant) { state = Mutex(State(since: now)) }

    /// A name is about to be given or taken away.
    func note(_ name: Documents.Name, at now: Instant) {
        state.withLock { state in
            state.turn(at: now)
            state.recent.names[name] = now
        }
    }

    /// Contents or attributes are about to change, or a handle to end that could change them.
    func note(_ node: NodeID, at now: Instant) {
        state.withLock { state in
            state.turn(at: now)
            state.recent.nodes[node] = now
        }
    }

    func has(_ name: Documents.Name, within period: Span, at now: Instant) -> Bool {
        let noted = state.withLock { $0.recent.names[name] ?? $0.older.names[name] }
        return noted.map { !(now.since($0) > period) } ?? false
    }

    func has(_ node: NodeID, at now: Instant) -> Bool {
        let noted = state.withLock { $0.recent.nodes[node] ?? $0.older.nodes[node] }
        return noted.map { !(now.since($0) > Self.period) } ?? false
    }
}
