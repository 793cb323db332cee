// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge
import History
import LinuxSystem
import VersionStore

/// A directory that programs see through the mount, and in which they take turns.
///
/// This object makes the services, and hands each kernel request to the service that carries it out. The services are
/// listed from the lowest to the highest: a service refers only to services that are listed before it.
final class CoordinatedFilesystem: Filesystem {
    // These services know the files and directories of the source that the kernel has looked up.
    let context: MountContext
    let tree: FileTree
    let sourceWatch: SourceWatch
    // These services move the data of open files, and show the files' attributes.
    let data: DataPlane
    let shownAttributes: ShownAttributes
    // These services preserve the contents of files before a request would destroy them.
    let preserver: ContentPreserver
    let cleanWriters: CleanWriters
    let closePreserver: ClosePreserver
    let conflictCopies: ConflictCopies
    let unseenOverwrites: UnseenOverwrites
    let writeHistory: WriteHistory
    let merger: SaveMerger
    // These services follow documents, even when a save gives a document another file.
    let saves: SaveTracker
    let events: DocumentEvents
    let identity: DocumentIdentity
    let saveLifecycle: SaveLifecycle
    let finder: DocumentFinder
    // This service parks requests that must wait, and handles retries.
    let coordinator: RetryCoordinator
    // These services detect changes to the source that do not go through the mount.
    let rightsWatcher: RightsWatcher?
    let outOfBand: OutOfBandMonitor
    // These services carry out the kernel's requests.
    let attributeReplies: AttributeReplies
    let unsavedStats: UnsavedStats
    let closer: HandleCloser
    let lockPoller: LockPoller
    let opens: Open
    let directories: DirectoryService
    let lookups: Lookup
    let nameRequests: NameRequests
    let creations: Create
    let nodeMaker: MakeNode
    let removals: Remove
    let renames: Rename
    let attributeChanges: SetAttributes
    let extendedAttributes: ExtendedAttributes
    let readWrite: ReadWrite

    /// Makes all services of a mount.
    ///
    /// `root` is the source. It was opened before the mount was made, because the mount may cover it.
    init(
        mirroring root: consuming OwnedDescriptor, engine: Engine, connection: Connection,
        configuration: MountConfiguration, of mount: MountEntry, descriptorLimit: Int, store: VersionStore?,
        history: HistoryLog?, agreement: @escaping @Sendable () -> ConnectionFeatures
    ) throws(Errno) {
        context = try MountContext(
            of: root, engine: engine, connection: connection, configuration: configuration, at: mount,
            store: store, history: history, agreement: agreement)
        let access = SourceAccess(of: root, configuration, engine, descriptorLimit: descriptorLimit)
        (rightsWatcher, sourceWatch) = (access.rightsWatcher, SourceWatch(access.watcher, engine))
        tree = try FileTree(of: root, context, budget: access.budget, observer: access.watcher)
        (preserver, saves) = (ContentPreserver(context), SaveTracker(knowing: context.processes.programs))
        (data, shownAttributes) = (DataPlane(context, tree, sourceWatch), ShownAttributes(context, tree))
        cleanWriters = CleanWriters(context, tree, preserver)
        (conflictCopies, unseenOverwrites) = (ConflictCopies(context, tree), UnseenOverwrites(context, tree))
        let sightings = unseenOverwrites.sightings
        closePreserver = ClosePreserver(context, tree, preserver, cleanWriters, sightings)
        writeHistory = WriteHistory(context, tree, sightings)
        merger = SaveMerger(context, tree, sourceWatch, preserver, unseenOverwrites)
        events = DocumentEvents(context, tree, saves)
        identity = DocumentIdentity(context, tree, sourceWatch, data, saves, events)
        saveLifecycle = SaveLifecycle(context, tree, preserver, saves, cleanWriters, events, identity)
        finder = DocumentFinder(context, tree, sightings, saves, events, identity)
        coordinator = RetryCoordinator(
            context, tree, sourceWatch, shownAttributes, saves, identity, saveLifecycle)
        outOfBand = OutOfBandMonitor(context, tree, sourceWatch, conflictCopies, sightings, events, identity)
        attributeReplies = AttributeReplies(context, shownAttributes, saves, rightsWatcher, coordinator)
        unsavedStats = UnsavedStats(context, tree, shownAttributes, coordinator, attributeReplies)
        closer = HandleCloser(
            context, tree, sourceWatch, data, preserver, saves, cleanWriters, closePreserver, conflictCopies,
            unseenOverwrites, merger, events, saveLifecycle)
        lockPoller = LockPoller(context, tree, data, coordinator)
        let openClaims = OpenClaims(context, tree, data, unsavedStats, closer)
        let opener = HandleOpener(
            context, unseenOverwrites, data, preserver, closePreserver, events, identity, coordinator, closer)
        let arrivals = OpenArrivals(context, tree, saveLifecycle, coordinator)
        let preservation = OpenPreservation(
            context, preserver, cleanWriters, unseenOverwrites, unsavedStats, writeHistory)
        opens = Open(context, coordinator, lockPoller, arrivals, openClaims, preservation, opener)
        directories = DirectoryService(
            context, tree, shownAttributes, saves, events, identity, saveLifecycle, coordinator,
            attributeReplies)
        lookups = Lookup(
            context, tree, sourceWatch, shownAttributes, preserver, saves, events, identity, coordinator,
            attributeReplies, unsavedStats)
        nameRequests = try NameRequests(
            context, tree, preserver, unseenOverwrites, merger, events, coordinator, unsavedStats,
            writeHistory)
        creations = Create(
            context, tree, sourceWatch, unseenOverwrites, events, saveLifecycle, coordinator,
            attributeReplies, closer, openClaims, opener, nameRequests)
        nodeMaker = MakeNode(
            context, tree, sourceWatch, cleanWriters, events, identity, saveLifecycle, coordinator,
            attributeReplies, lookups, nameRequests)
        removals = Remove(
            context, tree, sourceWatch, saves, cleanWriters, conflictCopies, events, identity, saveLifecycle,
            coordinator, closer, nameRequests)
        let renameClaims = RenameClaims(context, tree, saves, saveLifecycle, coordinator, nameRequests)
        let renameEffects = RenameEffects(
            context, tree, sourceWatch, saves, cleanWriters, conflictCopies, merger, events,
            identity, saveLifecycle, closer)
        renames = Rename(context, tree, renameClaims, renameEffects, nameRequests)
        attributeChanges = SetAttributes(
            context, tree, sourceWatch, data, shownAttributes, preserver, cleanWriters, unseenOverwrites,
            events, saveLifecycle, coordinator, attributeReplies, unsavedStats, writeHistory, closer)
        extendedAttributes = ExtendedAttributes(
            context, tree, unseenOverwrites, sourceWatch, data, events, coordinator, attributeChanges)
        readWrite = ReadWrite(context, tree, data, preserver, closePreserver, unseenOverwrites, saveLifecycle)
        connect(access.budget)
    }

    /// Gives the lower services closures that call higher services.
    ///
    /// The closures and the services refer to each other, so they would never be freed. `deinit` removes the closures.
    /// If a closure is still running at that time, its services are freed only after it returns.
    private func connect(_ budget: DescriptorBudget) {
        saves.onNameResolved { [coordinator] name, directory in
            coordinator.completeLookupWaits(for: name, in: directory)
        }
        saves.onProgress { [directories] directory in directories.resumeListings(directory) }
        budget.findOwners {
            [nodes = tree.nodes, handles = tree.handles, listings = directories.listings] keeper in
            switch keeper {
            case .node(let id): nodes[id]
            case .file(let id): handles[id]
            case .listing(let id): listings[id]
            }
        }
    }

    deinit {
        saves.endSubscriptions()
        tree.nodes.root.budget.findOwners { _ in nil }
    }

    func interrupted(_ token: UInt) { coordinator.parkedRequests.interrupted(token) }

    func noteSlowRequest(_ nanoseconds: UInt64) {
        let milliseconds = nanoseconds / 1_000_000
        context.engine.log(
            "the file system below took \(milliseconds) ms for a request; other requests waited for it")
    }

    func lookUp(_ name: borrowing FileName, in parent: NodeID, reply: consuming Reply) {
        lookups.lookUp(name, in: parent, reply: reply)
    }
    func forget(_ node: NodeID, lookups count: UInt64) { lookups.forget(node, lookups: count) }
    func attributes(of id: NodeID, hasHandle: Bool, reply: consuming Reply) {
        lookups.attributes(of: id, hasHandle: hasHandle, reply: reply)
    }
    func readLink(_ id: NodeID, reply: consuming Reply) { lookups.readLink(id, reply: reply) }
    func checkAccess(to id: NodeID, mask: Int32, reply: consuming Reply) {
        lookups.checkAccess(to: id, mask: mask, reply: reply)
    }
    func statistics(of id: NodeID, reply: consuming Reply) { lookups.statistics(of: id, reply: reply) }

    func setAttributes(
        of id: NodeID, to change: AttributeChange, handle: HandleID?, reply: consuming Reply
    ) {
        attributeChanges.setAttributes(of: id, to: change, handle: handle, reply: reply)
    }

    func extendedAttribute(
        _ name: UnsafePointer<CChar>, of id: NodeID, capacity: Int, reply: consuming Reply
    ) {
        extendedAttributes.extendedAttribute(name, of: id, capacity: capacity, reply: reply)
    }
    func extendedAttributeNames(of id: NodeID, capacity: Int, reply: consuming Reply) {
        extendedAttributes.extendedAttributeNames(of: id, capacity: capacity, reply: reply)
    }
    func setExtendedAttribute(
        _ name: UnsafePointer<CChar>, of id: NodeID, to value: UnsafeRawBufferPointer, flags: Int32,
        reply: consuming Reply
    ) {
        extendedAttributes.setExtendedAttribute(name, of: id, to: value, flags: flags, reply: reply)
    }
    func removeExtendedAttribute(_ name: UnsafePointer<CChar>, of id: NodeID, reply: consuming Reply) {
        extendedAttributes.removeExtendedAttribute(name, of: id, reply: reply)
    }

    func openDirectory(_ id: NodeID, reply: consuming Reply) { directories.openDirectory(id, reply: reply) }
    func readDirectory(
        _ id: NodeID, handle: HandleID, from offset: Int, into page: consuming DirectoryPage
    ) {
        directories.readDirectory(id, handle: handle, from: offset, into: page)
    }
    func closeDirectory(_ handle: HandleID, reply: consuming Reply) {
        directories.closeDirectory(handle, reply: reply)
    }
    func synchronizeDirectory(_ id: NodeID, dataOnly: Bool, reply: consuming Reply) {
        directories.synchronizeDirectory(id, dataOnly: dataOnly, reply: reply)
    }

    func open(_ id: NodeID, flags: Int32, reply: consuming Reply) {
        opens.open(id, flags: flags, reply: reply)
    }
    func release(_ id: NodeID, handle: HandleID, reply: consuming Reply) {
        closer.release(id, handle: handle, reply: reply)
    }

    func create(
        _ name: borrowing FileName, in parent: NodeID, mode: UInt32, flags: Int32, reply: consuming Reply
    ) {
        creations.create(name, in: parent, mode: mode, flags: flags, reply: reply)
    }

    func makeNode(
        _ name: borrowing FileName, in parent: NodeID, mode: UInt32, device: UInt64, reply: consuming Reply
    ) {
        nodeMaker.makeNode(name, in: parent, mode: mode, device: device, reply: reply)
    }
    func makeDirectory(_ name: borrowing FileName, in parent: NodeID, mode: UInt32, reply: consuming Reply) {
        nodeMaker.makeDirectory(name, in: parent, mode: mode, reply: reply)
    }
    func makeSymbolicLink(
        _ name: borrowing FileName, in parent: NodeID, to target: UnsafePointer<CChar>,
        reply: consuming Reply
    ) {
        nodeMaker.makeSymbolicLink(name, in: parent, to: target, reply: reply)
    }
    func link(_ id: NodeID, as name: borrowing FileName, in parent: NodeID, reply: consuming Reply) {
        nodeMaker.link(id, as: name, in: parent, reply: reply)
    }

    func remove(
        _ name: borrowing FileName, in parent: NodeID, isDirectory: Bool, reply: consuming Reply
    ) {
        removals.remove(name, in: parent, isDirectory: isDirectory, reply: reply)
    }

    func rename(
        _ name: borrowing FileName, in parent: NodeID, to newName: borrowing FileName,
        in newParent: NodeID, flags: UInt32, reply: consuming Reply
    ) {
        renames.rename(name, in: parent, to: newName, in: newParent, flags: flags, reply: reply)
    }

    func read(_ range: FileRange, reply: consuming Reply) { readWrite.read(range, reply: reply) }
    func write(_ bytes: UnsafeRawBufferPointer, to range: FileRange, reply: consuming Reply) {
        readWrite.write(bytes, to: range, reply: reply)
    }
    func synchronize(_ id: NodeID, handle: HandleID, dataOnly: Bool, reply: consuming Reply) {
        readWrite.synchronize(id, handle: handle, dataOnly: dataOnly, reply: reply)
    }
    func flush(_ handle: HandleID, reply: consuming Reply) { readWrite.flush(handle, reply: reply) }
    func allocate(_ range: FileRange, mode: Int32, reply: consuming Reply) {
        readWrite.allocate(range, mode: mode, reply: reply)
    }
    func copy(_ range: FileRange, to target: FileRange, reply: consuming Reply) {
        readWrite.copy(range, to: target, reply: reply)
    }
    func seek(_ id: NodeID, handle: HandleID, offset: Int64, whence: Int32, reply: consuming Reply) {
        readWrite.seek(id, handle: handle, offset: offset, whence: whence, reply: reply)
    }
}

/// The objects by which the daemon reaches the files of the source and notices their changes. They are made once for a mount.
private struct SourceAccess {
    let budget: DescriptorBudget
    /// Nil for an in-place mount, which covers its source.
    let watcher: SourceWatcher?
    /// Nil unless several users have access, as in an in-place mount with `allow_other`.
    let rightsWatcher: RightsWatcher?

    init(
        of root: borrowing OwnedDescriptor, _ configuration: MountConfiguration, _ engine: Engine,
        descriptorLimit: Int
    ) {
        let handles = FileHandleResolver(below: root)
        let isShared = configuration.isInPlace && configuration.allowOther && handles != nil
        budget = DescriptorBudget(limit: descriptorLimit, handles: handles)
        watcher =
            configuration.isInPlace
            ? nil : SourceWatcher(of: root, hasHandles: handles != nil, log: { engine.log($0) })
        rightsWatcher = isShared ? RightsWatcher(of: root) : nil
    }
}
