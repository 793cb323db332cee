// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// Which side moves a file's data.
enum DataRoute: Sendable {
    /// The kernel, directly to the file below.
    case backing(BackingID)
    /// This process.
    case daemon
}

/// One file of the mirrored tree, as long as the kernel knows it.
///
/// It is reached by parent and name, and by a descriptor as long as the budget allows. Children keep their parent alive.
/// **Lock rule.** The mutex covers the state. Under it, no system call is made and no other node's mutex is taken.
final class Node: DescriptorOwner {
    /// The order of the properties leaves few gaps, since there may be millions of nodes.
    struct State {
        var parent: Node?
        var name: NameBytes
        /// The document that this file is. It changes when another file takes its place in a safe save.
        var item: ItemID
        var descriptor: SharedDescriptor?
        /// Finds the file without a name. Set once the descriptor of a file in use had to be closed.
        var fileHandle: PersistentFileHandle?
        /// The number by which the engine knows the directory; nil until it does.
        var registeredItem: ItemID?
        /// Links of the store to the file.
        var linkedVersions: [LinkedVersion] = []
        /// Versions preserved since the file has suspended writers.
        var besides = SuspendedWriterVersions()
        /// The number of open handles. They must reach the file even if its name changes.
        var pins: Int32 = 0
        var opens: Int32 = 0
        /// The number of open handles through which a shared mapping may change the file unnoticed.
        var mappers: Int32 = 0
        /// How often it may have become a package, or ceased to be one.
        var packageChanges: UInt32 = 0
        /// Held until the kernel forgets the inode, or until no open remains and ``mayLoseBacking`` is true.
        var backing: BackingID?
        /// The file below was opened as a user that is no longer the file's owner: as the daemon, or before a chown.
        var isBackingOutdated = false
        /// How often the file's owner was changed through the mount.
        var ownerChanges: UInt32 = 0
        /// In force while `opens` is not 0: the kernel refuses handles of one inode in two modes.
        var dataRoute: DataRoute?
        /// How many of the directory's files were opened since it was last listed with their attributes, up to a limit.
        var opensBelow: UInt16 = 0
        var hasName = true
        /// A program follows the document under its known name, whatever other names it has.
        var isTracked = false
        /// Its last name is gone: without the descriptor, the file may be unreachable.
        var isOrphan = false
        /// The kernel has forgotten the inode.
        var isForgotten = false
        /// Whether the kernel may move the data at all; nil until that was checked.
        var mayBypass: Bool?
        var itemClass: ItemClass?
        /// For a directory: when one of its names was last lost.
        var staleness = Staleness()
        /// Names besides the known one, as far as the kernel has looked them up.
        var otherNames: [NodeName] = []

        init(parent: Node?, name: NameBytes, item: ItemID) {
            self.parent = parent
            self.name = name
            self.item = item
        }

        /// The backing file for the next open. An outdated one is used only while other opens use it.
        var usableBacking: BackingID? { isBackingOutdated && opens == 0 ? nil : backing }

        /// Whether the backing file may be closed when no open uses it. An orphan without a descriptor still needs it: its
        /// backing keeps the file in existence.
        var mayLoseBacking: Bool { isOrphan ? descriptor != nil : isBackingOutdated }
    }

    let id: NodeID
    let key: FileKey
    /// The type bits of the mode, which never change.
    let kind: UInt32
    private let context: Context
    let state: Mutex<State>

    init(_ id: NodeID, _ status: FileStatus, parent: Node?, name: NameBytes, context: Context) {
        self.id = id
        self.key = FileKey(status)
        self.kind = status.kind
        self.context = context
        state = Mutex(State(parent: parent, name: name, item: ItemID(id.rawValue)))
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
        let (backing, registeredItem) = state.withLock { ($0.backing, $0.registeredItem) }
        if let backing { connection.closeBacking(backing) }
        if let registeredItem { context.forgottenDirectories.add(registeredItem) }
        // Releases each parent that only its child kept alive, without recursion.
        var parent = state.withLock { $0.parent.take() }
        while isKnownUniquelyReferenced(&parent) {
            parent = parent?.state.withLock { $0.parent.take() }
        }
    }

    var item: ItemID { state.withLock { $0.item } }
    /// The document that the file is, and whether the file still has a name.
    var document: (item: ItemID, hasName: Bool) { state.withLock { ($0.item, $0.hasName) } }
    var isRoot: Bool { id == .root }
    /// The kernel wants 0 for the root.
    var generation: UInt32 { isRoot ? 0 : NodeIDEncoding.generation(born: key.born) }

    /// The path from the source's root to this file.
    var path: [UInt8] {
        var parts: [[UInt8]] = []
        var next: Node? = self
        while let node = next, !node.isRoot {
            let (name, parent) = node.state.withLock { ($0.name, $0.parent) }
            parts.append(name.bytes)
            next = parent
        }
        return Array(parts.reversed().joined(separator: [UInt8(ascii: "/")]))
    }

    /// Returns the node's descriptor, open for as long as the caller holds it.
    ///
    /// Throws ESTALE if the node's name now leads to another file.
    func descriptor() throws(Errno) -> SharedDescriptor {
        if let cached = state.withLock({ $0.descriptor }) { return cached }
        var stale: Node?
        do throws(Errno) {
            return try findDescriptor(unless: &stale)
        } catch {
            // A rename may have happened between reading the name and opening it. A second lookup finds the new name.
            guard error == .noEntry || error == .stale else { throw error }
            return try findDescriptorAfterRenames()
        }
    }

    /// Repeats the lookup until no rename through the mount runs: the file below is renamed before its node.
    private func findDescriptorAfterRenames() throws(Errno) -> SharedDescriptor {
        let end = MonotonicClock.nanoseconds + ActiveRenames.longest
        var stale: Node?
        while true {
            let isLast = context.renames.isEmpty || MonotonicClock.nanoseconds >= end
            do throws(Errno) {
                return try findDescriptor(unless: &stale)
            } catch {
                if isLast {
                    stale?.noteStaleBelow()
                    throw .stale
                }
                sched_yield()
            }
        }
    }

    var renames: ActiveRenames { context.renames }
    /// Notes that the directory has lost a name.
    func noteStaleBelow() { state.withLock { $0.staleness.note(at: MonotonicClock.nanoseconds) } }
    /// Whether the directory lost a name a moment ago.
    var isStaleBelow: Bool { state.withLock { $0.staleness.isRecent(at: MonotonicClock.nanoseconds) } }

    /// Opens the closed descriptors on the path to it, from the top. Not recursive, since users choose the depth of a tree.
    ///
    /// After a failure, `stale` is the directory in which the name no longer leads to the next node.
    private func findDescriptor(unless stale: inout Node?) throws(Errno) -> SharedDescriptor {
        var way: [(node: Node, name: NameBytes, directory: Node)] = []
        var next = self
        var opened: SharedDescriptor
        while true {
            let (cached, fileHandle, parent, name, hasName) = next.state.withLock {
                ($0.descriptor, $0.fileHandle, $0.parent, $0.name, $0.hasName)
            }
            if let found = cached ?? fileHandle.flatMap({ next.find(by: $0) }) {
                opened = found
                break
            }
            stale = parent
            guard let parent, hasName else { throw .stale }
            way.append((next, name, parent))
            next = parent
        }
        while let (node, name, directory) = way.popLast() {
            stale = directory
            opened = try node.open(name, in: opened)
        }
        return opened
    }

    private func open(_ name: NameBytes, in directory: SharedDescriptor) throws(Errno) -> SharedDescriptor {
        let opened = try name.withName { (name) throws(Errno) in try directory.descriptor.path(of: name) }
        let status = try opened.status()
        guard FileKey(status) == key else { throw .stale }
        // The open that probably follows need not ask for the status again.
        if let mayBypass = status.mayBypass { state.withLock { $0.mayBypass = $0.mayBypass ?? mayBypass } }
        return cache(SharedDescriptor(opened, of: budget))
    }

    /// Stores a descriptor, unless another thread was faster. Returns the stored one.
    func cache(_ descriptor: SharedDescriptor) -> SharedDescriptor {
        let (kept, isNew) = state.withLock { state in
            if let cached = state.descriptor { return (cached, false) }
            // The budget could not find a forgotten node in order to close the descriptor.
            if state.isForgotten, state.pins == 0 { return (descriptor, false) }
            state.descriptor = descriptor
            return (descriptor, true)
        }
        if isNew { budget.cached(.node(id)) }
        return kept
    }

    var hasDescriptor: Bool { state.withLock { $0.descriptor != nil } }

    /// Keeps the file reachable until ``unpin()``, and opens its descriptor.
    func pin() throws(Errno) -> SharedDescriptor {
        let cached = state.withLock { state in
            state.pins += 1
            return state.descriptor
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
        let dropped: SharedDescriptor? = state.withLock { state in
            state.pins -= 1
            return state.pins == 0 && state.isForgotten ? state.descriptor.take() : nil
        }
        withExtendedLifetime(dropped) {}
    }

    /// Holds a descriptor until the kernel forgets the inode, before the last name is removed. Programs that have the file
    /// open may still ask for its attributes.
    func keepAsOrphan() throws(Errno) {
        // Set first, or the descriptor could be closed again before it is protected.
        state.withLock { $0.isOrphan = true }
        do throws(Errno) {
            _ = try descriptor()
        } catch {
            cancelOrphan()
            throw error
        }
    }

    /// Undoes ``keepAsOrphan()``: the last name was not removed.
    func cancelOrphan() { state.withLock { $0.isOrphan = false } }

    /// Closes the descriptor after the kernel forgot the inode. Current users hold it until they are done.
    func releaseAfterForget() {
        let dropped: SharedDescriptor? = state.withLock { state in
            (state.isOrphan, state.isForgotten) = (false, true)
            return state.pins == 0 ? state.descriptor.take() : nil
        }
        withExtendedLifetime(dropped) {}
        closeBackingIfUnused()
    }

    /// Makes the kernel ask for the attributes again.
    func invalidateAttributes() { connection.invalidateAttributes(of: id) }

    /// Closes the backing file once no open uses it. It would keep the file's blocks and possibly the node.
    func closeBackingIfUnused() {
        let backing: BackingID? = state.withLock { state in
            guard state.opens == 0, state.isForgotten || state.mayLoseBacking else { return nil }
            state.isBackingOutdated = false
            return state.backing.take()
        }
        if let backing { connection.closeBacking(backing) }
    }

    /// Marks the backing file as outdated after a change of owner. The kernel opens it again, as the new owner, after the
    /// last close.
    func noteOwnerChange() {
        state.withLock { state in
            state.ownerChanges &+= 1
            if state.backing != nil { state.isBackingOutdated = true }
        }
        closeBackingIfUnused()
    }

    /// Sets the name by which the file is known. One of several links does not change the item class, except that the file
    /// is no helper file then (``retainsName(insteadOf:in:)``).
    func setName(_ name: NameBytes, in parent: Node, isOneOfSeveral: Bool = false) {
        let known = isOneOfSeveral ? itemClass : nil
        let former: Node? = state.withLock { state in
            guard state.parent !== parent || state.name != name || !state.hasName else { return nil }
            if state.name != name || state.parent == nil { state.itemClass = known == .private ? nil : known }
            if isOneOfSeveral { state.noteFormerName(nowCalled: name, in: parent) }
            state.name = name
            state.hasName = true
            return state.parent.replace(with: parent)
        }
        withExtendedLifetime(former) {}
    }

    /// Adds another name of the file.
    func noteOtherName(_ name: NameBytes, in directory: Node) {
        state.withLock { state in
            guard !state.hasName || state.parent !== directory || state.name != name else { return }
            state.add(NodeName(name: name, directory: directory))
        }
    }

    /// Removes a name that is not the known one.
    func lostOtherName(_ name: NameBytes, in directory: Node) {
        let lost: [NodeName] = state.withLock { state in
            guard !state.otherNames.isEmpty else { return [] }
            let lost = state.otherNames.filter { $0.directory === directory && $0.name == name }
            state.otherNames.removeAll { $0.directory === directory && $0.name == name }
            return lost
        }
        withExtendedLifetime(lost) {}
    }

    /// After the known name is gone, another name becomes the known one, if there is any.
    func takeOtherName() {
        let former: Node? = state.withLock { state in
            guard !state.hasName, let other = state.otherNames.popLast() else { return nil }
            (state.name, state.hasName) = (other.name, true)
            return state.parent.replace(with: other.directory)
        }
        withExtendedLifetime(former) {}
    }

    /// Whether this is one of its names, as far as they are known.
    func has(_ name: NameBytes, in directory: Node) -> Bool {
        state.withLock { state in
            if state.hasName, state.parent === directory, state.name == name { return true }
            return state.otherNames.contains { $0.directory === directory && $0.name == name }
        }
    }

    /// All known names, the main one first.
    var names: [NodeName] {
        state.withLock { state in
            guard state.hasName, let parent = state.parent else { return state.otherNames }
            return [NodeName(name: state.name, directory: parent)] + state.otherNames
        }
    }

    var otherNames: [NodeName] { state.withLock { $0.otherNames } }

    /// Notes that its last known name is gone or belongs to another file.
    func clearName() { state.withLock { $0.hasName = false } }

    var hasName: Bool { state.withLock { $0.hasName } }
    var parent: Node? { state.withLock { $0.parent } }

    /// Whether it is known by this name.
    func isCalled(_ name: NameBytes, in directory: Node) -> Bool {
        state.withLock { $0.hasName && $0.parent === directory && $0.name == name }
    }

    /// Whether a file with several links keeps its known name when a lookup finds it under another one.
    ///
    /// A tracked document keeps the name under which a program follows it. Otherwise another link must not change the item
    /// class (D127): the link of a backup makes no helper file of a document, and no link makes a document of a log or a
    /// database.
    func retainsName(insteadOf name: NameBytes, in directory: Node) -> Bool {
        if state.withLock({ $0.isTracked }) || isCalled(name, in: directory) { return true }
        let (hasName, parent, own) = state.withLock { ($0.hasName, $0.parent, $0.name) }
        let known = itemClass
        guard hasName, let parent, known != .private, known != Self.itemClass(of: name, in: directory) else {
            return false
        }
        // The known name may have been removed out of band.
        do throws(Errno) { return FileKey(try parent.status(of: own)) == key } catch { return false }
    }

    /// Whether it lies below a directory, at any depth, or is that directory.
    func isBelow(_ directory: Node) -> Bool {
        var next: Node? = self
        while let node = next {
            if node === directory { return true }
            next = node.isRoot ? nil : node.parent
        }
        return false
    }

    /// Whether both were last seen under the same name.
    func hasName(of other: Node) -> Bool {
        let (parent, name) = state.withLock { ($0.parent, $0.name) }
        return other.state.withLock { $0.parent === parent && $0.name == name }
    }

    /// The present status of the file, or nil if it cannot be read.
    var presentStatus: FileStatus? {
        do throws(Errno) { return try descriptor().descriptor.status() } catch { return nil }
    }

    /// The class that follows from its name.
    var itemClass: ItemClass {
        if let known = state.withLock({ $0.itemClass }) { return known }
        let (name, parent) = state.withLock { ($0.name, $0.parent) }
        let found = Self.itemClass(of: name, in: parent)
        state.withLock { state in
            // It may have been renamed meanwhile.
            if state.name == name, state.parent === parent { state.itemClass = found }
        }
        return found
    }

    /// The class that follows from a name in a directory.
    static func itemClass(of name: NameBytes, in parent: Node?) -> ItemClass {
        ItemClass(of: name.bytes, in: isInGitDirectory(parent) ? .gitDirectory : .ordinary)
    }

    private static let gitDirectory = NameBytes(Array(".git".utf8))

    private static func isInGitDirectory(_ directory: Node?) -> Bool {
        var next = directory
        while let node = next, !node.isRoot {
            let (name, parent) = node.state.withLock { ($0.name, $0.parent) }
            if name == gitDirectory { return true }
            next = parent
        }
        return false
    }
}

/// One of several names of a file.
struct NodeName: Sendable {
    let name: NameBytes
    let directory: Node
}

extension Node.State {
    /// The most other names of a file that are remembered, and so reported when the file changes.
    private static let mostNames = 16

    fileprivate mutating func add(_ other: NodeName) {
        let isKnown = otherNames.contains { $0.directory === other.directory && $0.name == other.name }
        if !isKnown, otherNames.count < Self.mostNames { otherNames.append(other) }
    }

    fileprivate mutating func noteFormerName(nowCalled name: NameBytes, in directory: Node) {
        otherNames.removeAll { $0.directory === directory && $0.name == name }
        if hasName, let parent { add(NodeName(name: self.name, directory: parent)) }
    }
}

extension Node {
    /// Whether a directory is empty, so that it can be removed.
    var isEmptyDirectory: Bool {
        do throws(Errno) {
            let opened = try descriptor().descriptor.reopen(flags: O_RDONLY | O_DIRECTORY)
            var stream = try DirectoryStream(reading: opened)
            var isEmpty = true
            try stream.forEach(from: 0) { name, _, _, _ in
                isEmpty = name.isSelfOrParent
                return isEmpty
            }
            return isEmpty
        } catch {
            // The removal itself will report the error.
            return false
        }
    }
}

extension Optional where Wrapped: AnyObject {
    /// Replaces the value and returns the former one, so that the caller decides where it is released.
    fileprivate mutating func replace(with value: Wrapped) -> Wrapped? {
        let former = self
        self = value
        return former
    }
}
