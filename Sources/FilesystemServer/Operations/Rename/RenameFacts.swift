// SPDX-License-Identifier: Apache-2.0
import Coordination
import LinuxSystem

/// The names of a rename, with their nodes and status.
///
/// This is a class, because a struct of this size would be copied at each call.
final class RenameFacts: NameFacts {
    let from: NameChange
    let to: NameChange
    let flags: UInt32
    let status: FileStatus
    let node: Node
    /// The nodes that the kernel does not know. They are held until the end of the rename.
    let visits: [RetainedNode]
    let targetStatus: FileStatus?
    let target: Node?
    /// Whether the renamed file is a document, and presenters know it by another name than the one that is renamed.
    let isOfOtherLink: Bool
    /// Whether the target is a document, and presenters know it by another name than the one that is replaced.
    let isOverOtherLink: Bool

    /// Reads the status of both names, and finds their nodes.
    init(_ from: NameChange, _ to: NameChange, flags: UInt32, in nodes: NodeTable) throws(Errno) {
        let status = try from.directory.status(of: from.name)
        let targetStatus: FileStatus?
        do throws(Errno) {
            targetStatus = try to.directory.status(of: to.name)
        } catch {
            guard error == .noEntry else { throw error }
            targetStatus = nil
        }
        var visits: [RetainedNode] = []
        let node = Self.node(of: status, called: from, in: nodes, visiting: &visits)
        var target = targetStatus.flatMap { nodes[FileKey($0)] }
        if target == nil, flags & RenameFlags.exchange != 0, let targetStatus {
            target = Self.node(of: targetStatus, called: to, in: nodes, visiting: &visits)
        }
        self.from = from
        self.to = to
        self.flags = flags
        self.status = status
        self.node = node
        self.visits = visits
        self.targetStatus = targetStatus
        self.target = target
        isOfOtherLink = node.isTracked(elsewhereThan: from, status)
        isOverOtherLink = targetStatus.flatMap { target?.isTracked(elsewhereThan: to, $0) } ?? false
    }

    /// Returns the node of a file. The kernel has looked up the name, so a file that the kernel does not know got the
    /// name out of band.
    private static func node(
        of status: FileStatus, called change: NameChange, in nodes: NodeTable,
        visiting visits: inout [RetainedNode]
    ) -> Node {
        if let known = nodes[FileKey(status)] { return known }
        let visit = RetainedNode(to: status, as: change.name, in: change.directory, nodes)
        visits.append(visit)
        return visit.node
    }

    var change: NameChange { from }

    /// Whether the renamed file has further names besides the old name.
    var isOneOfSeveral: Bool { status.linkCount > 1 && !status.isDirectory }
    /// Whether the target has further names besides the new name.
    var isTargetOneOfSeveral: Bool {
        targetStatus.map { $0.linkCount > 1 && !$0.isDirectory } ?? false
    }
    /// Whether the renamed file keeps its item class under every name (``Node/keepsName(insteadOf:in:)``).
    var keepsClass: Bool { isOneOfSeveral && node.itemClass != .private }

    var isExchange: Bool { flags & RenameFlags.exchange != 0 }

    /// Whether a file is renamed over a file, so that the renamed file has the next contents of the target's document.
    ///
    /// It does not matter from which directory the file comes, because the contents under the new name change in any
    /// case. Any other rename over a target replaces the target's document by another.
    var isUpdate: Bool {
        status.isRegularFile && targetStatus?.isRegularFile == true && !isOverOtherLink
    }
}

extension Node {
    /// Returns whether presenters know this file by another name than `place`.
    func isTracked(elsewhereThan place: NameChange, _ status: FileStatus) -> Bool {
        status.linkCount > 1 && !status.isDirectory && isTracked
            && !isCalled(place.name, in: place.directory)
    }
}
