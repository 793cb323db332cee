// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem

/// Answers OPENDIR. If documents are missing in the middle of a save, the answer waits until their names have files
/// again.
///
/// A save needs the directory's lock. So READDIR cannot wait for a save: the kernel holds this lock during READDIR, but
/// not during OPENDIR. The daemon adds no names for missing documents, so each listed name can be looked up.
extension DirectoryService {
    /// If a save begins while the names are read, they are read a second time. This is the most times that they are
    /// read.
    private static let mostAttempts = 4
    /// The largest directory of which a snapshot is made, in bytes. A larger directory probably has too many names.
    private static let largestSnapshot: UInt64 = 4 << 20

    func openDirectory(_ id: NodeID, reply: consuming Reply) {
        guard let directory = nodes[id] else { return reply.fail(.stale) }
        // The number of the last step is read before the pending saves. A save that begins between the two reads then
        // has a later number.
        let step = saves.lastStep
        guard !saves.hasNoPendingSaves else { return list(directory, .unused, since: step, reply: reply) }
        list(directory, afterSavesUntil: Engine.now + SaveLimits.listingWait, reply: reply)
    }

    /// How long a listing may still wait for saves. `unused` means that the listing has not waited yet.
    private enum Patience {
        case unused
        case until(Instant)
        case over
    }

    /// Opens a directory when no document in it is missing because of a save by a living program. Opens it at the time
    /// `end` in any case.
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
        // After the previous check, the save may have ended, or a signal may have come.
        resumeListings(directory.id)
        parkedRequests.checkSignalsOnce(token)
        if parkedRequests.isClosed { abandon(listing, .unmounted) }
    }

    /// Called when a save in a directory has made progress or was given up. Continues those listings of the directory
    /// that need not wait any more.
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

    /// Opens a directory. If a save in the directory has begun after `step`, first waits for this save, as long as the
    /// listing may still wait.
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

    /// Returns a listing with the names that the directory has now. If that is impossible, returns nil, and READDIR
    /// reads the directory itself.
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
            // The open was not completed, so the kernel may still have old names in its cache.
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
