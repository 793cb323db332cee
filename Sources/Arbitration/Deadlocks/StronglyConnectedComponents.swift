// SPDX-License-Identifier: Apache-2.0

/// Finds the nodes of a graph that can reach each other, and visits each node once (Tarjan's algorithm).
///
/// The search uses no recursion, because a chain of waiting claims may be very long.
struct StronglyConnectedComponents<Node: Hashable> {
    /// The state of a node: its number in the order of discovery, and the lowest number of a node to which it leads
    /// back.
    private struct Mark {
        let number: Int
        var least: Int
        var isPending = true
        var leadsToItself = false
    }

    private var marks: [Node: Mark] = [:]
    private var pending: [Node] = []
    /// The components that contain a cycle. Nodes that were not explored completely are in no component.
    private(set) var cyclic: [[Node]] = []
    var cyclicNodes: [Node] { cyclic.flatMap { $0 } }

    /// Returns the components with a cycle that were found since the last call, and removes them.
    mutating func takeCyclic() -> [[Node]] {
        defer { cyclic = [] }
        return cyclic
    }

    /// Explores the graph from a node, depth first. Returns false if `mayGoOn` returned false before all nodes were
    /// explored.
    ///
    /// After a return of false, later calls do not explore the nodes on the current path again.
    mutating func explore(_ root: Node, while mayGoOn: () -> Bool, _ successors: (Node) -> [Node]) -> Bool {
        if marks[root] != nil { return true }
        var path = [(node: root, next: open(root, successors))]
        while let top = path.indices.last {
            guard mayGoOn() else {
                for node in pending { marks[node]?.isPending = false }
                pending = []
                return false
            }
            guard let next = path[top].next.popLast() else {
                let node = path.removeLast().node
                close(node)
                if let above = path.last?.node { note(above, leadsTo: marks[node]?.least) }
                continue
            }
            if let known = marks[next] {
                if known.isPending { note(path[top].node, leadsTo: known.number) }
            } else {
                path.append((next, open(next, successors)))
            }
        }
        return true
    }

    private mutating func open(_ node: Node, _ successors: (Node) -> [Node]) -> [Node] {
        marks[node] = Mark(number: marks.count, least: marks.count)
        pending.append(node)
        let next = successors(node)
        // A component of one node is a cycle only if the node leads to itself.
        if next.contains(node) { marks[node]?.leadsToItself = true }
        return next
    }

    private mutating func note(_ node: Node, leadsTo number: Int?) {
        guard let number, let entry = marks.index(forKey: node) else { return }
        marks.values[entry].least = min(marks.values[entry].least, number)
    }

    /// Finishes a node. If the node leads back to no earlier node, all pending nodes since this node are one
    /// component.
    private mutating func close(_ node: Node) {
        guard let mark = marks[node], mark.least == mark.number else { return }
        var members: [Node] = []
        while let member = pending.popLast() {
            marks[member]?.isPending = false
            members.append(member)
            if member == node { break }
        }
        if members.count > 1 || mark.leadsToItself { cyclic.append(members) }
    }
}
