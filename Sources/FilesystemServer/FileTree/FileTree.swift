// SPDX-License-Identifier: Apache-2.0
import FuseBridge
import LinuxSystem

/// The files of the source that the kernel has looked up, with their places, and the handles that are open on them.
final class FileTree: Sendable {
    let nodes: NodeTable
    let handles = HandleTable()
    let places: PlaceRegistry
    let memoryTrimmer: MemoryTrimmer

    /// Creates the tree. The `observer` is called when the kernel gets to know or forgets a directory. It is nil if the
    /// source is not watched.
    init(
        of root: consuming OwnedDescriptor, _ context: MountContext, budget: DescriptorBudget,
        observer: (any NodeObserver)?
    ) throws(Errno) {
        let forgottenDirectories = ForgottenDirectories()
        let nodeContext = Node.Context(
            budget: budget, connection: context.connection, forgottenDirectories: forgottenDirectories,
            submounts: context.submounts, source: try root.filesystemStatus(), threads: context.threads,
            policies: context.policies)
        let node = Node(.root, try root.status(), parent: nil, name: NameBytes([]), context: nodeContext)
        _ = node.cache(SharedDescriptor(root, of: budget))
        _ = try node.pin()
        nodes = NodeTable(root: node, context: nodeContext, observer: observer)
        memoryTrimmer = MemoryTrimmer(of: nodes, engine: context.engine)
        places = PlaceRegistry(engine: context.engine, forgottenDirectories: forgottenDirectories)
    }

    /// The names on the path from the source's root to an open file. Nil if the file is not in the source, or is in `.truce`.
    func names(of opened: borrowing OwnedDescriptor) throws(Errno) -> [NameBytes]? {
        let source = try nodes.root.descriptor().descriptor.currentPath()
        let path = try opened.currentPath()
        guard path.isPath(atOrBelow: source) else { return nil }
        let names = path.dropFirst(source.count).split(separator: UInt8(ascii: "/"))
        guard names.first.map({ !$0.elementsEqual(".truce".utf8) }) ?? true else { return nil }
        return names.map { NameBytes(Array($0)) }
    }

    /// Corrects the known name of a node that was found under another name. Either the file was moved out of band, or it has
    /// several names.
    func correctName(of node: Node, to name: NameBytes, in directory: Node, _ status: FileStatus) {
        let isAnotherLink =
            status.linkCount > 1 && !status.isDirectory && !node.isTracked
        if isAnotherLink { return node.setName(name, in: directory, isOneOfSeveral: true) }
        do throws(Errno) {
            // If the node still has a descriptor after an out-of-band move, the file is found without a name, and the name need
            // not change. This works even if the daemon cannot open files by file handles.
            _ = try node.descriptor()
        } catch {
            nodes.observer?.noteFormerName(of: node, ifOther: name, in: directory)
            node.setName(name, in: directory)
        }
    }
}

extension Node {
    /// Makes sure that a file can still be reached after its last name is removed. Does nothing if the status shows that the
    /// file has another name.
    func keepAsOrphan(ifLastNameOf status: FileStatus) throws(Errno) {
        guard status.isDirectory || status.linkCount <= 1 else { return }
        try keepAsOrphan()
    }

    func status(of name: NameBytes) throws(Errno) -> FileStatus {
        let directory = try descriptor()
        return try name.withName { (name) throws(Errno) in try directory.descriptor.status(of: name) }
    }

    /// The status of the file with a name. If a file system is mounted at this name, the call does not wait for that file
    /// system. If the source itself is on a network, the call may wait.
    func cachedStatus(of name: NameBytes) throws(Errno) -> FileStatus {
        guard isMachineLocal else { return try status(of: name) }
        let directory = try descriptor()
        return try name.withName { (name) throws(Errno) in try directory.descriptor.cachedStatus(of: name) }
    }

    /// The path from the source's root to this name in the directory.
    func path(of name: NameBytes) -> [UInt8] {
        isRoot ? name.bytes : path + [UInt8(ascii: "/")] + name.bytes
    }
}
