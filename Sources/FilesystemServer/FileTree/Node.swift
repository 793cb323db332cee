// SPDX-License-Identifier: Apache-2.0
import Coordination
import FuseBridge
import LinuxSystem
import Synchronization
import VersionStore

/// One file of the mirrored tree, as long as the kernel knows it.
///
/// It is reached by parent and name, and by a descriptor as long as the budget allows. Children keep their parent alive.
/// Its life and its invariants are those of its parts:
///
/// | part | of it |
/// |---|---|
/// | ``NodeNames`` | named, nameless |
/// | ``NodeReach`` | known, orphan, forgotten |
/// | ``NodeDataUse`` | closed, open |
///
/// An orphan has no name. A forgotten node may still be open for a moment: the last FORGET comes after the last RELEASE,
/// but the daemon may end the handle later.
///
/// **Lock rule.** The mutex covers the state. Under it, no system call is made, no other node's mutex is taken, and
/// nothing that may be the last reference to a node or to a descriptor is released.
final class Node: DescriptorOwner {
    /// The item that the file is to the engine.
    ///
    /// 1. No two nodes are the same item: ``NodeTable`` changes it, under a lock of its own.
    /// 2. The engine knows the directory as `registered`; if that is not the item, it is registered again when needed.
    private struct Identity {
        /// The document that this file is. It changes when another file takes its place in a safe save.
        var item: ItemID
        /// The number by which the engine knows the directory; nil until it does.
        var registered: ItemID?
        /// How often it may have become a package, or ceased to be one.
        var packageChanges: UInt32 = 0
    }

    /// What the store has of the file.
    private struct Preservation {
        /// Links of the store to the file. A link leaves when it is dropped, or has contents of its own.
        var linkedVersions: [LinkedVersion] = []
        /// Versions preserved since the file has suspended writers; empty without such writers.
        var besides = SuspendedWriterVersions()
    }

    /// What only a directory has.
    private struct Directory {
        /// When one of its names was last lost.
        var staleness = Staleness()
        /// How many of its files were opened since it was last listed with their attributes, up to a limit.
        var opensBelow: UInt16 = 0
    }

    /// The order of the properties leaves few gaps, since there may be millions of nodes.
    private struct State {
        var preservation = Preservation()
        var identity: Identity
        var reach = NodeReach()
        var names: NodeNames
        var data = NodeDataUse()
        var directory = Directory()
    }

    let id: NodeID
    let key: FileKey
    /// The type bits of the mode, which never change.
    let kind: UInt32
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
    /// Whether stores to a mapping of the file change its times; false if that cannot be determined.
    var timesShowStores: Bool {
        guard isOnSubmount else { return context.timesShowStores }
        do throws(Errno) {
            return FileTimes.detectMappedStores(on: try descriptor().descriptor.filesystemStatus())
        } catch {
            return false
        }
    }
    /// Whether its file system may wait for a network or another process. True for each submount, and if the source's type
    /// is not known to be local.
    var isDistant: Bool { !context.isLocal || isOnSubmount }
    /// Whether it was reached by another mount than the source.
    var isOnSubmount: Bool { context.submounts.isOnSubmount(key.mount) }
    /// Whether only programs of this machine can change it, judged by the type of its file system.
    var isMachineLocal: Bool { context.submounts.isMachineLocal(key.mount) }
    func threads(for purpose: WorkerPools.WorkKind) -> LazyWorkerPool {
        context.threads.of(key.mount, for: purpose)
    }
    /// The inode number that programs see.
    var number: UInt64 { context.submounts.number(ofInode: key.inode, on: key.device) }

    // The last FORGET comes after the last RELEASE, so no open uses the backing file any more.
    deinit {
        let (backing, registered) = state.withLock { ($0.data.backingID, $0.identity.registered) }
        if let backing { connection.closeBacking(backing) }
        if let registered { context.forgottenDirectories.add(registered) }
        // Releases each parent that only its child kept alive, without recursion.
        var parent = takeParent()
        while isKnownUniquelyReferenced(&parent) { parent = parent?.takeParent() }
    }

    private func takeParent() -> Node? { state.withLock { $0.names.takeParent() } }

    var isRoot: Bool { id == .root }
    /// The kernel wants 0 for the root.
    var generation: UInt32 { isRoot ? 0 : NodeIDEncoding.generation(born: key.born) }
    var renames: ActiveRenames { context.renames }

    /// Makes the kernel ask for the attributes again.
    func invalidateAttributes() { connection.invalidateAttributes(of: id) }
}

// Its names, see ``NodeNames``.
extension Node {
    /// The known name and its directory, or the last known ones.
    var location: (name: NameBytes, parent: Node?, hasName: Bool) {
        state.withLock { ($0.names.name, $0.names.parent, $0.names.hasName) }
    }
    var hasName: Bool { state.withLock { $0.names.hasName } }
    var parent: Node? { state.withLock { $0.names.parent } }
    /// All known names, the main one first.
    var names: [NodeName] { state.withLock { $0.names.all } }
    var otherNames: [NodeName] { state.withLock { $0.names.others } }

    /// Whether it is known by this name.
    func isCalled(_ name: NameBytes, in directory: Node) -> Bool {
        state.withLock { $0.names.isCalled(name, in: directory) }
    }
    /// Whether this is the known name, or was it last.
    func wasLastCalled(_ name: NameBytes, in directory: Node) -> Bool {
        state.withLock { $0.names.wasLastCalled(name, in: directory) }
    }
    /// Whether both were last seen under the same name.
    func hasName(of other: Node) -> Bool {
        let (name, parent, _) = location
        let (otherName, otherParent, _) = other.location
        return otherParent === parent && otherName == name
    }
    /// Whether this is one of its names, as far as they are known.
    func has(_ name: NameBytes, in directory: Node) -> Bool {
        state.withLock { $0.names.has(name, in: directory) }
    }
    /// Whether any known name matches, or the last known one did.
    func wasKnown(by matches: (NameBytes, Node) -> Bool) -> Bool {
        state.withLock { $0.names.wasKnown(by: matches) }
    }

    /// Sets the name by which the file is known. One of several links does not change the item class, except that the file
    /// is no helper file then (``retainsName(insteadOf:in:)``).
    func setName(_ name: NameBytes, in parent: Node, isOneOfSeveral: Bool = false) {
        let known = isOneOfSeveral ? itemClass : nil
        let former = state.withLock { state in
            state.names.set(name, in: parent, isOneOfSeveral: isOneOfSeveral, known: known)
        }
        withExtendedLifetime(former) {}
    }

    /// Adds another name of the file.
    func noteOtherName(_ name: NameBytes, in directory: Node) {
        state.withLock { $0.names.noteOther(name, in: directory) }
    }

    /// Removes a name that is not the known one.
    func lostOtherName(_ name: NameBytes, in directory: Node) {
        let lost = state.withLock { $0.names.loseOther(name, in: directory) }
        withExtendedLifetime(lost) {}
    }

    /// After the known name is gone, another name becomes the known one, if there is any.
    func takeOtherName() {
        let former = state.withLock { $0.names.takeOther() }
        withExtendedLifetime(former) {}
    }

    /// Notes that its last known name is gone or belongs to another file.
    func clearName() { state.withLock { $0.names.clear() } }

    /// Whether a program follows the document under its known name, whatever other names it has.
    var isTracked: Bool { state.withLock { $0.names.isTracked } }
    /// Called under the lock of `DocumentTable`.
    func setTracked(_ isTracked: Bool) { state.withLock { $0.names.isTracked = isTracked } }

    /// The class that follows from its name.
    var itemClass: ItemClass {
        if let known = state.withLock({ $0.names.itemClass }) { return known }
        let (name, parent, _) = location
        let found = Self.itemClass(of: name, in: parent)
        state.withLock { $0.names.note(found, of: name, in: parent) }
        return found
    }
    /// Has the class follow from the name again.
    func resetClass() { state.withLock { $0.names.itemClass = nil } }
    /// The contents show that the file is a database, whatever its name says.
    func noteDatabase() { state.withLock { $0.names.itemClass = .database } }
}

// The item that it is to the engine.
extension Node {
    var item: ItemID { state.withLock { $0.identity.item } }
    /// The document that the file is, and whether the file still has a name.
    var document: (item: ItemID, hasName: Bool) { state.withLock { ($0.identity.item, $0.names.hasName) } }
    /// Returns the former item. Called by ``NodeTable``, under the lock of its renumbered items.
    @discardableResult
    func exchangeItem(for item: ItemID) -> ItemID {
        state.withLock { state in
            defer { state.identity.item = item }
            return state.identity.item
        }
    }

    /// The number by which the engine knows the directory, and the item that it is now.
    var registration: (registered: ItemID?, item: ItemID) {
        state.withLock { ($0.identity.registered, $0.identity.item) }
    }
    /// Whether the engine knows the directory, perhaps as its former item.
    var isPlaced: Bool { registration.registered != nil }
    /// Whether the engine knows the directory as its present item.
    var isRegistered: Bool { state.withLock { $0.identity.registered == $0.identity.item } }

    /// What the engine is told of the directory.
    var packageState: (parent: Node?, changes: UInt32) {
        state.withLock { ($0.names.parent, $0.identity.packageChanges) }
    }
    /// The engine was told of the directory. Returns whether what it was told is still true.
    func confirmRegistration(as item: ItemID, in parent: Node?, after changes: UInt32) -> Bool {
        state.withLock { state in
            state.identity.registered = item
            return state.names.parent === parent && state.identity.packageChanges == changes
        }
    }
    /// The directory may have become a package, or be none any longer. Returns the number by which the engine knows it.
    func notePackageChange() -> ItemID? {
        state.withLock { state in
            state.identity.packageChanges &+= 1
            return state.identity.registered
        }
    }
}

// How its file is reached, see ``NodeReach``.
extension Node {
    var cachedDescriptor: SharedDescriptor? { state.withLock { $0.reach.descriptor } }
    var hasDescriptor: Bool { cachedDescriptor != nil }
    var fileHandle: PersistentFileHandle? { state.withLock { $0.reach.fileHandle } }

    /// The ways to reach the file, read at once.
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

    /// Stores a descriptor, unless another thread was faster. Returns the stored one.
    func cache(_ descriptor: SharedDescriptor) -> SharedDescriptor {
        let (kept, isNew) = state.withLock { $0.reach.cache(descriptor) }
        if isNew { budget.cached(.node(id)) }
        return kept
    }

    /// Keeps the file reachable until ``unpin()``, and opens its descriptor.
    func pin() throws(Errno) -> SharedDescriptor {
        let cached = state.withLock { state in
            state.reach.pin()
            return state.reach.descriptor
        }
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

    /// Holds a descriptor until the kernel forgets the inode, before the last name is removed. Programs that have the file
    /// open may still ask for its attributes.
    func keepAsOrphan() throws(Errno) {
        // Set first, or the descriptor could be closed again before it is protected.
        state.withLock { $0.reach.becomeOrphan() }
        do throws(Errno) {
            _ = try descriptor()
        } catch {
            cancelOrphan()
            throw error
        }
    }

    /// Undoes ``keepAsOrphan()``: the last name was not removed.
    func cancelOrphan() { state.withLock { $0.reach.cancelOrphan() } }

    /// Closes the descriptor after the kernel forgot the inode. Current users hold it until they are done.
    func releaseAfterForget() {
        let dropped = state.withLock { $0.reach.forget() }
        withExtendedLifetime(dropped) {}
        closeBackingIfUnused()
    }

    /// Stores a file handle. Requests by node number then still work without a valid name.
    func noteFileHandle(_ fileHandle: PersistentFileHandle?) {
        state.withLock { $0.reach.noteFileHandle(fileHandle) }
    }

    /// The descriptor, and whether an open handle or the kernel needs the file even without a name.
    var descriptorInUse: (descriptor: SharedDescriptor?, isInUse: Bool) {
        state.withLock { ($0.reach.descriptor, $0.reach.isInUse) }
    }

    /// Stores a file handle before the descriptor is dropped. Returns whether the file also needs a backing file.
    func prepareDrop(_ fileHandle: PersistentFileHandle?) -> Bool {
        state.withLock { state in
            state.reach.setFileHandle(fileHandle)
            return state.reach.isOrphan && fileHandle != nil && state.data.backingID == nil
        }
    }

    /// Drops the descriptor if the file can be found again. `isAlone` means that it has no other name. Returns whether it
    /// was dropped.
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

// The use of its data, see ``NodeDataUse``.
extension Node {
    var isOpen: Bool { state.withLock { $0.data.opens > 0 } }
    /// Whether it has more open handles than these.
    func isOpen(besides count: Int32) -> Bool { state.withLock { $0.data.opens > count } }
    /// Whether a shared mapping may change the file unnoticed.
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
    /// Notes what the file's status says, unless more is known.
    func noteMayBypass(_ mayBypass: Bool) {
        state.withLock { $0.data.mayBypass = $0.data.mayBypass ?? mayBypass }
    }

    /// The backing file for the next open, and how often the owner was changed.
    var backingForOpen: (usable: BackingID?, ownerChanges: UInt32) {
        state.withLock { ($0.data.usableBacking, $0.data.ownerChanges) }
    }
    func offerBacking(
        _ opened: BackingID, ownerChanges: UInt32
    ) -> (kept: BackingID, needless: BackingID?) {
        state.withLock { $0.data.offer(opened, ownerChanges: ownerChanges) }
    }

    /// Makes the kernel hold the file below, without a descriptor of the daemon, until it forgets the inode or opens the
    /// file again.
    func retainBacking(_ opened: BackingID) {
        let needless = state.withLock { $0.data.retain(opened) }
        if let needless { connection.closeBacking(needless) }
    }

    /// Closes the backing file once no open uses it. It would keep the file's blocks and possibly the node.
    func closeBackingIfUnused() {
        let backing = state.withLock { $0.data.takeUnusedBacking(of: $0.reach) }
        if let backing { connection.closeBacking(backing) }
    }

    /// Marks the backing file as outdated after a change of owner. The kernel opens it again, as the new owner, after the
    /// last close.
    func noteOwnerChange() {
        state.withLock { $0.data.noteOwnerChange() }
        closeBackingIfUnused()
    }
}

// What the store has of the file.
extension Node {
    var linkedVersions: [LinkedVersion] { state.withLock { $0.preservation.linkedVersions } }
    /// How many links of the store the file has, and whether it has a name.
    var linkCount: (links: UInt64, hasName: Bool) {
        state.withLock { (UInt64($0.preservation.linkedVersions.count), $0.names.hasName) }
    }
    func add(_ version: LinkedVersion) { state.withLock { $0.preservation.linkedVersions.append(version) } }
    func remove(_ version: LinkedVersion) {
        state.withLock { state in state.preservation.linkedVersions.removeAll { $0 === version } }
    }

    // See ``SuspendedWriterVersions``.
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

// What only a directory has.
extension Node {
    /// Notes that the directory has lost a name.
    func noteStaleBelow() { state.withLock { $0.directory.staleness.note(at: MonotonicClock.nanoseconds) } }
    /// Whether the directory lost a name a moment ago.
    var isStaleBelow: Bool {
        state.withLock { $0.directory.staleness.isRecent(at: MonotonicClock.nanoseconds) }
    }

    var opensBelow: UInt16 { state.withLock { $0.directory.opensBelow } }
    func noteOpenBelow() {
        state.withLock { if $0.directory.opensBelow < .max { $0.directory.opensBelow += 1 } }
    }
    func noteListed() { state.withLock { $0.directory.opensBelow = 0 } }
}
