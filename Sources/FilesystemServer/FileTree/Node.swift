// SPDX-License-Identifier: Apache-2.0
import Coordination
import FuseBridge
import LinuxSystem
import Synchronization
import VersionStore

/// The daemon's record of one file of the source, as long as the kernel knows the file's inode.
///
/// The daemon reaches the file by its parent and name, or by a descriptor as long as the budget allows one. A child holds a
/// reference to its parent. A node consists of three parts with states and invariants:
///
/// | part | its states |
/// |---|---|
/// | ``NodeNames`` | named, nameless |
/// | ``NodeReach`` | known, orphan, forgotten |
/// | ``NodeDataUse`` | closed, open |
///
/// An orphan has no name. A forgotten node may still be open for a moment. The kernel sends the last FORGET after the last
/// RELEASE, but the daemon may end the handle later than it gets the FORGET.
///
/// **Lock rule.** The mutex covers the state. Under the mutex, no system call is made and no other node's mutex is taken. The
/// last reference to another node or to a descriptor is never released under it.
final class Node: DescriptorOwner {
    /// Which item of the engine the file is.
    ///
    /// 1. No two nodes are the same item: only ``NodeTable`` changes the item, under a lock of its own.
    /// 2. The engine knows a directory as the item `registered`. If `registered` differs from `item`, the directory is
    ///    registered again before the engine needs it.
    private struct Identity {
        /// The document that this file is. When another file replaces this one in a save, this file becomes another item.
        var item: ItemID
        /// The number by which the engine knows the directory; nil while the engine does not know it.
        var registered: ItemID?
        /// How often the directory may have become a package, or stopped being a package.
        var packageChanges: UInt32 = 0
    }

    /// What the store has preserved of the file.
    private struct Preservation {
        /// The links to the file in the store. When the store removes a link or replaces it by a copy, the link is removed from
        /// this list.
        var linkedVersions: [LinkedVersion] = []
        /// The versions that were preserved since the first suspended writer of the file; empty while there is no suspended
        /// writer.
        var besides = SuspendedWriterVersions()
    }

    /// The part of the state that only a directory uses.
    private struct Directory {
        /// The time at which a name in the directory was last found to be removed or replaced out of band.
        var staleness = Staleness()
        /// How many files in the directory were opened since the directory was last listed with attributes; at most 65,535.
        var opensBelow: UInt16 = 0
    }

    /// The order of these properties leaves few bytes unused, because there may be millions of nodes.
    private struct State {
        var preservation = Preservation()
        var identity: Identity
        var reach = NodeReach()
        var names: NodeNames
        var data = NodeDataUse()
        var directory = Directory()
        var sightings = NodeSightings()
    }

    let id: NodeID
    let key: FileKey
    /// The type bits of the file's mode, which never change.
    let kind: UInt32
    private let remembered = Atomic(false)
    private let context: Context
    private let state: Mutex<State>

    init(_ id: NodeID, _ status: FileStatus, parent: Node?, name: NameBytes, context: Context) {
        self.id = id
        self.key = FileKey(status)
        self.kind = status.kind
        self.context = context
        state = Mutex(
            State(identity: Identity(item: ItemID(id.rawValue)), names: NodeNames(name, in: parent)))
    }

    var budget: DescriptorBudget { context.budget }
    var connection: Connection { context.connection }
    var policies: PathPolicies { context.policies }
    /// Whether the file's times change when a program changes the file by a mapping. False also if this cannot be determined.
    var timesShowStores: Bool {
        guard isOnSubmount else { return context.timesShowStores }
        do throws(Errno) {
            return FileTimes.detectMappedStores(on: try descriptor().descriptor.filesystemStatus())
        } catch {
            return false
        }
    }
    /// Whether an operation on the file may have to wait for a network or another process. True for each file on a submount,
    /// and for each file of a source that is not known to be local.
    var isDistant: Bool { !context.isLocal || isOnSubmount }
    /// Whether the file is on a submount, and not on the mount of the source.
    var isOnSubmount: Bool { context.submounts.isOnSubmount(key.mount) }
    /// Whether only programs of this machine can change the file, judged by the type of the file system below.
    var isMachineLocal: Bool { context.submounts.isMachineLocal(key.mount) }
    func threads(for purpose: WorkerPools.WorkKind) -> LazyWorkerPool {
        context.threads.of(key.mount, for: purpose)
    }
    /// The inode number of the file that programs see.
    var number: UInt64 { context.submounts.number(ofInode: key.inode, on: key.device) }

    // The last FORGET comes after the last RELEASE. So no open uses the backing file any more, and it is closed here.
    deinit {
        let (backing, registered) = state.withLock { ($0.data.backingID, $0.identity.registered) }
        if let backing { connection.closeBacking(backing) }
        if let registered { context.forgottenDirectories.add(registered) }
        // If this node held the last reference to its parent, the parent ends here as well. A loop ends one parent after
        // another, because a recursion might be too deep.
        var parent = takeParent()
        while isKnownUniquelyReferenced(&parent) { parent = parent?.takeParent() }
    }

    private func takeParent() -> Node? { state.withLock { $0.names.takeParent() } }

    var isRoot: Bool { id == .root }
    /// The number that distinguishes the file from earlier files with the same inode number. The kernel demands 0 for the root.
    var generation: UInt32 { isRoot ? 0 : NodeIDEncoding.generation(born: key.born) }
    var renames: ActiveRenames { context.renames }

    /// Makes the kernel drop the attributes that it has cached, so that it asks for them again.
    func invalidateAttributes() { connection.invalidateAttributes(of: id) }
}

// The names of the file, see ``NodeNames``.
extension Node {
    /// The file's known name and its directory. If `hasName` is false, they are the last known name and its directory.
    var location: (name: NameBytes, parent: Node?, hasName: Bool) {
        state.withLock { ($0.names.name, $0.names.parent, $0.names.hasName) }
    }
    var hasName: Bool { state.withLock { $0.names.hasName } }
    var parent: Node? { state.withLock { $0.names.parent } }
    /// All names of the file that the daemon knows. If the file has a known name, by which the daemon reaches it, this name
    /// comes first.
    var names: [NodeName] { state.withLock { $0.names.all } }
    var otherNames: [NodeName] { state.withLock { $0.names.others } }

    /// Whether this name is the file's known name.
    func isCalled(_ name: NameBytes, in directory: Node) -> Bool {
        state.withLock { $0.names.isCalled(name, in: directory) }
    }
    /// Whether this name is the file's known name, or was the known name until it was removed.
    func wasLastCalled(_ name: NameBytes, in directory: Node) -> Bool {
        state.withLock { $0.names.wasLastCalled(name, in: directory) }
    }
    /// Whether both nodes have the same known name; for a node without a name, its last known name counts.
    func hasName(of other: Node) -> Bool {
        let (name, parent, _) = location
        let (otherName, otherParent, _) = other.location
        return otherParent === parent && otherName == name
    }
    /// Whether this name is one of the names of the file that the daemon knows.
    func has(_ name: NameBytes, in directory: Node) -> Bool {
        state.withLock { $0.names.has(name, in: directory) }
    }
    /// Whether `matches` accepts a name that the daemon knows, or the last known name.
    func wasKnown(by matches: (NameBytes, Node) -> Bool) -> Bool {
        state.withLock { $0.names.wasKnown(by: matches) }
    }

    /// Sets the known name, by which the daemon reaches the file. If the file has several names, a new known name changes the
    /// item class only of a helper file (``retainsName(insteadOf:in:)``).
    func setName(_ name: NameBytes, in parent: Node, isOneOfSeveral: Bool = false) {
        let known = isOneOfSeveral ? itemClass : nil
        let former = state.withLock { state in
            state.names.set(name, in: parent, isOneOfSeveral: isOneOfSeveral, known: known)
        }
        withExtendedLifetime(former) {}
    }

    /// Adds a name that the file has besides its known name.
    func noteOtherName(_ name: NameBytes, in directory: Node) {
        state.withLock { $0.names.noteOther(name, in: directory) }
    }

    /// Removes a name that the file had besides its known name.
    func lostOtherName(_ name: NameBytes, in directory: Node) {
        let lost = state.withLock { $0.names.loseOther(name, in: directory) }
        withExtendedLifetime(lost) {}
    }

    /// Makes another name of the file the known name, after the known name was removed. Does nothing if the file has no other
    /// name.
    func takeOtherName() {
        let former = state.withLock { $0.names.takeOther() }
        withExtendedLifetime(former) {}
    }

    /// Notes that the file has lost its known name, or that this name now belongs to another file.
    func clearName() { state.withLock { $0.names.clear() } }

    /// Whether a program has found this document under its known name. If so, the known name is not replaced by another name.
    var isTracked: Bool { state.withLock { $0.names.isTracked } }
    /// Changes ``isTracked``. Only `DocumentTable` calls this function, under its lock.
    func setTracked(_ isTracked: Bool) { state.withLock { $0.names.isTracked = isTracked } }

    /// The item class of the file. It depends on the name, unless the contents have shown that the file is a database.
    var itemClass: ItemClass {
        if let known = state.withLock({ $0.names.itemClass }) { return known }
        let (name, parent, _) = location
        let found = Self.itemClass(of: name, in: parent)
        state.withLock { $0.names.note(found, of: name, in: parent) }
        return found
    }
    /// Drops the stored item class, so that it is determined from the name again.
    func resetClass() { state.withLock { $0.names.itemClass = nil } }
    /// Notes that the file's contents show a database, whatever name the file has.
    func noteDatabase() { state.withLock { $0.names.itemClass = .database } }
}

// The item that the engine knows for the file.
extension Node {
    var item: ItemID { state.withLock { $0.identity.item } }
    /// The document that the file is, and whether the file has a name.
    var document: (item: ItemID, hasName: Bool) { state.withLock { ($0.identity.item, $0.names.hasName) } }
    /// Sets the item, and returns the former item. Only ``NodeTable`` calls this function, under the lock of its renumbered
    /// items.
    @discardableResult
    func exchangeItem(for item: ItemID) -> ItemID {
        state.withLock { state in
            defer { state.identity.item = item }
            return state.identity.item
        }
    }

    /// The number by which the engine knows the directory (nil if it does not), and the directory's present item.
    var registration: (registered: ItemID?, item: ItemID) {
        state.withLock { ($0.identity.registered, $0.identity.item) }
    }
    /// Whether the engine knows the directory, as its present item or as a former item.
    var isPlaced: Bool { registration.registered != nil }
    /// Whether the engine knows the directory as its present item.
    var isRegistered: Bool { state.withLock { $0.identity.registered == $0.identity.item } }

    /// The state of the directory that the engine is told: the parent, and how often the directory may have become a package.
    var packageState: (parent: Node?, changes: UInt32) {
        state.withLock { ($0.names.parent, $0.identity.packageChanges) }
    }
    /// Notes that the engine was told the directory's item and state. Returns whether this state is still the present one.
    func confirmRegistration(as item: ItemID, in parent: Node?, after changes: UInt32) -> Bool {
        state.withLock { state in
            state.identity.registered = item
            return state.names.parent === parent && state.identity.packageChanges == changes
        }
    }
    /// Notes that the directory may have become a package, or stopped being a package. Returns the number by which the engine
    /// knows the directory, or nil.
    func notePackageChange() -> ItemID? {
        state.withLock { state in
            state.identity.packageChanges &+= 1
            return state.identity.registered
        }
    }
}

// How the daemon reaches the file, see ``NodeReach``.
extension Node {
    var cachedDescriptor: SharedDescriptor? { state.withLock { $0.reach.descriptor } }
    var hasDescriptor: Bool { cachedDescriptor != nil }
    var fileHandle: PersistentFileHandle? { state.withLock { $0.reach.fileHandle } }

    /// The facts by which the daemon can reach the file. They are read together under the mutex, so they belong to the same
    /// moment.
    var ways:
        (
            cached: SharedDescriptor?, fileHandle: PersistentFileHandle?, parent: Node?, name: NameBytes,
            hasName: Bool
        )
    {
        state.withLock { state in
            (
                state.reach.descriptor, state.reach.fileHandle, state.names.parent, state.names.name,
                state.names.hasName
            )
        }
    }

    /// Stores a descriptor, unless another thread has already stored one. Returns the stored descriptor, which the caller
    /// should use.
    func cache(_ descriptor: SharedDescriptor) -> SharedDescriptor {
        let (kept, isNew) = state.withLock { $0.reach.cache(descriptor) }
        if isNew { budget.cached(.node(id)) }
        return kept
    }

    /// Opens the node's descriptor. Until ``unpin()`` is called, the file can be reached even if its name changes.
    func pin() throws(Errno) -> SharedDescriptor {
        try pin(
            state.withLock { state in
                state.reach.pin()
                return state.reach.descriptor
            })
    }

    /// Opens the node's descriptor, and notes under the same lock which process opens the file (``NodeSightings``).
    @inline(__always)
    func pin(
        noting process: Int32, at moment: UInt32, _ use: NodeSightings.Use, isTableEmpty: Bool
    ) throws(Errno) -> (descriptor: SharedDescriptor, outcome: NodeSightings.Outcome) {
        let (cached, outcome) = state.withLock { state in
            state.reach.pin()
            let outcome = state.sightings.note(process, at: moment, use, isTableEmpty: isTableEmpty)
            return (state.reach.descriptor, outcome)
        }
        return (try pin(cached), outcome)
    }

    private func pin(_ cached: SharedDescriptor?) throws(Errno) -> SharedDescriptor {
        if let cached { return cached }
        do throws(Errno) {
            return try descriptor()
        } catch {
            unpin()
            throw error
        }
    }

    func unpin() {
        let dropped = state.withLock { $0.reach.unpin() }
        withExtendedLifetime(dropped) {}
    }

    /// Ensures that the file can be reached until the kernel forgets its inode. Call this before the file's last name is
    /// removed: programs that have the file open may still ask for its attributes.
    func keepAsOrphan() throws(Errno) {
        // The node becomes an orphan before its descriptor is opened. In the opposite order, the budget could close the
        // descriptor between the two steps.
        state.withLock { $0.reach.becomeOrphan() }
        do throws(Errno) {
            _ = try descriptor()
        } catch {
            cancelOrphan()
            throw error
        }
    }

    /// Reverses ``keepAsOrphan()``, because the file's last name was not removed.
    func cancelOrphan() { state.withLock { $0.reach.cancelOrphan() } }

    /// Closes the descriptor after the kernel has forgotten the inode. Threads that use the descriptor hold it until they are
    /// done.
    func releaseAfterForget() {
        let dropped = state.withLock { $0.reach.forget() }
        withExtendedLifetime(dropped) {}
        closeBackingIfUnused()
    }

    /// Stores the file handle of the file below. With this file handle, the daemon can serve requests by node number even if
    /// the file has no valid name.
    func noteFileHandle(_ fileHandle: PersistentFileHandle?) {
        state.withLock { $0.reach.noteFileHandle(fileHandle) }
    }

    /// The descriptor, and whether the file must be reached without a name, because it has an open handle or is an orphan.
    var descriptorInUse: (descriptor: SharedDescriptor?, isInUse: Bool) {
        state.withLock { ($0.reach.descriptor, $0.reach.isInUse) }
    }

    /// Stores a file handle, because the descriptor is about to be closed. Returns whether the kernel must also hold a backing
    /// file. Without it, a file without a name would cease to exist.
    func prepareDrop(_ fileHandle: PersistentFileHandle?) -> Bool {
        state.withLock { state in
            state.reach.setFileHandle(fileHandle)
            return state.reach.isOrphan && fileHandle != nil && state.data.backingID == nil
        }
    }

    /// Closes the descriptor if the file can be found without it. `isAlone` means that the file has only its known name.
    /// Returns whether the descriptor was closed.
    func dropDescriptor(isAlone: Bool) -> Bool {
        let dropped: SharedDescriptor?? = state.withLock { state in
            let hasOnlyName = state.names.hasName && isAlone
            guard state.reach.canReopen(hasOnlyName: hasOnlyName, hasBacking: state.data.backingID != nil)
            else { return nil }
            return .some(state.reach.takeDescriptor())
        }
        return dropped != nil
    }
}

// The open handles of the file and the route of its data, see ``NodeDataUse``.
extension Node {
    var isOpen: Bool { state.withLock { $0.data.opens > 0 } }
    /// Whether the file has more than `count` open handles.
    func isOpen(besides count: Int32) -> Bool { state.withLock { $0.data.opens > count } }
    /// Whether a program may change the file by a shared mapping, without a request to the daemon.
    var hasMappers: Bool { state.withLock { $0.data.hasMappers } }
    var dataRoute: DataRoute? { state.withLock { $0.data.route } }
    var isKnownPassthrough: Bool { state.withLock { $0.data.isKnownPassthrough } }

    func enterRouteInUse(mapping: Bool) -> DataRoute? {
        state.withLock { $0.data.enterInUse(mapping: mapping) }
    }
    func enterRoute(_ wanted: DataRoute, mapping: Bool) -> DataRoute? {
        state.withLock { $0.data.enter(wanted, mapping: mapping) }
    }
    func leaveRoute(mapping: Bool) -> Bool { state.withLock { $0.data.leave(mapping: mapping) } }

    var mayBypass: Bool? { state.withLock { $0.data.mayBypass } }
    func setMayBypass(_ mayBypass: Bool?) { state.withLock { $0.data.mayBypass = mayBypass } }
    /// Notes whether the file's status allows passthrough. Changes nothing if a more thorough check has already decided this.
    func noteMayBypass(_ mayBypass: Bool) {
        state.withLock { $0.data.mayBypass = $0.data.mayBypass ?? mayBypass }
    }

    /// The backing file for the next open, and how often the file's owner was changed through the mount.
    var backingForOpen: (usable: BackingID?, ownerChanges: UInt32) {
        state.withLock { ($0.data.usableBacking, $0.data.ownerChanges) }
    }
    func offerBacking(
        _ opened: BackingID, ownerChanges: UInt32
    ) -> (kept: BackingID, needless: BackingID?) {
        state.withLock { $0.data.offer(opened, ownerChanges: ownerChanges) }
    }

    /// Makes the kernel hold the file below open, so the daemon needs no descriptor for it. The kernel holds the file until it
    /// forgets the inode, or until the node gets another backing file.
    func retainBacking(_ opened: BackingID) {
        let needless = state.withLock { $0.data.retain(opened) }
        if let needless { connection.closeBacking(needless) }
    }

    /// Closes the backing file if no open uses it. An open backing file would keep the blocks of a removed file in use.
    func closeBackingIfUnused() {
        let backing = state.withLock { $0.data.takeUnusedBacking(of: $0.reach) }
        if let backing { connection.closeBacking(backing) }
    }

    /// Marks the backing file as outdated, because the file has another owner. When all handles are closed, the next open opens
    /// a new backing file as the new owner.
    func noteOwnerChange() {
        state.withLock { $0.data.noteOwnerChange() }
        closeBackingIfUnused()
    }
}

// The versions in the store that concern the file.
extension Node {
    var linkedVersions: [LinkedVersion] { state.withLock { $0.preservation.linkedVersions } }
    /// How many links to the file the store has, and whether the file has a name.
    var linkCount: (links: UInt64, hasName: Bool) {
        state.withLock { (UInt64($0.preservation.linkedVersions.count), $0.names.hasName) }
    }
    func add(_ version: LinkedVersion) { state.withLock { $0.preservation.linkedVersions.append(version) } }
    func remove(_ version: LinkedVersion) {
        state.withLock { state in state.preservation.linkedVersions.removeAll { $0 === version } }
    }

    // The versions that are preserved while the file has suspended writers, see ``SuspendedWriterVersions``.
    func lastVersion(for writers: [HandleID]) -> SuspendedWriterVersions.Version? {
        state.withLock { $0.preservation.besides.last(for: writers) }
    }
    func insertVersion(
        _ version: SuspendedWriterVersions.Version, insteadOf former: VersionID?,
        from origin: SuspendedWriterVersions.Origin, for writers: [HandleID]
    ) -> [VersionID] {
        state.withLock { state in
            state.preservation.besides.insert(version, insteadOf: former, from: origin, for: writers)
        }
    }
    func renewVersion(
        _ id: VersionID, from origin: SuspendedWriterVersions.Origin, for writers: [HandleID]
    ) -> [VersionID] {
        state.withLock { $0.preservation.besides.renew(id, from: origin, for: writers) }
    }
    func closeVersions(of writer: HandleID) {
        state.withLock { state in
            if !state.preservation.besides.isEmpty { state.preservation.besides.close(writer) }
        }
    }
}

// The programs that have opened the file, see ``NodeSightings``.
extension Node {
    /// Whether ``Sightings`` remembers the file. Requests check this before they take a lock.
    var isRemembered: Bool { remembered.load(ordering: .relaxed) }
    var sightings: NodeSightings { state.withLock { $0.sightings } }
    func noteOpen(
        _ process: Int32, at moment: UInt32, _ use: NodeSightings.Use, isTableEmpty: Bool
    ) -> NodeSightings.Outcome {
        state.withLock { $0.sightings.note(process, at: moment, use, isTableEmpty: isTableEmpty) }
    }
    func replaceReader(by note: NodeSightings.Note, ended: (NodeSightings.Note) -> Bool) {
        state.withLock { $0.sightings.replaceReader(by: note, ended: ended) }
    }
    /// Gives a new node the notes that an earlier node of the file had.
    func restore(_ sightings: NodeSightings) { state.withLock { $0.sightings = sightings } }
    func forgetSightings() { state.withLock { $0.sightings.forgetNotes() } }
    func becomeKnown(isRemembered: Bool) {
        state.withLock { state in
            state.sightings.becomeKnown(isRemembered: isRemembered)
            remembered.store(isRemembered, ordering: .relaxed)
        }
    }
}

// The state that only directories use.
extension Node {
    /// Notes that a name in the directory was found to be removed or replaced out of band.
    func noteStaleBelow() { state.withLock { $0.directory.staleness.note(at: MonotonicClock.nanoseconds) } }
    /// Whether a name in the directory was found to be removed or replaced out of band a moment ago.
    var isStaleBelow: Bool {
        state.withLock { $0.directory.staleness.isRecent(at: MonotonicClock.nanoseconds) }
    }

    var opensBelow: UInt16 { state.withLock { $0.directory.opensBelow } }
    func noteOpenBelow() {
        state.withLock { if $0.directory.opensBelow < .max { $0.directory.opensBelow += 1 } }
    }
    func noteListed() { state.withLock { $0.directory.opensBelow = 0 } }
}
