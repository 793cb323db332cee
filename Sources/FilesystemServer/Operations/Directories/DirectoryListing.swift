// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge
import LinuxSystem
import Synchronization

/// The directories that programs have open to list them, by their handles.
final class ListingTable: Sendable {
    final class Listing: DescriptorOwner {
        let handle: HandleID
        let directory: Node
        /// The open directory. Nil if it was closed to save descriptors. For the next read it is opened again, and the
        /// read continues at the offset that the kernel sends.
        private let stream: Mutex<DirectoryStream?>
        private let isOpen: Atomic<Bool>
        /// Whether the kernel may cache the names of this listing.
        let isKept: Bool
        /// The names that the directory had at OPENDIR. They are used until the program begins to list the directory a
        /// second time, as after rewinddir(3).
        private let snapshot: Mutex<Snapshot>

        private enum Snapshot {
            case unread(DirectorySnapshot)
            case begun(DirectorySnapshot)
            /// All names were sent, and the snapshot was freed. The names end at this offset.
            case ended(Int)
            case none
        }

        /// Makes the listing of a directory. If the kernel has the names in its cache, the directory is opened only if
        /// the kernel nevertheless sends READDIR.
        init(
            _ handle: HandleID, of directory: Node, _ names: KernelCacheTracker<Stamp>.CacheAction
        ) throws(Errno) {
            self.handle = handle
            self.directory = directory
            isKept = names != .uncached
            snapshot = Mutex(.none)
            let opens = names != .reuse
            stream = Mutex(opens ? try Self.open(directory) : nil)
            isOpen = Atomic(opens)
            if opens { directory.budget.opened() }
        }

        /// Makes a listing with the names that a directory has now. Returns nil if there are too many names.
        init?(_ handle: HandleID, snapshotOf directory: Node) throws(Errno) {
            self.handle = handle
            self.directory = directory
            isKept = false
            var stream = try Self.open(directory)
            guard let names = try DirectorySnapshot(reading: &stream) else { return nil }
            snapshot = Mutex(.unread(names))
            self.stream = Mutex(nil)
            isOpen = Atomic(false)
        }

        deinit { if hasDescriptor { directory.budget.closed() } }

        private static func open(_ directory: Node) throws(Errno) -> DirectoryStream {
            try DirectoryStream(reading: directory.descriptor().descriptor.openForListing())
        }

        var hasDescriptor: Bool { isOpen.load(ordering: .relaxed) }

        var closingThreads: LazyWorkerPool? { nil }

        func dropDescriptor() -> Bool {
            // A directory that a thread is reading now is not closed.
            let isDropped: Bool? = stream.withLockIfAvailable { stream in
                guard stream.take() != nil else { return true }
                isOpen.store(false, ordering: .relaxed)
                directory.budget.closed()
                return true
            }
            return isDropped != nil
        }

        /// Calls `body` for each entry that comes after an offset. See `DirectoryStream`.
        func forEach(
            from offset: Int, _ body: (borrowing FileName, UInt64, UInt8, Int) -> Bool
        ) throws(Errno) {
            if hasEnded(at: offset) { return }
            if let names = names(from: offset) {
                var last = offset
                let isKnown = names.forEach(from: offset) { name, inode, type, next in
                    let isAccepted = body(name, inode, type, next)
                    if isAccepted { last = next }
                    return isAccepted
                }
                if isKnown { return noteListed(names, upTo: last) }
            }
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
                    // After an error, the directory stays open, because the next read may succeed.
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

        /// Returns the snapshot. Returns nil if there is none, or if the program lists the directory from the beginning
        /// a second time.
        private func names(from offset: Int) -> DirectorySnapshot? {
            snapshot.withLock { snapshot in
                switch snapshot {
                case .unread(let names):
                    snapshot = .begun(names)
                    return names
                case .begun(let names) where offset != 0: return names
                case .begun, .ended, .none:
                    snapshot = .none
                    return nil
                }
            }
        }

        private func hasEnded(at offset: Int) -> Bool {
            snapshot.withLock { if case .ended(offset) = $0 { true } else { false } }
        }

        private func noteListed(_ names: DirectorySnapshot, upTo offset: Int) {
            guard names.ends(at: offset) else { return }
            snapshot.withLock { if case .begun = $0 { $0 = .ended(offset) } }
        }
    }

    private struct State {
        var listings: [HandleID: Listing] = [:]
        var keptNames = KernelCacheTracker<Stamp>()
    }

    private let state = Mutex(State())
    private let handlesGiven = Atomic<UInt64>(0)

    var isEmpty: Bool { state.withLock { $0.listings.isEmpty } }

    subscript(handle: HandleID) -> Listing? { state.withLock { $0.listings[handle] } }

    /// Returns a handle number for the next listing.
    func nextHandle() -> HandleID { HandleID(handlesGiven.add(1, ordering: .relaxed).newValue) }

    func insert(_ listing: Listing) {
        state.withLock { $0.listings[listing.handle] = listing }
        if listing.hasDescriptor { listing.directory.budget.cached(.listing(listing.handle)) }
    }

    func remove(_ handle: HandleID) {
        // If this is the last reference to the listing, the directory is closed when the reference ends. That must
        // happen after the lock is released.
        let listing = state.withLock { state in
            let listing = state.listings.removeValue(forKey: handle)
            if let listing, listing.isKept { state.keptNames.close(listing.directory.id) }
            return listing
        }
        _ = listing
    }

    // These functions decide, by a ``KernelCacheTracker``, whether the kernel may cache the names of a directory.
    func openNames(of directory: NodeID, looking look: Stamp) -> KernelCacheTracker<Stamp>.CacheAction {
        state.withLock { $0.keptNames.open(directory, looking: look) }
    }
    func beginNames(of directory: NodeID) { state.withLock { $0.keptNames.begin(directory) } }
    func closeNames(of directory: NodeID) { state.withLock { $0.keptNames.close(directory) } }
    func invalidateNameCache(of directory: NodeID) { state.withLock { $0.keptNames.invalidate(directory) } }
}

extension Node {
    /// Counts an open of a file in this directory. Reads and writes change the file's times, so the kernel will have to
    /// ask for its attributes.
    func noteOpened() {
        parent?.noteOpenBelow()
    }

    /// Returns whether a listing should also return the attributes of the files. It should if many of the directory's
    /// files were opened since the last such listing: more than a few, and about a sixteenth of all (D88).
    ///
    /// `size`: the directory's size in bytes, from which the number of its files is estimated.
    fileprivate func hasWornAttributes(size: UInt64) -> Bool {
        let opens = UInt64(opensBelow)
        return opens >= 8 && opens * 512 >= size
    }
}

extension DirectoryService {
    /// Called when a directory is opened. Returns whether the kernel may cache its names, and whether names that the
    /// kernel has cached are still valid.
    ///
    /// The kernel may not cache them if the directory's times do not show every change.
    func openNames(of directory: Node) throws(Errno) -> KernelCacheTracker<Stamp>.CacheAction {
        guard context.namesChangeOnlyHere(directory) else { return .uncached }
        let status = try directory.descriptor().descriptor.status()
        let isWorn = directory.hasWornAttributes(size: status.size)
        return isWorn ? .uncached : listings.openNames(of: directory.id, looking: Stamp(status))
    }

    func readDirectory(
        _ id: NodeID, handle: HandleID, from offset: Int, into page: consuming DirectoryPage
    ) {
        guard let directory = nodes[id], let listing = listings[handle] else { return page.fail(.stale) }
        engine.counters.listed.count()
        if listing.isKept, offset == 0 { listings.beginNames(of: id) }
        // The kernel gets the names together with the attributes. So the count of opened files begins at 0 again.
        if offset == 0 { directory.noteListed() }
        do throws(Errno) {
            try addEntries(of: listing, in: directory, from: offset, to: &page)
        } catch {
            // If the directory was removed in the meantime, the listing has no entries.
            guard error == .stale || error == .noEntry else { return page.fail(error) }
        }
        page.send()
    }

    /// Adds entries of a directory to a page (the answer to one READDIR request).
    ///
    /// If an error comes after some entries, these entries are sent, and the next page reports the error, as
    /// getdents(2) does. Each sent entry counts as a lookup.
    private func addEntries(
        of listing: ListingTable.Listing, in directory: Node, from offset: Int,
        to page: inout DirectoryPage
    ) throws(Errno) {
        let mountpoints = page.style == .names ? submounts.mountpoints(in: directory) : []
        do throws(Errno) {
            try listing.forEach(from: offset) { name, inode, type, next in
                if context.isPrivate(name, in: directory.id) { return true }
                let entered =
                    page.style == .entries && !name.isSelfOrParent
                    ? enter(name, in: directory, next: next, to: &page) : nil
                if let entered { return entered }
                let number = number(of: name, listedAs: inode, in: directory, mountpoints)
                return page.add(name, inode: number, type: type, next: next)
            }
        } catch {
            guard !page.isEmpty else { throw error }
        }
    }

    /// Returns the inode number of a name. It is the same number that stat(2) returns for the name.
    private func number(
        of name: borrowing FileName, listedAs inode: UInt64, in directory: Node, _ mountpoints: Set<[UInt8]>
    ) -> UInt64 {
        // If this directory is a mount point, or is reached on another path, the file system below may give the number
        // of another parent.
        if name == "..", let parent = directory.parent { return parent.number }
        guard !mountpoints.isEmpty, mountpoints.contains(name.copy().bytes) else {
            return submounts.number(ofInode: inode, on: directory.key.device)
        }
        do throws(Errno) {
            let status = try directory.descriptor().descriptor.cachedStatus(of: name)
            return submounts.number(ofInode: status.inode, on: status.device)
        } catch {
            // The name does not exist any more.
            return submounts.number(ofInode: inode, on: directory.key.device)
        }
    }

    /// Adds a name with its file's attributes to a page. If the name does not exist any more, adds nothing. Returns
    /// whether the page had room.
    ///
    /// Returns nil in two cases. The caller then adds the name without attributes:
    /// - The caller of READDIR may list the directory, but may not read its files' attributes.
    /// - The name is of a document that has gone missing in the middle of a save since the listing began.
    private func enter(
        _ name: borrowing FileName, in directory: Node, next: Int, to page: inout DirectoryPage
    ) -> Bool? {
        let status: FileStatus
        do throws(Errno) {
            status = try directory.descriptor().descriptor.status(of: name)
        } catch {
            guard error == .noEntry || error == .stale else { return nil }
            return isVacated(name, in: directory) ? nil : true
        }
        let node = nodes.introduce(status, as: name.copy(), in: directory)
        if !documents.awaitsNothing { identity.foundAwaited(node, as: name.copy(), in: directory) }
        let valid = attributeReplies.validity(of: node, to: 0)
        let isAccepted = page.add(
            name, node: node.id, generation: node.generation, shownAttributes.shown(status, of: node),
            valid: valid,
            next: next)
        if !isAccepted { nodes.forget(node.id, lookups: 1) }
        return isAccepted
    }

    private func isVacated(_ name: borrowing FileName, in directory: Node) -> Bool {
        guard !saves.hasNoPendingSaves else { return false }
        return saves.isVacated(name.copy().bytes, in: NodeNumber(directory.id.rawValue))
    }

    func closeDirectory(_ handle: HandleID, reply: consuming Reply) {
        listings.remove(handle)
        reply.succeed()
    }

    func synchronizeDirectory(_ id: NodeID, dataOnly: Bool, reply: consuming Reply) {
        guard let directory = nodes[id] else { return reply.fail(.stale) }
        let parked = Parked(reply)
        context.work(on: directory, for: .syncing) {
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
