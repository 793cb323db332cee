// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem
import Synchronization
import VersionStore

/// `rename(2)`, which is how most programs save.
extension CoordinatedFilesystem {
    func rename(
        _ name: borrowing FileName, in parent: NodeID, to newName: borrowing FileName,
        in newParent: NodeID, flags: UInt32, reply: consuming Reply
    ) {
        guard let directory = nodes[parent], let newDirectory = nodes[newParent] else {
            return reply.fail(.stale)
        }
        guard !isPrivate(name, in: parent), !isPrivate(newName, in: newParent) else {
            return reply.fail(.notPermitted)
        }
        let move: Move
        do throws(Errno) {
            move = try makeMove(
                NameChange(name.copy(), in: directory, caller: reply.caller),
                NameChange(newName.copy(), in: newDirectory, caller: reply.caller), flags: flags)
        } catch {
            return reply.fail(error)
        }
        guard let node = move.node, move.status.isRegularFile || move.target != nil else {
            return carryOut(move, reply: reply)
        }
        guard let reply = delayVacating(move.from, of: node, reply: reply) else { return }
        let claim = engine.makeClaimID()
        let writers = claimChange(
            claim, move.from, Request.Part(node.item, AccessTable.moving),
            move.target.map { Request.Part($0.item, AccessTable.movingOnto) },
            endangering: move.isExchange ? nil : move.target)
        guard let target = move.target, !writers.isEmpty else {
            carryOut(move, reply: reply)
            return engine.end(claim)
        }
        let parked = Parked(reply)
        engine.workers.run { [self] in
            keepFile(target, for: writers, by: move.to.subject)
            if let reply = parked.take() { carryOut(move, reply: reply) }
            engine.end(claim)
        }
    }

    private func makeMove(_ from: NameChange, _ to: NameChange, flags: UInt32) throws(Errno) -> Move {
        let status = try from.directory.status(of: from.name)
        let targetStatus: FileStatus?
        do throws(Errno) {
            targetStatus = try to.directory.status(of: to.name)
        } catch {
            guard error == .noEntry else { throw error }
            targetStatus = nil
        }
        return Move(
            from: from, to: to, flags: flags, status: status, node: nodes[FileKey(status)],
            targetStatus: targetStatus, target: targetStatus.flatMap { nodes[FileKey($0)] })
    }

    private func carryOut(_ move: Move, reply: consuming Reply) {
        let save = evidence(of: move)
        do throws(Errno) {
            if let status = move.targetStatus, !move.isExchange { try keepIfLast(move.target, status) }
            let (below, newBelow) = (try move.from.directory.descriptor(), try move.to.directory.descriptor())
            try move.from.name.withName { (name) throws(Errno) in
                try move.to.name.withName { (newName) throws(Errno) in
                    try below.descriptor.rename(name, to: newName, in: newBelow.descriptor, flags: move.flags)
                }
            }
        } catch {
            if !move.isExchange { move.target?.isOrphanNoMore() }
            return reply.fail(error)
        }
        engine.journal.note(.renamed, at: Engine.now, by: move.from.subject, "to \(move.to.name)")
        follow(move, save)
        reply.succeed()
    }

    /// Brings nodes, documents and windows up to date with a rename that was carried out.
    private func follow(_ move: Move, _ save: Save?) {
        // Two names of one file: POSIX says that nothing happens then.
        guard let node = move.node, move.target !== node else { return }
        if move.isExchange { return exchange(move, node) }
        if let target = move.target, let status = move.targetStatus {
            lost(
                target, move.to.name, in: move.to.directory,
                wasLast: status.linkCount <= 1 || status.isDirectory)
            if move.isUpdate { takeOver(node, from: target) }
        }
        node.found(move.to.name, in: move.to.directory)
        node.state.withLock { $0.itemClass = nil }
        let number = NodeNumber(node.id.rawValue)
        let newPlace = NodeNumber(move.to.directory.id.rawValue)
        let (rolledBack, fill): (Vacancy?, Fill?) = episodes.change { state in
            if move.isUpdate {
                state.recogniser.forget(number)
            } else {
                state.recogniser.renamed(number, to: move.to.name.bytes, in: newPlace)
            }
            if let back = state.windows.rollsBack(
                number, to: move.to.name.bytes, in: newPlace, by: save?.actor)
            {
                return (back, nil)
            }
            return (nil, state.windows.fills(move.to.name.bytes, in: newPlace, by: save?.actor))
        }
        if let rolledBack {
            adopt(rolledBack.document, by: node)
            closeWindow(rolledBack, because: .rolledBack)
        } else if let fill {
            if case .save(let vacancy) = fill { adopt(vacancy.document, by: node) }
            closeWindow(fill.vacancy, because: .filled)
        }
        if let save, let evidence = save.evidence {
            openWindow(
                move.from.name, in: move.from.directory, of: node, by: save.actor, evidence: evidence,
                thread: move.from.caller.thread)
        }
    }

    private func exchange(_ move: Move, _ node: Node) {
        node.found(move.to.name, in: move.to.directory)
        node.state.withLock { $0.itemClass = nil }
        guard let target = move.target else { return }
        target.found(move.from.name, in: move.from.directory)
        target.state.withLock { $0.itemClass = nil }
    }

    /// A file was renamed over a document and is the document now.
    private func takeOver(_ node: Node, from target: Node) {
        let (document, incoming, orphan) = (target.item, node.item, makeItem())
        engine.replace(document, by: incoming, orphan: orphan)
        target.state.withLock { $0.item = orphan }
        node.state.withLock { $0.item = document }
    }

    /// A file took the name of a document that was missing in the middle of a save.
    private func adopt(_ document: ItemID, by node: Node) {
        engine.replace(document, by: node.item, orphan: nil)
        node.state.withLock { $0.item = document }
    }

    /// Whether a rename vacates a document's name in the middle of a save, and who saves.
    private func evidence(of move: Move) -> Save? {
        let thread = move.from.caller.thread
        guard thread > 0, let node = move.node, move.status.isRegularFile, !move.isExchange else {
            return nil
        }
        let isBackup = SideName.isBackupShaped(move.to.name.bytes, of: move.from.name.bytes)
        let isRemembered = episodes.state.withLock { $0.recogniser.count > 0 || !$0.windows.isEmpty }
        guard isBackup || isRemembered, let actor = processes.actor(ofThread: thread) else { return nil }
        let evidence = episodes.change { state in
            state.windows.touched(by: actor, at: Engine.now)
            return state.recogniser.vacancy(
                whenRenaming: move.from.name.bytes, NodeNumber(node.id.rawValue),
                in: NodeNumber(move.from.directory.id.rawValue), to: move.to.name.bytes, isRegularFile: true,
                by: actor, at: Engine.now)
        }
        return Save(actor: actor, evidence: evidence)
    }
}

/// A rename with what it finds.
private struct Move: Sendable {
    let from: NameChange
    let to: NameChange
    let flags: UInt32
    let status: FileStatus
    let node: Node?
    let targetStatus: FileStatus?
    let target: Node?

    var isExchange: Bool { flags & RenameFlags.exchange != 0 }

    /// Whether the source becomes the target's document. Where a file comes from is uncertain, what it does
    /// is not: the contents under the name have changed. Anything but a file over a file is a replacement.
    var isUpdate: Bool { status.isRegularFile && targetStatus?.isRegularFile == true }
}

private struct Save {
    let actor: Actor
    let evidence: Vacancy.Evidence?
}

extension Node {
    fileprivate func status(of name: NameBytes) throws(Errno) -> FileStatus {
        let directory = try descriptor()
        return try name.withName { (name) throws(Errno) in try directory.descriptor.status(of: name) }
    }
}
