// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem
import Synchronization
import VersionStore

/// `unlink(2)` and `rmdir(2)`.
///
/// Neither waits for a handle: whoever has the file open keeps it as it is.
extension CoordinatedFilesystem {
    func remove(
        _ name: borrowing FileName, in parent: NodeID, isDirectory: Bool, reply: consuming Reply
    ) {
        guard let directory = nodes[parent] else { return reply.fail(.stale) }
        guard !isPrivate(name, in: parent) else { return reply.fail(.noEntry) }
        let change = NameChange(name.copy(), in: directory, caller: reply.caller)
        let node: Node?
        let status: FileStatus
        do throws(Errno) {
            status = try directory.descriptor().descriptor.status(of: name)
            node = nodes[FileKey(status)]
        } catch {
            return reply.fail(error)
        }
        guard let node, status.isRegularFile else {
            return unlink(change, node, status, isDirectory: isDirectory, reply: reply)
        }
        guard let reply = delayVacating(change, of: node, reply: reply) else { return }
        let claim = engine.makeClaimID()
        let writers = claimChange(
            claim, change, Request.Part(node.item, AccessTable.removing), nil, endangering: node)
        guard !writers.isEmpty else {
            unlink(change, node, status, isDirectory: isDirectory, reply: reply)
            return engine.end(claim)
        }
        let parked = Parked(reply)
        engine.workers.run { [self] in
            keepFile(node, for: writers, by: change.subject)
            if let reply = parked.take() {
                unlink(change, node, status, isDirectory: isDirectory, reply: reply)
            }
            engine.end(claim)
        }
    }

    /// Claims items whose names change, and returns the open writers of `node` that are somebody else's.
    func claimChange(
        _ claim: ClaimID, _ change: NameChange, _ first: Request.Part, _ second: Request.Part?,
        endangering node: Node?
    ) -> [Handle] {
        let claimant = ChangeClaimant(change, processes: processes)
        let admission = engine.claim(Request(claim, .nameChange, first, second), by: claimant)
        guard case .granted(let grant) = admission, !grant.passed.isEmpty, let node else { return [] }
        let party = claimant.identify()
        return grant.passed.compactMap { engine.claimant(of: $0.claim) as? Handle }
            .filter { $0.node === node && !$0.identify().isExempt(from: party) }
    }

    /// Keeps a file that others write to; whoever has closed it meanwhile is asked again whether anything
    /// was written.
    func keepFile(_ node: Node, for writers: [Handle], by subject: any JournalSubject) {
        keeper.keepFile(node, for: writers, because: .claim, by: subject)
        for writer in writers where handles[writer.id] == nil { keeper.letGo(of: writer) }
    }

    private func unlink(
        _ change: NameChange, _ node: Node?, _ status: FileStatus, isDirectory: Bool, reply: consuming Reply
    ) {
        let evidence = node.flatMap { self.evidence(ofUnlinking: change, $0, status) }
        do throws(Errno) {
            try keepIfLast(node, status)
            let below = try change.directory.descriptor()
            try change.name.withName { (name) throws(Errno) in
                try below.descriptor.remove(name, isDirectory: isDirectory)
            }
        } catch {
            node?.isOrphanNoMore()
            return reply.fail(error)
        }
        engine.journal.note(.unlinked, at: Engine.now, by: change.subject)
        if let node {
            lost(node, change.name, in: change.directory, wasLast: isDirectory || status.linkCount <= 1)
            if let (actor, evidence) = evidence {
                openWindow(
                    change.name, in: change.directory, of: node, by: actor, evidence: evidence,
                    thread: change.caller.thread)
            }
        }
        reply.succeed()
    }

    private func evidence(
        ofUnlinking change: NameChange, _ node: Node, _ status: FileStatus
    ) -> (Actor, Vacancy.Evidence)? {
        guard status.isRegularFile, change.caller.thread > 0 else { return nil }
        let program = processes.program(ofThread: change.caller.thread)
        let mayBeSave =
            ProgramClasses.unlinksToCreate(program)
            || episodes.state.withLock { $0.recogniser.count > 0 }
        guard mayBeSave, let actor = processes.actor(ofThread: change.caller.thread) else { return nil }
        let found = episodes.change { state in
            state.windows.touched(by: actor, at: Engine.now)
            return state.recogniser.vacancy(
                whenUnlinking: change.name.bytes, NodeNumber(node.id.rawValue),
                in: NodeNumber(change.directory.id.rawValue), isRegularFile: true, by: actor,
                program: program, at: Engine.now)
        }
        return found.map { (actor, $0) }
    }

    /// Keeps a way to a file that is about to lose its last name.
    func keepIfLast(_ node: Node?, _ status: FileStatus) throws(Errno) {
        guard let node, status.isDirectory || status.linkCount <= 1 else { return }
        try node.keepAsOrphan()
    }

    /// A node is no longer called this.
    func lost(_ node: Node, _ name: NameBytes, in directory: Node, wasLast: Bool) {
        let isCalledSo = node.state.withLock { $0.parent === directory && $0.name == name }
        if isCalledSo { node.lostName() }
        if wasLast { nodes.retire(node) }
        episodes.forgetFile(NodeNumber(node.id.rawValue))
    }
}

/// A request that changes what is called a name.
struct NameChange: Sendable {
    let name: NameBytes
    let directory: Node
    let caller: Caller
    let moment = Engine.now

    init(_ name: NameBytes, in directory: Node, caller: Caller) {
        self.name = name
        self.directory = directory
        self.caller = caller
    }

    var subject: NameSubject { NameSubject(name, in: directory, thread: caller.thread) }
}

/// Stands behind the claim of a request that changes names.
final class ChangeClaimant: Claimant {
    private let change: NameChange
    private unowned let processes: Processes

    init(_ change: NameChange, processes: Processes) {
        self.change = change
        self.processes = processes
    }

    var account: Account { change.subject.account }
    var access: Access { .write(.forMoving) }
    func identify() -> Party { processes.party(ofThread: change.caller.thread, notAfter: change.moment) }
    /// Never asked: only handles are looked at.
    func observe() -> Observation { .untouched }
}
