// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem

/// New directories, links and nodes, made as the requester.
///
/// Nobody holds what does not exist, so they claim nothing; but in a package they are a change of the package.
extension CoordinatedFilesystem {
    func makeNode(
        _ name: borrowing FileName, in parent: NodeID, mode: UInt32, device: UInt64, reply: consuming Reply
    ) {
        make(name, in: parent, reply: reply) { (directory, name) throws(Errno) in
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
        do throws(Errno) { file = try node.descriptor() } catch { return reply.fail(error) }
        make(name, in: parent, reply: reply) { (directory, name) throws(Errno) in
            try directory.link(file.descriptor, as: name)
        }
    }

    private typealias Maker = @Sendable (borrowing OwnedDescriptor, borrowing FileName) throws(Errno) -> Void

    private func make(
        _ name: borrowing FileName, in parent: NodeID, reply: consuming Reply, _ maker: @escaping Maker
    ) {
        guard let directory = nodes[parent] else { return reply.fail(.stale) }
        guard !isPrivate(name, in: parent) else { return reply.fail(.notPermitted) }
        let change = NameChange(name.copy(), in: directory, caller: reply.caller)
        let former = returned(.making(change), by: change.caller.thread)
        guard let part = awaited(by: change) ?? changeOfPackage(by: change) else {
            giveUp(former)
            return make(change, under: nil, reply: reply, maker)
        }
        let request = ClaimedRequest(
            .making(change), Request(engine.makeClaimID(), .nameChange, part), by: change.caller.thread,
            processes: processes)
        coordinate(request, after: former, reply: reply) { [self] request, _, reply in
            make(change, under: request.claim, reply: reply, maker)
            engine.end(request.claim)
        }
    }

    /// What is claimed for a new name in a package that somebody may use as a whole.
    func changeOfPackage(by change: NameChange) -> Request.Part? {
        guard engine.isAttended, !change.isPrivate else { return nil }
        let (item, place) = (change.directory.item, places.place(of: change.directory))
        guard engine.isInPackage(item, at: place) else { return nil }
        return Request.Part(item, AccessTable.makingInPackage, at: place)
    }

    private func make(
        _ change: NameChange, under claim: ClaimID?, reply: consuming Reply, _ maker: Maker
    ) {
        let (directory, name, caller) = (change.directory, change.name, change.caller)
        do throws(Errno) {
            become(caller)
            let below = try directory.descriptor()
            let status = try name.withName { (name) throws(Errno) in
                try maker(below.descriptor, name)
                return try below.descriptor.status(of: name)
            }
            let node = nodes.introduce(status, as: name, in: directory)
            let appearance = noteCreation(of: node, as: name, in: directory, by: caller)
            if appearance.fill == nil { noteCreation(of: node, change, under: claim) }
            if appearance.isDocument { noteChange(of: node, .write(.updating), byThread: caller.thread) }
            if let fill = appearance.fill { closeWindow(fill.vacancy, because: .filled) }
            engine.journal.note(.created, at: Engine.now, by: change.subject)
            let attributes = bounces.validity(validity, to: caller.thread, about: node.id)
            if !reply.entry(node.id, status, names: validity, attributes: attributes) {
                nodes.forget(node.id, lookups: 1)
            }
        } catch {
            reply.fail(error)
        }
    }
}
