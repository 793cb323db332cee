// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// What the file system below calls a file. The time of birth tells a reused inode number from its
/// former owner; ext4 hands numbers out again at once. Through another mount a file is another one, which may be
/// read-only, and a directory has other parents.
struct FileKey: Hashable, Sendable {
    let device: UInt64
    let inode: UInt64
    let mount: UInt64
    /// Last, because it ends in the middle of a word: what follows the key in a node fills that.
    let born: FileStatus.Time

    init(_ status: FileStatus) {
        device = status.device
        inode = status.inode
        mount = status.mount
        born = status.born
    }
}

/// Who moves a file's data.
enum DataRoute: Sendable {
    /// The kernel, straight to the file below.
    case backing(BackingID)
    /// This process.
    case daemon
}

/// One file of the mirrored tree, while the kernel knows it.
///
/// Reached by parent and name, and by a descriptor as long as the budget allows; the parent is kept alive
/// by its children. **Lock rule.** The mutex covers the state; no system call is made under it, and no
/// other node's mutex is taken under it.
final class Node: DescriptorOwner {
    /// In an order that leaves few gaps: there may be millions.
    struct State {
        var parent: Node?
        var name: NameBytes
        /// The document this file is; moves on when another file takes its place in a safe save.
        var item: ItemID
        var descriptor: SharedDescriptor?
        /// Finds the file without a name; known once the descriptor of a file in use had to go.
        var fileHandle: PersistentFileHandle?
        /// The number by which the engine knows the directory, once it does.
        var registeredItem: ItemID?
        /// Links of the store to the file.
        var linkedVersions: [LinkedVersion] = []
        /// What was kept of it since it has suspended writers.
        var besides = SuspendedWriterVersions()
        /// Users that must reach the file whatever happens to its name, which are open handles.
        var pins: Int32 = 0
        var opens: Int32 = 0
        /// Open handles through which shared mappings may change the file without anybody being told.
        var mappers: Int32 = 0
        /// How often it may have become a package, or ceased to be one.
        var packageChanges: UInt32 = 0
        /// Kept until the kernel forgets the inode, or nobody has the file open and ``mayLoseBacking``.
        var backing: BackingID?
        /// It was opened as another user than the file's owner is now: by the daemon, or before the file was given away.
        var isBackingOutdated = false
        /// How often the file was given to somebody, as far as the mount was asked.
        var ownerChanges: UInt32 = 0
        /// In force while `opens` is not 0: the kernel refuses handles of one inode in two modes.
        var dataRoute: DataRoute?
        /// How often a file of the directory was opened since it was last listed with their attributes, if not more often.
        var opensBelow: UInt16 = 0
        var hasName = true
        /// Somebody follows the document under the name it is known by, whatever other names it has.
        var isTracked = false
        /// Its last name is gone: without the descriptor nothing may lead to it.
        var isOrphan = false
        /// The kernel knows it no longer.
        var isForgotten = false
        /// Whether data may bypass us at all; nil until it was looked at.
        var mayBypass: Bool?
        var itemClass: ItemClass?
        /// Of a directory: when one of its names was last lost.
        var staleness = Staleness()
        /// Names that it has besides the one that it is known by, as far as the kernel has asked for them.
        var otherNames: [NodeName] = []

        init(parent: Node?, name: NameBytes, item: ItemID) {
            self.parent = parent
            self.name = name
            self.item = item
        }

        /// What whoever opens the file may be let in by: not what was opened as somebody else, unless others have it open so.
        var usableBacking: BackingID? { isBackingOutdated && opens == 0 ? nil : backing }

        /// Whether nobody is expected to open the file as it is backed, nor is led to it by that: as one is to a file without a
        /// name whose descriptor had to go.
        var mayLoseBacking: Bool { isOrphan ? descriptor != nil : isBackingOutdated }
    }

    /// What all nodes of a mount share.
    final class Context: Sendable {
        let budget: DescriptorBudget
        let connection: Connection
        let forgottenDirectories: ForgottenDirectories
        let submounts: Submounts
        /// Whether a file's times move by what is stored to a mapping of it.
        let timesShowStores: Bool
        /// Whether the source's file system answers by itself.
        let isLocal: Bool
        let threads: WorkerPools
        let renames = ActiveRenames()

        init(
            budget: DescriptorBudget, connection: Connection, forgottenDirectories: ForgottenDirectories,
            submounts: Submounts, source: FilesystemStatus, threads: WorkerPools
        ) {
            self.budget = budget
            self.connection = connection
            self.forgottenDirectories = forgottenDirectories
            self.submounts = submounts
            timesShowStores = FileTimes.detectMappedStores(on: source)
            isLocal = source.isLocal
            self.threads = threads
        }
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
    /// Whether a file's times move by what is stored to a mapping of it; no if that cannot be known.
    var timesShowStores: Bool {
        guard isOnSubmount else { return context.timesShowStores }
        do throws(Errno) {
            return FileTimes.detectMappedStores(on: try descriptor().descriptor.filesystemStatus())
        } catch {
            return false
        }
    }
    /// Whether its file system may wait for a network or another process: it is not one of those that are known not to, or not
    /// the source's.
    var isDistant: Bool { !context.isLocal || isOnSubmount }
    /// Whether it was reached by another mount than the source.
    var isOnSubmount: Bool { context.submounts.isOnSubmount(key.mount) }
    /// Whether nobody but programs of this machine changes it, as far as its file system goes.
    var isMachineLocal: Bool { context.submounts.isMachineLocal(key.mount) }
    func threads(for purpose: WorkerPools.WorkKind) -> LazyWorkerPool {
        context.threads.of(key.mount, for: purpose)
    }
    /// The inode number that programs see.
    var number: UInt64 { context.submounts.number(ofInode: key.inode, on: key.device) }

    // The last FORGET comes after the last RELEASE: no open uses the backing file any more.
    deinit {
        let (backing, registeredItem) = state.withLock { ($0.backing, $0.registeredItem) }
        if let backing { connection.closeBacking(backing) }
        if let registeredItem { context.forgottenDirectories.add(registeredItem) }
        // Each that only this one kept, without recursion.
        var parent = state.withLock { $0.parent.take() }
        while isKnownUniquelyReferenced(&parent) {
            parent = parent?.state.withLock { $0.parent.take() }
        }
    }

    var item: ItemID { state.withLock { $0.item } }
    var isRoot: Bool { id == .root }
    /// The kernel wants 0 of the root.
    var generation: UInt32 { isRoot ? 0 : NodeIDEncoding.generation(born: key.born) }

    /// The names from the source's root down to here.
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

    /// Gives the descriptor for as long as the caller keeps it.
    ///
    /// Throws ESTALE if what is found under the node's name is another file by now.
    func descriptor() throws(Errno) -> SharedDescriptor {
        if let cached = state.withLock({ $0.descriptor }) { return cached }
        var stale: Node?
        do throws(Errno) {
            return try findDescriptor(unless: &stale)
        } catch {
            // A rename may have come between reading the name and opening it; a second look sees the new one.
            guard error == .noEntry || error == .stale else { throw error }
            return try findDescriptorAfterRenames()
        }
    }

    /// Looks again until no rename through the mount is under way: the file below has its new name before its node has.
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
    /// A name of the directory was lost.
    func noteStaleBelow() { state.withLock { $0.staleness.note(at: MonotonicClock.nanoseconds) } }
    /// Whether a name of the directory was lost a moment ago.
    var isStaleBelow: Bool { state.withLock { $0.staleness.isRecent(at: MonotonicClock.nanoseconds) } }

    /// Opens what is closed on the way to it, from above and without recursion: how deep a tree is is its owner's choice.
    ///
    /// If it fails, `stale` is the directory in which a name leads to this no more.
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
        // The open that this is for, most likely, need not look once more.
        if let mayBypass = status.mayBypass { state.withLock { $0.mayBypass = $0.mayBypass ?? mayBypass } }
        return cache(SharedDescriptor(opened, of: budget))
    }

    /// Keeps a descriptor, unless another thread was faster.
    func cache(_ descriptor: SharedDescriptor) -> SharedDescriptor {
        let (kept, isNew) = state.withLock { state in
            if let cached = state.descriptor { return (cached, false) }
            // Nobody would find it in order to let the descriptor go.
            if state.isForgotten, state.pins == 0 { return (descriptor, false) }
            state.descriptor = descriptor
            return (descriptor, true)
        }
        if isNew { budget.cached(.node(id)) }
        return kept
    }

    var hasDescriptor: Bool { state.withLock { $0.descriptor != nil } }

    /// Makes sure that the file is reached until ``unpin()``, and opens its descriptor.
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

    /// Keeps a descriptor until the kernel forgets the inode: its last name is about to go, and whoever
    /// has it open may still ask for its attributes.
    func keepAsOrphan() throws(Errno) {
        // First, or the descriptor could go again before it has to stay.
        state.withLock { $0.isOrphan = true }
        do throws(Errno) {
            _ = try descriptor()
        } catch {
            cancelOrphan()
            throw error
        }
    }

    /// Its last name did not go after all.
    func cancelOrphan() { state.withLock { $0.isOrphan = false } }

    /// The kernel forgot the inode; whoever still works on it keeps the descriptor until then.
    func releaseAfterForget() {
        let dropped: SharedDescriptor? = state.withLock { state in
            (state.isOrphan, state.isForgotten) = (false, true)
            return state.pins == 0 ? state.descriptor.take() : nil
        }
        withExtendedLifetime(dropped) {}
        closeBackingIfUnused()
    }

    /// The kernel asks for the attributes anew.
    func invalidateAttributes() { connection.invalidateAttributes(of: id) }

    /// A backing file keeps its blocks, and the journal may keep the node: it goes as soon as nobody uses it.
    func closeBackingIfUnused() {
        let backing: BackingID? = state.withLock { state in
            guard state.opens == 0, state.isForgotten || state.mayLoseBacking else { return nil }
            state.isBackingOutdated = false
            return state.backing.take()
        }
        if let backing { connection.closeBacking(backing) }
    }

    /// The file has another owner, as whom the kernel is to write: it opens the file again when nobody has it open.
    func noteOwnerChange() {
        state.withLock { state in
            state.ownerChanges &+= 1
            if state.backing != nil { state.isBackingOutdated = true }
        }
        closeBackingIfUnused()
    }

    /// What the file is called has changed, or was learned anew. One of several links says nothing about what it is, but that it
    /// is no helper file (``retainsName(insteadOf:in:)``).
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

    /// It has this name, too.
    func noteOtherName(_ name: NameBytes, in directory: Node) {
        state.withLock { state in
            guard !state.hasName || state.parent !== directory || state.name != name else { return }
            state.add(NodeName(name: name, directory: directory))
        }
    }

    /// It has lost a name that it was not known by.
    func lostOtherName(_ name: NameBytes, in directory: Node) {
        let lost: [NodeName] = state.withLock { state in
            guard !state.otherNames.isEmpty else { return [] }
            let lost = state.otherNames.filter { $0.directory === directory && $0.name == name }
            state.otherNames.removeAll { $0.directory === directory && $0.name == name }
            return lost
        }
        withExtendedLifetime(lost) {}
    }

    /// The name that it was known by is gone: if it has another one, it is known by that from now on.
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

    /// All its names that are known, the one that it is known by first.
    var names: [NodeName] {
        state.withLock { state in
            guard state.hasName, let parent = state.parent else { return state.otherNames }
            return [NodeName(name: state.name, directory: parent)] + state.otherNames
        }
    }

    var otherNames: [NodeName] { state.withLock { $0.otherNames } }

    /// Its last known name now belongs to nobody, or to another file.
    func clearName() { state.withLock { $0.hasName = false } }

    var hasName: Bool { state.withLock { $0.hasName } }
    var parent: Node? { state.withLock { $0.parent } }

    /// Whether it is known by this name.
    func isCalled(_ name: NameBytes, in directory: Node) -> Bool {
        state.withLock { $0.hasName && $0.parent === directory && $0.name == name }
    }

    /// Whether a file of several links that was found under another one is called what it was. A document is, by the name that
    /// somebody follows it by; and what it is does not change because it has one more name: a backup's makes no helper file of a
    /// document, about which nobody takes turns, and none makes a document of a log or a database (D127).
    func retainsName(insteadOf name: NameBytes, in directory: Node) -> Bool {
        if state.withLock({ $0.isTracked }) || isCalled(name, in: directory) { return true }
        let (hasName, parent, own) = state.withLock { ($0.hasName, $0.parent, $0.name) }
        let known = itemClass
        guard hasName, let parent, known != .private, known != Self.itemClass(of: name, in: directory) else {
            return false
        }
        // It may have been taken away around the mount.
        do throws(Errno) { return FileKey(try parent.status(of: own)) == key } catch { return false }
    }

    /// Whether it lies below a directory, at any depth, or is it.
    func isBelow(_ directory: Node) -> Bool {
        var next: Node? = self
        while let node = next {
            if node === directory { return true }
            next = node.isRoot ? nil : node.parent
        }
        return false
    }

    /// Whether both were last seen under one name.
    func hasName(of other: Node) -> Bool {
        let (parent, name) = state.withLock { ($0.parent, $0.name) }
        return other.state.withLock { $0.parent === parent && $0.name == name }
    }

    /// What its file looks like, if that can be known.
    var presentStatus: FileStatus? {
        do throws(Errno) { return try descriptor().descriptor.status() } catch { return nil }
    }

    /// The class its name gives it.
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

    /// The class that a name in a directory gives.
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
    /// So many names of one file are told of when the file is changed.
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
    /// Whether a directory has nothing in it that would keep it from being removed.
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
            // Whoever removes it finds out.
            return false
        }
    }
}

extension Optional where Wrapped: AnyObject {
    /// Puts a value in and takes the former out, so that it is released where the caller wants it to be.
    fileprivate mutating func replace(with value: Wrapped) -> Wrapped? {
        let former = self
        self = value
        return former
    }
}
