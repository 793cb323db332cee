// SPDX-License-Identifier: Apache-2.0
import FuseBridge
import LinuxSystem

/// The files of the source that the kernel knows, with their places and their open handles.
final class FileTree: Sendable {
    let nodes: NodeTable
    let handles = HandleTable()
    let places: PlaceRegistry
    let memoryTrimmer: MemoryTrimmer

    /// `observer` is told of each directory; nil if the source is not watched.
    init(
        of root: consuming OwnedDescriptor, _ context: MountContext, budget: DescriptorBudget,
        observer: (any NodeObserver)?
    ) throws(Errno) {
        let forgottenDirectories = ForgottenDirectories()
        let nodeContext = Node.Context(
            budget: budget, connection: context.connection, forgottenDirectories: forgottenDirectories,
            submounts: context.submounts, source: try root.filesystemStatus(), threads: context.threads)
        let node = Node(.root, try root.status(), parent: nil, name: NameBytes([]), context: nodeContext)
        _ = node.cache(SharedDescriptor(root, of: budget))
        _ = try node.pin()
        nodes = NodeTable(root: node, context: nodeContext, observer: observer)
        memoryTrimmer = MemoryTrimmer(of: nodes, engine: context.engine)
        places = PlaceRegistry(engine: context.engine, forgottenDirectories: forgottenDirectories)
    }

    /// The names from the source's root to an open file; nil if it is elsewhere, or in the daemon's own directory.
    func names(of opened: borrowing OwnedDescriptor) throws(Errno) -> [NameBytes]? {
        let source = try nodes.root.descriptor().descriptor.currentPath()
        let path = try opened.currentPath()
        guard path.isPath(atOrBelow: source) else { return nil }
        let names = path.dropFirst(source.count).split(separator: UInt8(ascii: "/"))
        guard names.first.map({ !$0.elementsEqual(".truce".utf8) }) ?? true else { return nil }
        return names.map { NameBytes(Array($0)) }
    }

    /// Corrects the name of a node that was moved out of band, or that is known by another of its names.
    func correctName(of node: Node, to name: NameBytes, in directory: Node, _ status: FileStatus) {
        let isAnotherLink =
            status.linkCount > 1 && !status.isDirectory && !node.isTracked
        if isAnotherLink { return node.setName(name, in: directory, isOneOfSeveral: true) }
        do throws(Errno) {
            // The cached descriptor finds the document after an out-of-band move, even if files cannot be opened by
            // handles.
            _ = try node.descriptor()
        } catch {
            nodes.observer?.noteFormerName(of: node, ifOther: name, in: directory)
            node.setName(name, in: directory)
        }
    }
}

extension Node {
    /// Holds a route to a file that is about to lose its last name.
    func keepAsOrphan(ifLastNameOf status: FileStatus) throws(Errno) {
        guard status.isDirectory || status.linkCount <= 1 else { return }
        try keepAsOrphan()
    }

    func status(of name: NameBytes) throws(Errno) -> FileStatus {
        let directory = try descriptor()
        return try name.withName { (name) throws(Errno) in try directory.descriptor.status(of: name) }
    }

    /// The same without waiting for a file system that may have been mounted there since. A distant source is asked all
    /// the same.
    func cachedStatus(of name: NameBytes) throws(Errno) -> FileStatus {
        guard isMachineLocal else { return try status(of: name) }
        let directory = try descriptor()
        return try name.withName { (name) throws(Errno) in try directory.descriptor.cachedStatus(of: name) }
    }

    /// The path of a name in this directory.
    func path(of name: NameBytes) -> [UInt8] {
        isRoot ? name.bytes : path + [UInt8(ascii: "/")] + name.bytes
    }
}
