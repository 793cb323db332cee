// SPDX-License-Identifier: Apache-2.0
import LinuxSystem

/// A node that is known for as long as this lives, whether or not the kernel knows it.
final class RetainedNode: Sendable {
    let node: Node
    private let nodes: NodeTable

    /// Of a file that was found under a name.
    init(to status: FileStatus, as name: NameBytes, in directory: Node, _ nodes: NodeTable) {
        node = nodes.introduce(status, as: name, in: directory)
        self.nodes = nodes
    }

    deinit { nodes.forget(node.id, lookups: 1) }
}
