// SPDX-License-Identifier: Apache-2.0
import LinuxSystem

/// Holds a node in the table as long as this object lives, even if the kernel forgets the node.
final class RetainedNode: Sendable {
    let node: Node
    private let nodes: NodeTable

    /// Retains the node of a file that was found under a name. Makes the node if the file has none.
    init(to status: FileStatus, as name: NameBytes, in directory: Node, _ nodes: NodeTable) {
        node = nodes.introduce(status, as: name, in: directory)
        self.nodes = nodes
    }

    /// Retains a node. Returns nil if the kernel has already forgotten the node.
    init?(_ node: Node, _ nodes: NodeTable) {
        guard nodes.retain(node) else { return nil }
        self.node = node
        self.nodes = nodes
    }

    deinit { nodes.forget(node.id, lookups: 1) }
}
