// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem
import VersionStore

/// Carries out truncate(2), a change of size by a path. The call waits for other programs as an open does.
///
/// The kernel holds the file's lock during the request. So if the request must wait, it is answered ESTALE and retried.
extension SetAttributes {
    func resize(_ node: Node, _ change: AttributeChange, reply: consuming Reply) {
        let caller = reply.caller
        let kind = ClaimedRequest.Kind.resizing(node, below: node.parent)
        let part = ClaimRequest.Part(
            node.item, AccessTable.resizing(to: change.size ?? 0), at: places.place(of: node))
        var claim = ClaimRequest(engine.makeClaimID(), .handleless, part)
        if let bounds = context.bounds(forFileAt: node.path, usedBy: caller.thread) { claim.bounds = bounds }
        let request = ClaimedRequest(kind, claim, by: caller.thread, processes: processes)
        coordinator.coordinate(
            request, after: coordinator.takeRetriedRequest(kind, by: caller),
            during: unseenOverwrites.pause(beforeResizing: node, by: caller.thread), reply: reply
        ) {
            [self] request, grant, reply in
            guard unseenOverwrites.mayMerge else {
                return applyResize(change, on: node, request, grant, in: nil, reply: reply)
            }
            let parked = Parked(reply)
            unseenOverwrites.merges.passSoon(node.id) { [self] passage in
                guard let reply = parked.take() else { return engine.end(request.claim) }
                applyResize(change, on: node, request, grant, in: passage, reply: reply)
            }
        }
    }

    /// `passage`: until its end, the file is not merged.
    private func applyResize(
        _ change: AttributeChange, on node: Node, _ request: ClaimedRequest, _ grant: Grant,
        in passage: MergePassage?, reply: consuming Reply
    ) {
        defer { withExtendedLifetime(passage) {} }
        let claim = request.claim
        let isEndangering =
            cleanWriters.endangers(grant, by: claim)
            || unsavedStats.hasUnreadSave(node.item, by: request.thread)
            || engine.runs.hasForeignChange(of: node.item, for: request.identify)
        let review = unseenOverwrites.review(node, by: request.thread)
        let author = context.processes.author(ofThread: request.thread)
        let isKept = writeHistory.isDue(node, by: author, thread: request.thread)
        guard
            isEndangering || isKept || node.hasLinksWithoutWriters || review != nil
                || engine.suspendedWriter(beside: claim) != nil
        else {
            apply(change, to: node, under: claim, reply: reply)
            return engine.end(claim)
        }
        let unchanged = cleanWriters.unchangedWriters(of: node, besides: nil)
        let parked = Parked(reply)
        context.work(on: node, for: .preserving) { [self] in
            let step = { [self] in
                if let reply = parked.take() { apply(change, to: node, under: claim, reply: reply) }
            }
            defer { withExtendedLifetime(passage) { engine.end(claim) } }
            if let review,
                !unseenOverwrites.prepare(
                    review, by: request, thread: request.thread, mayLink: false,
                    isPreserved: isEndangering)
            {
                return refuse(parked)
            }
            do throws(StoreError) {
                try preserver.detachLinks(of: node)
                if isKept { writeHistory.preserve(node, by: author, user: request.user) }
                if isEndangering {
                    try preserver.preserveContents(
                        of: node, because: grant.preservationCause, by: request, doubting: context.isTimeRacy,
                        before: step)
                    engine.runs.noteOwnChange(of: node.item, by: request.identify)
                } else {
                    step()
                }
            } catch {
                return refuse(parked)
            }
            cleanWriters.rebaseline(node, to: unchanged.filter(cleanWriters.isStillUnchanged), by: request)
            if cleanWriters.hasChangedSuspendedWriter(claim, taking: { _ in true }) {
                preserver.preserveBesideSuspendedWriter(in: node, by: request)
            }
            if let review {
                unseenOverwrites.settleSoon(unseenOverwrites.sightings.noteResized(review), by: node)
            }
        }
    }
}
