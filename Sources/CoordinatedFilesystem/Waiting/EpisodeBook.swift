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
        var recogniser = Recogniser()
        var windows = VacancyTable()
        var isWatched = false
    }

    let state = Mutex(State())
    private let openWindows = Atomic<Int>(0)

    /// Whether no name is vacated just now, which is what the fast paths ask.
    var isQuiet: Bool { openWindows.load(ordering: .relaxed) == 0 }

    /// Changes the book, and keeps ``isQuiet`` true to it.
    func change<Result>(_ body: (inout State) -> Result) -> Result {
        state.withLock { state in
            let result = body(&state)
            openWindows.store(state.windows.count, ordering: .sequentiallyConsistent)
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

    func vacatedNames(in directory: Node, for actor: Actor?) -> [[UInt8]] {
        state.withLock { $0.windows.names(in: NodeNumber(directory.id.rawValue), for: actor) }
    }
}
