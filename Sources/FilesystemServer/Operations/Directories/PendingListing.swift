// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem
import Synchronization

/// An OPENDIR request that waits for documents that are missing in the middle of a save.
///
///     waiting ──filled, given up, or 250 ms──▶ listed
///        └──interrupted──▶ answered EINTR
///
/// The thread that takes the request's reply answers the request.
final class PendingListing: Sendable {
    let directory: Node
    let thread: Int32
    let pendingSaves: [PendingSave]
    let token: UInt
    /// The time at which the wait ends, even if documents are still missing.
    let end: Instant
    let reply: Parked<Reply>

    init(
        of directory: Node, waitingFor pendingSaves: [PendingSave], until end: Instant, token: UInt,
        reply: consuming Reply
    ) {
        self.directory = directory
        thread = reply.caller.thread
        self.pendingSaves = pendingSaves
        self.end = end
        self.token = token
        self.reply = Parked(reply)
    }
}

/// The waiting OPENDIR requests, grouped by directory.
final class PendingListings: Sendable {
    private let listings = Mutex<[NodeID: [PendingListing]]>([:])
    private let count = Atomic<Int>(0)

    var isEmpty: Bool { count.load(ordering: .sequentiallyConsistent) == 0 }

    subscript(directory: NodeID) -> [PendingListing] { listings.withLock { $0[directory] ?? [] } }

    func add(_ listing: PendingListing) {
        listings.withLock { listings in
            listings[listing.directory.id, default: []].append(listing)
            count.add(1, ordering: .sequentiallyConsistent)
        }
    }

    /// Removes a waiting listing. Returns false if another thread has already removed it.
    ///
    /// Several threads may try to continue the same listing. Only the thread that gets true does so.
    func remove(_ listing: PendingListing) -> Bool {
        listings.withLock { listings in
            let directory = listing.directory.id
            guard let index = listings[directory]?.firstIndex(where: { $0 === listing }) else { return false }
            listings[directory]?.remove(at: index)
            if listings[directory]?.isEmpty ?? false { listings[directory] = nil }
            count.subtract(1, ordering: .sequentiallyConsistent)
            return true
        }
    }
}
