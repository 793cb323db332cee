// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge
import LinuxSystem
import Synchronization

/// Directories being listed, by handle.
final class ListingTable: Sendable {
    final class Listing: DescriptorKeeper {
        let handle: HandleID
        let directory: Node
        /// Opened again when it had to go: the offset says where to go on.
        private let stream: Mutex<DirectoryStream?>
        private let isOpen: Atomic<Bool>
        /// Whether the kernel keeps what it is told.
        let isKept: Bool

        /// If the kernel has the names already, the directory is opened when it asks all the same.
        init(
            _ handle: HandleID, of directory: Node, _ names: KernelCache<Stamp>.Answer
        ) throws(Errno) {
            self.handle = handle
            self.directory = directory
            isKept = names != .passing
            let opens = names != .kept
            stream = Mutex(opens ? try Self.open(directory) : nil)
            isOpen = Atomic(opens)
            if opens { directory.budget.opened() }
        }

        deinit { if hasDescriptor { directory.budget.closed() } }

        private static func open(_ directory: Node) throws(Errno) -> DirectoryStream {
            try DirectoryStream(reading: directory.descriptor().descriptor.openForListing())
        }

        var hasDescriptor: Bool { isOpen.load(ordering: .relaxed) }

        var droppers: SpareWorkers? { nil }

        func dropDescriptor() -> Bool {
            // One that is read just now stays.
            let isDropped: Bool? = stream.withLockIfAvailable { stream in
                guard stream.take() != nil else { return true }
                isOpen.store(false, ordering: .relaxed)
                directory.budget.closed()
                return true
            }
            return isDropped != nil
        }

        /// Hands over the entries from an offset on; see `DirectoryStream`.
        func forEach(
            from offset: Int, _ body: (borrowing FileName, UInt64, UInt8, Int) -> Bool
        ) throws(Errno) {
            let (isNew, error): (Bool, Errno?) = stream.withLock { slot in
                var isNew = false
                do throws(Errno) {
                    var stream: DirectoryStream
                    if let open = slot.take() {
                        stream = open
                    } else {
                        stream = try Self.open(directory)
                        isNew = true
                        isOpen.store(true, ordering: .relaxed)
                        directory.budget.opened()
                    }
                    // It stays open after an error, too: who asks again may get further.
                    var failure: Errno?
                    do throws(Errno) { try stream.forEach(from: offset, body) } catch { failure = error }
                    slot = consume stream
                    return (isNew, failure)
                } catch {
                    return (isNew, error)
                }
            }
            if isNew { directory.budget.cached(.listing(handle)) }
            if let error { throw error }
        }
    }

    private struct State {
        var listings: [HandleID: Listing] = [:]
        var keptNames = KernelCache<Stamp>()
    }

    private let state = Mutex(State())
    private let handlesGiven = Atomic<UInt64>(0)

    var isEmpty: Bool { state.withLock { $0.listings.isEmpty } }

    subscript(handle: HandleID) -> Listing? { state.withLock { $0.listings[handle] } }

    /// A number for one more.
    func nextHandle() -> HandleID { HandleID(handlesGiven.add(1, ordering: .relaxed).newValue) }

    func insert(_ listing: Listing) {
        state.withLock { $0.listings[listing.handle] = listing }
        if listing.hasDescriptor { listing.directory.budget.cached(.listing(listing.handle)) }
    }

    func remove(_ handle: HandleID) {
        // Outside of the lock it may be the last reference, and a stream to be closed.
        let listing = state.withLock { state in
            let listing = state.listings.removeValue(forKey: handle)
            if let listing, listing.isKept { state.keptNames.close(listing.directory.id) }
            return listing
        }
        _ = listing
    }

    // See ``KernelCache``.
    func openNames(of directory: NodeID, looking look: Stamp) -> KernelCache<Stamp>.Answer {
        state.withLock { $0.keptNames.open(directory, looking: look) }
    }
    func beginNames(of directory: NodeID) { state.withLock { $0.keptNames.begin(directory) } }
    func closeNames(of directory: NodeID) { state.withLock { $0.keptNames.close(directory) } }
    func doubtNames(of directory: NodeID) { state.withLock { $0.keptNames.doubt(directory) } }
}

extension Node {
    /// A file's attributes will be asked for anew, because reading and writing changes its times.
    func noteOpened() {
        parent?.state.withLock { if $0.opensBelow < .max { $0.opensBelow += 1 } }
    }

    /// Whether so many files of a directory that takes `size` bytes were opened that listing it had better tell their attributes,
    /// too: more than a few, and about a sixteenth of them (D88).
    fileprivate func hasWornAttributes(size: UInt64) -> Bool {
        let opens = UInt64(state.withLock { $0.opensBelow })
        return opens >= 8 && opens * 512 >= size
    }

    fileprivate func noteListed() { state.withLock { $0.opensBelow = 0 } }
}

/// Vacated names are listed after the real ones, from this offset on; no file system uses such offsets
/// but for the very last, which ext4 uses for the end.
private let firstVacatedOffset = Int.max - (1 << 20)

extension CoordinatedFilesystem {
    func openDirectory(_ id: NodeID, reply: consuming Reply) {
        guard let directory = nodes[id] else { return reply.fail(.stale) }
        var names = KernelCache<Stamp>.Answer.passing
        do throws(Errno) {
            names = try openNames(of: directory)
            let handle = listings.nextHandle()
            listings.insert(try ListingTable.Listing(handle, of: directory, names))
            let isOpen = reply.openedDirectory(
                handle, keepingNames: names != .passing, droppingKept: names == .fresh)
            if !isOpen {
                if names != .passing { listings.doubtNames(of: id) }
                listings.remove(handle)
            }
        } catch {
            // The kernel has not dropped what it has.
            if names != .passing {
                listings.doubtNames(of: id)
                listings.closeNames(of: id)
            }
            reply.fail(error)
        }
    }

    /// Whether the kernel may keep the names of a directory that is opened now.
    ///
    /// Not while a name is missing in the middle of somebody's save, which is listed for all others; and not where a
    /// directory may change without a trace in its times.
    private func openNames(of directory: Node) throws(Errno) -> KernelCache<Stamp>.Answer {
        guard isOurs(directory), episodes.isQuiet else { return .passing }
        let status = try directory.descriptor().descriptor.status()
        let isWorn = directory.hasWornAttributes(size: status.size)
        return isWorn ? .passing : listings.openNames(of: directory.id, looking: Stamp(status))
    }

    /// Has the kernel ask again: what it was told is not for everybody, or not true any more.
    func doubtNames(of directory: Node) {
        listings.doubtNames(of: directory.id)
        // Not on this thread, which may be serving somebody who reads the directory. Who opened it before and reads it
        // again is not told by the next open.
        engine.workers.run { [connection] in connection.invalidateContents(of: directory.id) }
    }

    func readDirectory(
        _ id: NodeID, handle: HandleID, from offset: Int, into page: consuming DirectoryPage
    ) {
        guard let directory = nodes[id], let listing = listings[handle] else { return page.fail(.stale) }
        engine.counters.listed.count()
        if listing.isKept, offset == 0 { listings.beginNames(of: id) }
        // The kernel asks for names and attributes together.
        if offset == 0 { directory.noteListed() }
        var isComplete = true
        if offset < firstVacatedOffset || offset == Int.max {
            do throws(Errno) {
                isComplete = try addEntries(of: listing, in: directory, from: offset, to: &page)
            } catch {
                // A directory that was removed meanwhile has no entries.
                guard error == .stale || error == .noEntry else { return page.fail(error) }
            }
        }
        if isComplete, !episodes.isQuiet {
            if listing.isKept { doubtNames(of: directory) }
            addVacatedNames(of: directory, from: offset == Int.max ? 0 : offset, to: &page)
        }
        page.send()
    }

    /// Returns whether the end of the directory was reached. An error after some entries is the next page's, as it is
    /// in getdents(2): these are told first, and count as looked up.
    private func addEntries(
        of listing: ListingTable.Listing, in directory: Node, from offset: Int,
        to page: inout DirectoryPage
    ) throws(Errno) -> Bool {
        var isComplete = true
        do throws(Errno) {
            try listing.forEach(from: offset) { name, inode, type, next in
                if isPrivate(name, in: directory.id) { return true }
                let entered =
                    page.style == .entries && !name.isSelfOrParent
                    ? enter(name, in: directory, next: next, to: &page) : nil
                let number = mountsBelow.number(ofInode: inode, on: directory.key.device)
                let isAccepted = entered ?? page.add(name, inode: number, type: type, next: next)
                if !isAccepted { isComplete = false }
                return isAccepted
            }
        } catch {
            guard !page.isEmpty else { throw error }
            return false
        }
        return isComplete
    }

    /// Adds a name together with its inode; a name that vanished meanwhile is left out.
    ///
    /// Returns nil if nobody may look at what it is the name of, as where a directory may be listed but not entered.
    private func enter(
        _ name: borrowing FileName, in directory: Node, next: Int, to page: inout DirectoryPage
    ) -> Bool? {
        let status: FileStatus
        do throws(Errno) {
            status = try directory.descriptor().descriptor.status(of: name)
        } catch {
            return error == .noEntry || error == .stale ? true : nil
        }
        let node = nodes.introduce(status, as: name.copy(), in: directory)
        if !documents.awaitsNothing { foundAwaited(node, as: name.copy(), in: directory) }
        let valid = validity(of: node, to: 0)
        let isAccepted = page.add(
            name, node: node.id, generation: node.generation, mountsBelow.shown(status), valid: valid,
            next: next)
        if !isAccepted { nodes.forget(node.id, lookups: 1) }
        return isAccepted
    }

    /// A name that is missing in the middle of somebody's save is there for everybody else.
    private func addVacatedNames(of directory: Node, from offset: Int, to page: inout DirectoryPage) {
        let actor = processes.actor(ofThread: page.caller.thread)
        let names = episodes.vacatedNames(in: directory, for: actor)
        // Offsets below are the file system's, which may choose negative ones.
        let first = offset < firstVacatedOffset ? 0 : offset - firstVacatedOffset
        for (index, name) in names.enumerated().dropFirst(first) {
            let isAccepted = NameBytes(name).withName { name in
                page.add(name, inode: 1, type: 8, next: firstVacatedOffset + index + 1)
            }
            guard isAccepted else { return }
        }
    }

    func closeDirectory(_ handle: HandleID, reply: consuming Reply) {
        listings.remove(handle)
        reply.succeed()
    }

    func synchronizeDirectory(_ id: NodeID, dataOnly: Bool, reply: consuming Reply) {
        guard let directory = nodes[id] else { return reply.fail(.stale) }
        let parked = Parked(reply)
        work(on: directory, for: .syncing) {
            guard let reply = parked.take() else { return }
            do throws(Errno) {
                try directory.descriptor().descriptor.openForListing().synchronize(dataOnly: dataOnly)
                reply.succeed()
            } catch {
                reply.fail(error)
            }
        }
    }
}
