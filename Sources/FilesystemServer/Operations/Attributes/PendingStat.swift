// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem
import Synchronization

/// A GETATTR that waits until a document is saved.
///
///     made ──claimed──▶ waiting ──saved, or not in time, or interrupted──▶ answered
///
/// The caller that takes its reply answers it.
final class PendingStat: Claimant {
    let claim: ClaimID
    /// The node that the kernel asks about; after the save, another node may be the document.
    let node: Node
    let item: ItemID
    let thread: Int32
    let party: Party
    let process: ProcessID
    let token: UInt
    /// Whether this is the kernel's second lookup of the name, which it does not repeat.
    let isRetry: Bool
    private let made = Engine.now
    private let reply = Mutex<Parked<Reply>?>(nil)

    init(
        _ claim: ClaimID, of node: Node, _ item: ItemID, by thread: Int32, _ party: Party,
        _ process: ProcessID, isRetry: Bool, token: UInt
    ) {
        self.claim = claim
        self.node = node
        self.item = item
        self.thread = thread
        self.party = party
        self.process = process
        self.isRetry = isRetry
        self.token = token
    }

    func wait(with reply: consuming Reply) {
        let parked = Parked(reply)
        self.reply.withLock { $0 = parked }
    }

    func takeReply() -> Reply? { reply.withLock { $0.take() }?.take() }

    var intents: [Intent] { [Intent(.read()) { [node] in node.path }] }
    var attribution: Attribution {
        Attribution(
            thread: thread, at: made, process: process.number, program: party.program, user: party.user
        ) { [node] in node.path }
    }

    func identify() -> Party { party }
    /// Never called: the wait of a request is bounded without observation.
    func observe() -> Observation { .emptied }
}
