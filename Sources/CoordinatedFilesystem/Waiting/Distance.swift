// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge
import LinuxSystem

/// What is done to files whose file system may wait for a network or another process, and so for ever: on threads of its own,
/// so that it keeps nobody waiting who uses other files.
extension CoordinatedFilesystem {
    /// Does something that may block.
    func work(on node: Node, _ body: @escaping @Sendable () -> Void) {
        if node.isDistant { engine.distant.run(body) } else { engine.workers.run(body) }
    }

    /// Answers a request whose wait is over.
    ///
    /// What decides is one of those threads that everybody waits for: of the timers, or of the control socket.
    func goOn(_ node: Node?, _ reply: consuming Reply, _ body: @escaping @Sendable (consuming Reply) -> Void)
    {
        guard let node, node.isDistant else { return body(reply) }
        let parked = Parked(reply)
        engine.distant.run {
            if let reply = parked.take() { body(reply) }
        }
    }
}
