// SPDX-License-Identifier: Apache-2.0
import FuseBridge
import Synchronization

/// The open handles, which are found by their numbers or by their nodes.
final class HandleTable: Sendable {
    private struct State {
        var handles: [HandleID: Handle] = [:]
        /// The handles by which programs may write, by node. They are looked up whenever a name of a file is removed.
        var writers: [NodeID: [Handle]] = [:]
    }

    private let state = Mutex(State())
    let dataOrder = DataOrder()

    subscript(id: HandleID) -> Handle? { state.withLock { $0.handles[id] } }
    var isEmpty: Bool { state.withLock { $0.handles.isEmpty } }
    var count: Int { state.withLock { $0.handles.count } }
    var all: [Handle] { state.withLock { Array($0.handles.values) } }
    func insert(_ handle: Handle) {
        state.withLock { state in
            state.handles[handle.id] = handle
            if handle.mayWrite { state.writers[handle.node.id, default: []].append(handle) }
        }
        let (movesData, hasDescriptor) = handle.enterTable()
        if handle.mayWrite, movesData {
            handle.readsBefore.store(dataOrder.open(handle.node.id), ordering: .relaxed)
        }
        if hasDescriptor { handle.node.budget.cached(.file(handle.id)) }
    }
    /// The nodes of the files that are open for writing.
    var writtenNodes: Set<NodeID> { state.withLock { Set($0.writers.keys) } }
    /// The handles by which programs may write to the node's file.
    func writers(on node: Node) -> [Handle] {
        // Since the handle was opened, another file's node may have got the same number.
        state.withLock { ($0.writers[node.id] ?? []).filter { $0.node === node } }
    }
    /// All open handles of the node's file.
    func all(on node: Node) -> [Handle] {
        state.withLock { state in state.handles.values.filter { $0.node === node } }
    }
    func remove(_ id: HandleID) -> Handle? {
        let removed: Handle? = state.withLock { state in
            guard let handle = state.handles.removeValue(forKey: id) else { return nil }
            guard handle.mayWrite, var writers = state.writers[handle.node.id] else { return handle }
            writers.removeAll { $0 === handle }
            state.writers[handle.node.id] = writers.isEmpty ? nil : writers
            return handle
        }
        if let removed, removed.needsOrder { dataOrder.close(removed.node.id) }
        return removed
    }
}
