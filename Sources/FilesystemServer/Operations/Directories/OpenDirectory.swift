// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem

/// Answers OPENDIR. A listing waits in OPENDIR for documents that are missing in the middle of a save.
///
/// A save needs the directory's lock. The kernel holds this lock during READDIR, but not during OPENDIR. A listing shows
/// the directory of the source without added names, so each listed name can be looked up.
extension DirectoryService {
    /// The most times that the names are read, if a save begins during each read.
    private static let mostAttempts = 4
    /// The largest directory, in bytes, of which a snapshot is made. A larger directory most likely has too many names.
    private static let largestSnapshot: UInt64 = 4 << 20

    func openDirectory(_ id: NodeID, reply: consuming Reply) {
        guard let directory = nodes[id] else { return reply.fail(.stale) }
        // The step is read before the pending saves are checked. A save that begins right afterwards then counts as later
        // than this step.
        let step = saves.lastStep
        guard !saves.hasNoPendingSaves else { return list(directory, .unused, since: step, reply: reply) }
        list(directory, afterSavesUntil: Engine.now + SaveLimits.listingWait, reply: reply)
    }

    /// The time for which a listing may still wait. It is unused if the listing has not waited yet.
    private enum Patience {
        case unused
        case until(Instant)
        case over
    }

    /// Opens a directory as soon as no living program is saving a document that is missing in it. Opens it at `end` in
    /// any case.
    private func list(_ directory: Node, afterSavesUntil end: Instant, reply: consuming Reply) {
        let thread = reply.caller.thread
        let step = saves.lastStep
        guard thread > 0, Engine.now < end, !ProcessInspection.isKernelThread(thread) else {
            return list(directory, .over, since: step, reply: reply)
        }
        let saver = processes.saver(ofThread: thread)
        let (missing, isVacating) = saves.missing(in: directory.id, for: saver)
        let pendingSaves = missing.filter(saveLifecycle.isSavePending)
        guard !pendingSaves.isEmpty || isVacating else {
            return list(directory, .until(end), since: step, reply: reply)
        }
        saves.noteListing(of: pendingSaves, for: saver)
        let token = parkedRequests.makeToken()
        reply.tellInterrupts(token)
        let listing = PendingListing(
            of: directory, waitingFor: pendingSaves, until: end, token: token, reply: reply)
        parkedRequests.enter(
            token,
            ParkedRequests.ParkedRequest(thread: thread) { [self] way in
                switch way {
                case .abandoned(let reason): abandon(listing, reason)
                case .forced, .overdue: resumeListing(listing)
                }
            })
        pendingListings.add(listing)
        engine.timers.schedule(at: end.nanoseconds) { [self] in resumeListing(listing) }
        // The save may have ended since the check. A signal may have come, too.
        resumeListings(directory.id)
        parkedRequests.checkSignalsOnce(token)
        if parkedRequests.isClosed { abandon(listing, .unmounted) }
    }

    /// Continues the listings of a directory that need not wait any more, because a save in it has gone on or was given
    /// up.
    func resumeListings(_ directory: NodeID) {
        guard !pendingListings.isEmpty else { return }
        for listing in pendingListings[directory] {
            if !saves.mustWait(for: listing.pendingSaves, in: NodeNumber(directory.rawValue)) {
                resumeListing(listing)
            }
        }
    }

    private func resumeListing(_ listing: PendingListing) {
        guard pendingListings.remove(listing), let reply = listing.reply.take() else { return }
        parkedRequests.leave(listing.token)
        context.resumeRequest(listing.directory, reply, mayBlock: true) { [self] reply in
            list(listing.directory, afterSavesUntil: listing.end, reply: reply)
        }
    }

    private func abandon(_ listing: PendingListing, _ reason: ParkedRequests.AbandonReason) {
        guard pendingListings.remove(listing), let reply = listing.reply.take() else { return }
        parkedRequests.leave(listing.token)
        if reason != .unmounted { engine.counters.interrupted.count() }
        reply.fail(reason.error)
    }

    /// Opens a directory. If a save has begun in the directory since `step`, the listing first waits for that save, while
    /// time is left.
    private func list(_ directory: Node, _ patience: Patience, since step: UInt64, reply: consuming Reply) {
        guard engine.hasAwareClients, isAnythingPresented(in: directory) else {
            return listAsItIs(directory, reply: reply)
        }
        var step = step
        for _ in 0..<Self.mostAttempts {
            guard let listing = takeSnapshot(of: directory) else { break }
            let last = saves.lastStep
            if last == step { return answer(with: listing, names: .uncached, reply: reply) }
            step = last
            guard !saves.hasNoPendingSaves else { continue }
            switch patience {
            case .unused:
                let end = Engine.now + SaveLimits.listingWait
                return list(directory, afterSavesUntil: end, reply: reply)
            case .until(let end): return list(directory, afterSavesUntil: end, reply: reply)
            case .over: break
            }
        }
        listAsItIs(directory, reply: reply)
    }

    /// Returns a listing with a snapshot of the names. Returns nil if no snapshot is possible, so that READDIR reads the
    /// directory itself.
    private func takeSnapshot(of directory: Node) -> ListingTable.Listing? {
        do throws(Errno) {
            guard try directory.descriptor().descriptor.status().size <= Self.largestSnapshot else {
                return nil
            }
            return try ListingTable.Listing(listings.nextHandle(), snapshotOf: directory)
        } catch {
            return nil
        }
    }

    private func isAnythingPresented(in directory: Node) -> Bool {
        places.place(in: directory).directory.map(engine.isAnythingPresented) ?? false
    }

    private func listAsItIs(_ directory: Node, reply: consuming Reply) {
        var names = KernelCacheTracker<Stamp>.CacheAction.uncached
        let listing: ListingTable.Listing
        do throws(Errno) {
            names = try openNames(of: directory)
            listing = try ListingTable.Listing(listings.nextHandle(), of: directory, names)
        } catch {
            // The open has failed, so the kernel may still have old names in its cache.
            if names != .uncached {
                listings.invalidateNameCache(of: directory.id)
                listings.closeNames(of: directory.id)
            }
            return reply.fail(error)
        }
        answer(with: listing, names: names, reply: reply)
    }

    private func answer(
        with listing: ListingTable.Listing, names: KernelCacheTracker<Stamp>.CacheAction,
        reply: consuming Reply
    ) {
        listings.insert(listing)
        let isOpen = reply.openedDirectory(
            listing.handle, keepingNames: names != .uncached, droppingKept: names == .refill)
        if !isOpen {
            if names != .uncached { listings.invalidateNameCache(of: listing.directory.id) }
            listings.remove(listing.handle)
        }
    }
}
