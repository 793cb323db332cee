// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem
import Synchronization

/// An OPENDIR that waits for documents in the middle of a save.
///
///     waiting ──filled, given up, or 250 ms──▶ listed
///        └──interrupted──▶ answered EINTR
///
/// The caller that takes its reply answers it.
final class PendingListing: Sendable {
    let directory: Node
    let thread: Int32
    let pendingSaves: [PendingSave]
    let token: UInt
    /// When the directory is listed even if documents are missing.
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

/// The listings that wait, by directory.
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

    /// Returns whether the listing was there: of several callers that continue it, only one finds it.
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
