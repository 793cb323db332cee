// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem

/// New directories, links and nodes, made as the requester.
///
/// They claim nothing: nobody has what does not exist, but for names that somebody waits for, and packages, which are one
/// file to those who have them.
extension CoordinatedFilesystem {
    func makeNode(
        _ name: borrowing FileName, in parent: NodeID, mode: UInt32, device: UInt64, reply: consuming Reply
    ) {
        // The kernel does not come back with a socket.
        make(name, in: parent, canRetry: mode & S_IFMT != S_IFSOCK, reply: reply) {
            (directory, name) throws(Errno) in
            try directory.makeNode(name, mode: mode, device: device)
        }
    }

    func makeDirectory(_ name: borrowing FileName, in parent: NodeID, mode: UInt32, reply: consuming Reply) {
        make(name, in: parent, reply: reply) { (directory, name) throws(Errno) in
            try directory.makeDirectory(name, mode: mode)
        }
    }

    func makeSymbolicLink(
        _ name: borrowing FileName, in parent: NodeID, to target: UnsafePointer<CChar>,
        reply: consuming Reply
    ) {
        // With the zero at its end. The request may wait longer than its bytes live.
        let target = Array(UnsafeBufferPointer(start: target, count: strlen(target) + 1))
        make(name, in: parent, reply: reply) { (directory, name) throws(Errno) in
            try directory.makeSymbolicLink(name, to: target)
        }
    }

    func link(_ id: NodeID, as name: borrowing FileName, in parent: NodeID, reply: consuming Reply) {
        guard let node = nodes[id] else { return reply.fail(.stale) }
        let file: SharedDescriptor
        do throws(Errno) { file = try node.descriptor() } catch { return failWithRetry(reply, error) }
        // A log or a database of two names is one still.
        if node.itemClass == .private, let directory = nodes[parent] {
            claimForWriters(of: node, named: NameChange(name.copy(), in: directory, caller: reply.caller))
        }
        make(name, in: parent, reply: reply) { [self] (directory, name) throws(Errno) in
            do throws(Errno) {
                try directory.link(file.descriptor, as: name)
            } catch {
                giveUpClaims(of: node)
                throw error
            }
        }
    }

    private typealias Maker = @Sendable (borrowing OwnedDescriptor, borrowing FileName) throws(Errno) -> Void

    private func make(
        _ name: borrowing FileName, in parent: NodeID, canRetry: Bool = true, reply: consuming Reply,
        _ maker: @escaping Maker
    ) {
        guard let directory = nodes[parent] else { return reply.fail(.stale) }
        guard !isPrivate(name, in: parent) else { return reply.fail(.notPermitted) }
        let change = NameChange(name.copy(), in: directory, caller: reply.caller)
        guard let reply = retryIfRenamedOutOfBand(change.caller, from: directory, unless: !canRetry, reply)
        else { return }
        whenNameIsFree(change, reply: reply) { [self] claim, _, reply in
            make(change, under: claim, reply: reply, maker)
        }
    }

    /// Before whoever comes after the answer: it must find this turn over, and so its news told.
    private func make(
        _ change: NameChange, under claim: ClaimID?, reply: consuming Reply, _ maker: Maker
    ) {
        let (directory, name, caller) = (change.directory, change.name, change.caller)
        clearRetryMark(caller)
        defer { ThreadIdentity.becomeDaemon() }
        do throws(Errno) {
            impersonate(caller)
            noteOwn(name, in: directory)
            let below = try directory.descriptor()
            let status = try name.withName { (name) throws(Errno) in
                try maker(below.descriptor, name)
                return try below.descriptor.status(of: name)
            }
            noteArrival(of: name, in: directory, by: caller.thread)
            let node = nodes.introduce(status, as: name, in: directory)
            if status.linkCount > 1 {
                refreshBaselines(of: node)
                node.noteOtherName(name, in: directory)
                noteNames(of: node)
            }
            let outcome = recogniseCreation(of: node, as: name, in: directory, by: caller)
            if !outcome.isSave { noteCreation(of: node, change, under: claim) }
            if outcome.isDocument { noteChange(of: node, .write(.updating), byThread: caller.thread) }
            if let fill = outcome.fill { closePendingSave(fill.pendingSave, because: .filled) }
            engine.journal.note(.created, at: Engine.now, by: change.subject)
            if let claim { engine.end(claim) }
            answer(node, status, attributes: validity(of: node, to: caller.thread), reply: reply)
        } catch {
            if let claim { engine.end(claim) }
            reply.fail(error)
        }
    }
}

// Who has the name.
extension CoordinatedFilesystem {
    /// What makes something of a new name: the claim it has to end, if there is one; and whether it went ahead over somebody.
    typealias NameStep = @Sendable (ClaimID?, Bool, consuming Reply) -> Void

    /// Waits for those who have claimed a name though there is nothing yet, or the package that it is in.
    ///
    /// The kernel retries a request that is sent back, and then what it finds under the name may be something else
    /// already. So its turn ends when it has come, and it makes what it came for in the next, which is at once.
    func whenNameIsFree(_ change: NameChange, reply: consuming Reply, then step: @escaping NameStep) {
        let former = takeRetriedRequest(.making(change), by: change.caller)
        guard let part = awaitedNamePart(by: change) ?? changeOfPackage(by: change) else {
            giveUp(former)
            return step(nil, false, reply)
        }
        let request = ClaimedRequest(
            .making(change), ClaimRequest(engine.makeClaimID(), .nameChange, part), by: change.caller.thread,
            processes: processes)
        coordinate(request, after: former, reply: reply) { [self] request, grant, reply in
            asRequester(under: request.claim, in: change.directory, reply) { reply in
                step(request.claim, grant.basis == .proceeded, reply)
            }
        }
    }

    /// What is claimed for a name under which somebody waits for a document, or has it already.
    ///
    /// Its presenters are asked nothing but to let a writer in: what is missing cannot be deleted.
    func awaitedNamePart(by change: NameChange) -> ClaimRequest.Part? {
        guard engine.hasAwareClients, let document = documents.awaiting(change.name, in: change.directory)
        else {
            return nil
        }
        return ClaimRequest.Part(document, AccessTable.filling, at: places.place(in: change.directory))
    }

    /// What is claimed for a new name in a package that somebody may use as a whole.
    func changeOfPackage(by change: NameChange) -> ClaimRequest.Part? {
        guard isInPackage(change.directory), !change.isPrivate else { return nil }
        let directory = change.directory
        return ClaimRequest.Part(
            directory.item, AccessTable.makingInPackage, at: places.place(of: directory))
    }

    /// Whether somebody may use what is in a directory as a whole with others.
    func isInPackage(_ directory: Node) -> Bool {
        engine.hasAwareClients && engine.isInPackage(directory.item, at: places.place(of: directory))
    }

    /// A request that waited under a lock goes on on whichever thread decided about it, which may not be able to make files as
    /// somebody else.
    private func asRequester(
        under claim: ClaimID, in directory: Node, _ reply: consuming Reply,
        _ step: @escaping @Sendable (consuming Reply) -> Void
    ) {
        if ThreadIdentity.isPrepared { return step(reply) }
        let parked = Parked(reply)
        let make: @Sendable () -> Void = { [engine] in
            guard let reply = parked.take() else { return }
            guard ThreadIdentity.isPrepared else {
                engine.end(claim)
                return reply.fail(.io)
            }
            step(reply)
        }
        if directory.isDistant { directory.threads(for: .making).run(make) } else { makers.run(make) }
    }
}
