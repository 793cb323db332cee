// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem
import Synchronization

/// A GETATTR request that waits until a presenter has saved a document.
///
///     made ──claimed──▶ waiting ──saved, or not in time, or interrupted──▶ answered
///
/// The thread that takes the request's reply answers the request.
final class PendingStat: Claimant {
    let claim: ClaimID
    /// The node in the kernel's request. A save may give the document another node.
    let node: Node
    let item: ItemID
    let thread: Int32
    let party: Party
    let process: ProcessID
    let token: UInt
    /// Whether the kernel has already looked up the name a second time for this request. It does not look the name up a
    /// third time.
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
    /// Never called: the claim ends as soon as it is granted, so it has no holder to observe.
    func observe() -> Observation { .emptied }
}
