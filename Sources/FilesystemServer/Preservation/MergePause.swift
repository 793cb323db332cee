// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Synchronization

/// A pause before a change of names or of a size, until the document is merged or 200 ms have passed.
final class MergePause: Sendable {
    private let merges: PendingMerges
    private let node: NodeID
    /// Whether the file that replaces the document is still open to write. Only after its close it can be merged.
    private let isUnfinished: @Sendable () -> Bool
    private let end = Mutex<Instant?>(nil)

    init(_ merges: PendingMerges, _ node: NodeID, or isUnfinished: @escaping @Sendable () -> Bool) {
        (self.merges, self.node, self.isUnfinished) = (merges, node, isUnfinished)
    }

    /// Whether the request must still wait. The time begins with the first call that returns true.
    var lasts: Bool {
        guard merges.isPending(node) || isUnfinished() else { return false }
        let now = Engine.now
        let end = end.withLock { end in
            let moment = end ?? now + PendingMerges.longestWait
            end = moment
            return moment
        }
        guard now < end else {
            merges.giveUp(node)
            return false
        }
        return true
    }
}

extension UnseenOverwrites {
    /// Returns the pause that a step on names must make before it is taken. Returns nil if no merge concerns the document.
    func pause(before step: DocumentStep?, by thread: Int32) -> MergePause? {
        guard context.policies.mergesSaves, let step, isMerged(step.node, by: thread) else { return nil }
        guard case .replaces(let document, let file) = step,
            merges.isPending(document.id) || review(document, by: thread)?.view.isUnseen ?? false
        else { return pause(at: step.node) }
        return MergePause(merges, document.id) { [handles] in !handles.writers(on: file).isEmpty }
    }

    /// Returns the pause that a change of a file's size must make.
    func pause(beforeResizing node: Node, by thread: Int32) -> MergePause? {
        isMerged(node, by: thread) ? pause(at: node) : nil
    }

    private func pause(at node: Node) -> MergePause { MergePause(merges, node.id) { false } }
}
