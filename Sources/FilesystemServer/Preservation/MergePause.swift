// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Synchronization

/// A pause before a change of names or of a size, until the document is merged or 200 ms have passed.
final class MergePause: Sendable {
    private let merges: PendingMerges
    /// Finds the file that the document has now. While the request waits for its claim, another file may replace it.
    private let document: @Sendable () -> Node
    /// Whether a program must close a file before a merge is possible: another program still writes the document, or the file
    /// that replaces the document is still open to write.
    private let isUnfinished: @Sendable (Node) -> Bool
    private let end = Mutex<Instant?>(nil)

    init(
        _ merges: PendingMerges, of document: @escaping @Sendable () -> Node,
        or isUnfinished: @escaping @Sendable (Node) -> Bool
    ) {
        (self.merges, self.document, self.isUnfinished) = (merges, document, isUnfinished)
    }

    /// Whether the request must still wait. The time begins with the first call that returns true.
    var lasts: Bool {
        let node = document()
        guard merges.isPending(node.id) || isUnfinished(node) else { return false }
        let now = Engine.now
        let end = end.withLock { end in
            let moment = end ?? now + PendingMerges.longestWait
            end = moment
            return moment
        }
        guard now < end else {
            merges.giveUp(node.id)
            return false
        }
        return true
    }
}

extension UnseenOverwrites {
    /// Returns the pause that a step on names must make before it is taken. Returns nil if no merge concerns the document.
    ///
    /// Programs that use the document in different ways may save at the same moment: one writes the document, and another renames
    /// a new file over it. Names never wait for an open file, so the text of the writer would then be lost to the document. So
    /// the rename waits for the writer here (D280).
    func pause(before step: DocumentStep?, by thread: Int32) -> MergePause? {
        guard context.policies.mergesSaves, let step, isMerged(step.node, by: thread) else { return nil }
        let (node, item) = (step.node, step.node.item)
        let document = { @Sendable [nodes] in nodes[item] ?? node }
        let isWritten = isWritten(besides: thread)
        switch step {
        case .replaces(_, let file):
            let isConcerned =
                merges.isPending(node.id) || isWritten(node)
                || review(node, by: thread)?.view.isUnseen ?? false
            return MergePause(merges, of: document) { [handles] document in
                isWritten(document) || isConcerned && !handles.writers(on: file).isEmpty
            }
        case .vacates(_, _, isLast: false): return MergePause(merges, of: document, or: isWritten)
        case .vacates, .exchanges: return pause(at: node)
        }
    }

    /// Returns the pause that a change of a file's size must make.
    func pause(beforeResizing node: Node, by thread: Int32) -> MergePause? {
        isMerged(node, by: thread) ? pause(at: node) : nil
    }

    private func pause(at node: Node) -> MergePause { MergePause(merges, of: { node }, or: { _ in false }) }

    /// Returns a function that finds out whether another program has a file open to write, or is just opening the file.
    private func isWritten(besides thread: Int32) -> @Sendable (Node) -> Bool {
        let party = context.processes.party(ofThread: thread, notAfter: Engine.now)
        return { [handles, merges] node in
            merges.isPassed(node.id)
                || handles.writers(on: node).contains { !$0.identify().isExempt(from: party) }
        }
    }
}
