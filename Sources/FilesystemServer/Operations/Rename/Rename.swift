// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem

/// Carries out rename(2), by which most programs save.
///
/// ``NameRequests`` calls the methods of this class in the order that ``NameOperation`` lists. ``RenameFacts`` has the
/// files behind both names. ``RenameClaims`` makes the claim. ``RenameEffects`` carries out the consequences for
/// documents, presenters and pending saves.
final class Rename: Sendable {
    private let context: MountContext
    private let claims: RenameClaims
    private let effects: RenameEffects
    private let nameRequests: NameRequests
    private let nodes: NodeTable

    init(
        _ context: MountContext, _ tree: FileTree, _ claims: RenameClaims, _ effects: RenameEffects,
        _ nameRequests: NameRequests
    ) {
        self.context = context
        self.claims = claims
        self.effects = effects
        self.nameRequests = nameRequests
        nodes = tree.nodes
    }

    func rename(
        _ name: borrowing FileName, in parent: NodeID, to newName: borrowing FileName,
        in newParent: NodeID, flags: UInt32, reply: consuming Reply
    ) {
        guard let directory = nodes[parent], let newDirectory = nodes[newParent] else {
            return reply.fail(.stale)
        }
        guard !context.isPrivate(name, in: parent), !context.isPrivate(newName, in: newParent) else {
            return reply.fail(.notPermitted)
        }
        let from = NameChange(name.copy(), in: directory, caller: reply.caller)
        let to = NameChange(newName.copy(), in: newDirectory, caller: reply.caller)
        nameRequests.run(self, .renaming(from, to: to), reply: reply) { () throws(Errno) in
            try RenameFacts(from, to, flags: flags, in: nodes)
        }
    }
}

extension Rename: NameOperation {
    func prepare(_ move: RenameFacts) { effects.prepare(move) }

    func lockRequest(for move: RenameFacts, after former: ClaimedRequest?) -> ClaimedRequest? {
        claims.lockRequest(for: move, after: former)
    }

    /// Returns the files that may lose their contents because of the rename. If the rename begins a save, the renamed
    /// document is among them, because the save removes it later.
    func endangered(by move: RenameFacts, _ save: SaveAssessment?) -> EndangeredFiles {
        if move.isExchange { return EndangeredFiles(aside: [move.node, move.target].compactMap(\.self)) }
        // The classes of the names are determined only if they are needed, because that takes time.
        let leaves = context.keepsHistory && move.to.isPrivate && !move.from.isPrivate
        return EndangeredFiles(
            replaced: move.target, aside: save?.keepsName ?? false ? [move.node] : [],
            leaving: leaves ? move.node : nil)
    }

    func documentStep(_ move: RenameFacts) -> DocumentStep? {
        guard move.status.isRegularFile, move.node !== move.target else { return nil }
        if move.isExchange { return move.target.map { .exchanges($0, with: move.node) } }
        // A backup of an earlier save is no document. A rename over it takes the document's name away.
        if let target = move.target, target.needsClaim(flags: O_WRONLY | O_TRUNC) {
            return .replaces(target, by: move.node)
        }
        return .vacates(move.node, EntryName(move.from.name, in: move.from.directory), isLast: false)
    }

    func begin(_ move: RenameFacts, _ step: NameStep?) -> RenameEffects.Scope { effects.begin(move, step) }

    func apply(_ move: RenameFacts) throws(Errno) {
        if let status = move.targetStatus, !move.isExchange {
            try move.target?.keepAsOrphan(ifLastNameOf: status)
        }
        let (below, newBelow) = (try move.from.directory.descriptor(), try move.to.directory.descriptor())
        try move.from.name.withName { (name) throws(Errno) in
            try move.to.name.withName { (newName) throws(Errno) in
                try below.descriptor.rename(name, to: newName, in: newBelow.descriptor, flags: move.flags)
            }
        }
    }

    func revert(_ move: RenameFacts) { effects.revert(move) }

    func publish(_ outcome: inout Void, of move: RenameFacts, _ step: NameStep?) {
        effects.publish(move, step)
    }

    func answer(_ outcome: Void, of move: RenameFacts, _ step: NameStep?, reply: consuming Reply) {
        effects.answer(move, reply: reply)
    }

    func finish(_ scope: RenameEffects.Scope, _ move: RenameFacts) { effects.finish(scope, move) }
}
