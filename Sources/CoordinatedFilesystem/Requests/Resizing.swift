// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization
import VersionStore

/// `truncate(2)`: a change of size without a handle, which waits like an open.
///
/// The kernel holds the file's lock meanwhile, so the wait is a bounce.
extension CoordinatedFilesystem {
    func resize(_ node: Node, _ change: AttributeChange, reply: consuming Reply) {
        let caller = reply.caller
        let kind = ClaimedRequest.Kind.resizing(node, below: node.parent)
        let part = Request.Part(
            node.item, AccessTable.resizing(to: change.size ?? 0), at: places.place(of: node))
        let request = ClaimedRequest(
            kind, Request(engine.makeClaimID(), .request, part), by: caller.thread, processes: processes)
        coordinate(request, after: returned(kind, by: caller), reply: reply) { [self] request, grant, reply in
            carryOut(change, on: node, request, grant, reply: reply)
        }
    }

    /// After a file was cut to the size it had: open(2) and ftruncate(2) move its time all the same, but truncate(2) does not on
    /// some file systems. Whoever may write to somebody else's file may not set its time, and then that stays; the file is cut.
    func moveTime(of file: SharedDescriptor, from former: FileStatus.Time) {
        do throws(Errno) {
            guard try file.descriptor.status().modified == former else { return }
            try file.descriptor.changeTimes(accessed: .keep, modified: .now)
        } catch {
            return
        }
    }

    private func carryOut(
        _ change: AttributeChange, on node: Node, _ request: ClaimedRequest, _ grant: Grant,
        reply: consuming Reply
    ) {
        let claim = request.claim
        let isEndangering = endangers(grant, by: claim) || wasSavedForLook(node.item, by: request.thread)
        guard isEndangering || node.hasSettledLinks || engine.suspendedWriter(beside: claim) != nil else {
            apply(change, to: node, under: claim, reply: reply)
            return engine.end(claim)
        }
        let unchanged = unchangedWriters(of: node, besides: nil)
        let parked = Parked(reply)
        work(on: node, for: .keeping) { [self] in
            let step = { [self] in
                if let reply = parked.take() { apply(change, to: node, under: claim, reply: reply) }
            }
            defer { engine.end(claim) }
            do throws(StoreError) {
                try keeper.detachLinks(of: node)
                if isEndangering {
                    try keeper.keepContents(
                        of: node, because: grant.keepCause, by: request, doubting: isBlurred, before: step)
                } else {
                    step()
                }
            } catch {
                return refuse(parked)
            }
            leave(node, to: unchanged.filter(isStillUnchanged), by: request)
            if isBesideChanged(claim, taking: { _ in true }) { keeper.keepLeft(in: node, by: request) }
        }
    }
}
