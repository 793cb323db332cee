// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem

/// The second step of an open: makes the handle and its claim.
final class OpenClaims: Sendable {
    enum Outcome {
        /// The claim is granted. If the file needs no claim, the grant is nil.
        case admitted(Handle, Grant?)
        /// The claim waits. The engine reports its decision later.
        case waiting(Handle)
        /// The claim is granted, but the file has lost its name or belongs to another document. The answer may have to
        /// be ESTALE.
        case outdated(Handle, Grant)
        /// Another file has got the name, so the claim has ended. The handle, which has no claim, describes the retry
        /// that is expected.
        case replaced(Handle)
    }

    private let context: MountContext
    private let data: DataPlane
    private let unsavedStats: UnsavedStats
    private let closer: HandleCloser
    private let engine: Engine
    private let processes: ProcessResolver
    private let nodes: NodeTable
    private let places: PlaceRegistry
    private let statLedger: StatLedger

    init(
        _ context: MountContext, _ tree: FileTree, _ data: DataPlane, _ unsavedStats: UnsavedStats,
        _ closer: HandleCloser
    ) {
        self.context = context
        self.data = data
        self.unsavedStats = unsavedStats
        self.closer = closer
        engine = context.engine
        processes = context.processes
        nodes = tree.nodes
        places = tree.places
        statLedger = unsavedStats.statLedger
    }

    /// Makes the handle of an open and its claim. If the file gets another document in the meantime, makes a new claim.
    func claim(_ node: Node, flags: Int32, isRetry: Bool, by caller: Caller) -> Outcome {
        while true {
            closer.closeLingering(on: node)
            let handle = makeHandle(on: node, flags: flags, by: caller, isRetry: isRetry)
            guard handle.isClaimed else { return .admitted(handle, nil) }
            guard case .granted(let grant) = claim(handle, handle.access) else { return .waiting(handle) }
            if let outcome = review(handle, grant) { return outcome }
            engine.end(handle.claim)
        }
    }

    /// Makes the claim of a handle.
    func claim(_ handle: Handle, _ access: Access) -> Engine.Admission {
        let part = ClaimRequest.Part(handle.item, access, at: places.place(of: handle.node))
        var request = ClaimRequest(handle.claim, .handle, part, accessPattern: data.accessPattern(of: handle))
        if let bounds = context.bounds(forFileAt: handle.node.path, usedBy: handle.thread) {
            request.bounds = bounds
        }
        return engine.claim(request, by: handle)
    }

    /// Called when a claim was granted without a wait. Checks whether the file was renamed or removed just before.
    /// Returns nil if the file no longer belongs to the claimed document.
    private func review(_ handle: Handle, _ grant: Grant) -> Outcome? {
        let node = handle.node
        let (item, hasName) = node.document
        if !hasName, engine.hasAwareClients, !handle.isRetry, handle.thread > 0,
            !ProcessInspection.isKernelThread(handle.thread), let successor = successor(of: node)
        {
            engine.end(handle.claim)
            return .replaced(makeHandle(on: node, successor.item, flags: handle.flags, by: handle.caller))
        }
        let admission = OpenAdmission(
            basis: grant.basis, hasName: hasName, isSameDocument: item == handle.item,
            isChange: handle.mayWrite || handle.truncates)
        switch admission {
        case .open: return .admitted(handle, grant)
        case .claimAgain: return nil
        case .lookUpAgain: return .outdated(handle, grant)
        }
    }

    /// The file that now has the name which the node has lost during this open. Nil if the node still has its name, or if no
    /// file with a node has the lost name.
    private func successor(of node: Node) -> Node? {
        let (name, directory, hasName) = node.location
        guard !hasName, let directory else { return nil }
        do throws(Errno) {
            return nodes[FileKey(try directory.status(of: name))]
        } catch {
            return nil
        }
    }

    func makeHandle(
        _ claim: ClaimID? = nil, on node: Node, _ item: ItemID? = nil, flags: Int32, by caller: Caller,
        isRetry: Bool = false
    ) -> Handle {
        Handle(
            claim ?? engine.makeClaimID(), on: node, item ?? node.item, flags: flags, by: caller,
            isClaimed: node.needsClaim(flags: flags),
            readsAsSaved: !statLedger.isEmpty
                && unsavedStats.readsAsSaved(item ?? node.item, flags: flags, by: caller.thread),
            isRetry: isRetry, processes: processes)
    }

    /// Ends the claim of a handle. Returns a new handle of the same file, without a claim.
    func unclaimed(_ handle: Handle) -> Handle {
        engine.end(handle.claim)
        return Handle(
            engine.makeClaimID(), on: handle.node, handle.item, flags: handle.flags, by: handle.caller,
            isClaimed: false, processes: processes)
    }
}
