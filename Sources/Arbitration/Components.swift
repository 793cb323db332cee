// SPDX-License-Identifier: Apache-2.0

/// Finds who can reach each other in a graph, looking at each node once (Tarjan's algorithm).
///
/// Without recursion: a chain of those who wait may be very long.
struct Components<Node: Hashable> {
    /// When a node was found, and the first that it leads back to.
    private struct Mark {
        let number: Int
        var least: Int
        var isPending = true
    }

    private var marks: [Node: Mark] = [:]
    private var pending: [Node] = []
    /// Those who are in a cycle.
    private(set) var entangled: [Node] = []

    /// Goes on from a node, depth first.
    mutating func explore(_ root: Node, _ successors: (Node) -> [Node]) {
        if marks[root] != nil { return }
        var path = [(node: root, next: open(root, successors))]
        while let top = path.indices.last {
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
    }

    private mutating func open(_ node: Node, _ successors: (Node) -> [Node]) -> [Node] {
        marks[node] = Mark(number: marks.count, least: marks.count)
        pending.append(node)
        let next = successors(node)
        // A component of one is a cycle only if it leads to itself.
        if next.contains(node) { entangled.append(node) }
        return next
    }

    private mutating func note(_ node: Node, leadsTo number: Int?) {
        guard let number, let entry = marks.index(forKey: node) else { return }
        marks.values[entry].least = min(marks.values[entry].least, number)
    }

    /// If a node leads back to nothing earlier, what is pending since then is one component.
    private mutating func close(_ node: Node) {
        guard let mark = marks[node], mark.least == mark.number else { return }
        let isAlone = pending.last == node
        while let member = pending.popLast() {
            marks[member]?.isPending = false
            if !isAlone { entangled.append(member) }
            if member == node { return }
        }
    }
}
