// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem
import Synchronization

/// OPENDIR, where a listing waits for documents that are missing in the middle of a save.
///
/// READDIR holds the directory's lock, which the save needs; OPENDIR holds none. A listing shows what is below, and no name is
/// ever added to it: what is listed can be looked at.
extension CoordinatedFilesystem {
    /// How often the names are read again because a save has begun meanwhile.
    private static let mostLooks = 4
    /// Of a directory that takes more bytes no snapshot is taken: it has too many names for one, most likely.
    private static let largestSnapshot: UInt64 = 4 << 20

    func openDirectory(_ id: NodeID, reply: consuming Reply) {
        guard let directory = nodes[id] else { return reply.fail(.stale) }
        // Before it is asked what is missing: a save that begins right after that has begun since this step.
        let step = episodes.lastStep
        guard !episodes.isQuiet else { return list(directory, .unused, since: step, reply: reply) }
        list(directory, afterSavesUntil: Engine.now + EpisodeLimits.listingWait, reply: reply)
    }

    /// How long a listing may still wait.
    private enum Patience {
        case unused
        case until(Instant)
        case over
    }

    /// Opens a directory as soon as no document is missing in it that a living program is saving, or when the time is over.
    private func list(_ directory: Node, afterSavesUntil end: Instant, reply: consuming Reply) {
        let thread = reply.caller.thread
        let step = episodes.lastStep
        guard thread > 0, Engine.now < end, !ProcessInspection.isKernelThread(thread) else {
            return list(directory, .over, since: step, reply: reply)
        }
        let actor = processes.actor(ofThread: thread)
        let (missing, isVacating) = episodes.missing(in: directory.id, for: actor)
        let vacancies = missing.filter(isBeingSaved)
        guard !vacancies.isEmpty || isVacating else {
            return list(directory, .until(end), since: step, reply: reply)
        }
        episodes.noteListing(of: vacancies, for: actor)
        let token = parking.makeToken()
        reply.tellInterrupts(token)
        let listing = PendingListing(
            of: directory, waitingFor: vacancies, until: end, token: token, reply: reply)
        parking.enter(
            token,
            Parking.Spot(thread: thread) { [self] way in
                switch way {
                case .abandoned(let reason): abandon(listing, reason)
                case .forced, .overdue: goOn(listing)
                }
            })
        pendingListings.add(listing)
        engine.timers.schedule(at: end.nanoseconds) { [self] in goOn(listing) }
        // The save may have gone on since it was looked at, and a signal may have come.
        goOnListing(directory.id)
        parking.lookOnce(token)
        if parking.isClosed { abandon(listing, .unmounted) }
    }

    /// A save in a directory has gone on or was given up: looks which listings need not wait any more.
    func goOnListing(_ directory: NodeID) {
        guard !pendingListings.isEmpty else { return }
        for listing in pendingListings[directory] {
            let isWaiting = episodes.state.withLock { state in
                state.steps[NodeNumber(directory.rawValue)] != nil
                    || listing.vacancies.contains {
                        state.windows.isOpen($0) && !episodes.areManyDepartures(by: $0)
                    }
            }
            if !isWaiting { goOn(listing) }
        }
    }

    private func goOn(_ listing: PendingListing) {
        guard pendingListings.remove(listing), let reply = listing.reply.take() else { return }
        parking.leave(listing.token)
        goOn(listing.directory, reply, mayBlock: true) { [self] reply in
            list(listing.directory, afterSavesUntil: listing.end, reply: reply)
        }
    }

    private func abandon(_ listing: PendingListing, _ reason: Parking.End) {
        guard pendingListings.remove(listing), let reply = listing.reply.take() else { return }
        parking.leave(listing.token)
        if reason != .unmounted { engine.counters.interrupted.count() }
        reply.fail(reason.error)
    }

    /// The window of a name is open, or the name was not vacated.
    func endStep(in directory: Node) {
        episodes.endStep(in: directory.id)
        goOnListing(directory.id)
    }

    /// Opens a directory. If a save has begun in it since the last step that was looked at, and there is time, the listing waits for
    /// that first.
    private func list(_ directory: Node, _ patience: Patience, since step: UInt64, reply: consuming Reply) {
        guard engine.isAttended, isAnythingPresented(in: directory) else {
            return listAsItIs(directory, reply: reply)
        }
        var step = step
        for _ in 0..<Self.mostLooks {
            guard let listing = takeSnapshot(of: directory) else { break }
            let last = episodes.lastStep
            if last == step { return answer(with: listing, names: .passing, reply: reply) }
            step = last
            guard !episodes.isQuiet else { continue }
            switch patience {
            case .unused:
                let end = Engine.now + EpisodeLimits.listingWait
                return list(directory, afterSavesUntil: end, reply: reply)
            case .until(let end): return list(directory, afterSavesUntil: end, reply: reply)
            case .over: break
            }
        }
        listAsItIs(directory, reply: reply)
    }

    /// Nil where that is not possible: then the listing is as good as READDIR finds it.
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
        var names = KernelCache<Stamp>.Answer.passing
        let listing: ListingTable.Listing
        do throws(Errno) {
            names = try openNames(of: directory)
            listing = try ListingTable.Listing(listings.nextHandle(), of: directory, names)
        } catch {
            // The kernel has not dropped what it has.
            if names != .passing {
                listings.doubtNames(of: directory.id)
                listings.closeNames(of: directory.id)
            }
            return reply.fail(error)
        }
        answer(with: listing, names: names, reply: reply)
    }

    private func answer(
        with listing: ListingTable.Listing, names: KernelCache<Stamp>.Answer, reply: consuming Reply
    ) {
        listings.insert(listing)
        let isOpen = reply.openedDirectory(
            listing.handle, keepingNames: names != .passing, droppingKept: names == .fresh)
        if !isOpen {
            if names != .passing { listings.doubtNames(of: listing.directory.id) }
            listings.remove(listing.handle)
        }
    }
}
