// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem

/// Decides whether a rename needs a claim, and whether the rename is a step of a save.
final class RenameClaims: Sendable {
    private let saveLifecycle: SaveLifecycle
    private let nameRequests: NameRequests
    private let engine: Engine
    private let processes: ProcessResolver
    private let places: PlaceRegistry
    private let saves: SaveTracker
    private let expectedRetries: ExpectedRetries<PendingOpen>

    init(
        _ context: MountContext, _ tree: FileTree, _ saves: SaveTracker, _ saveLifecycle: SaveLifecycle,
        _ coordinator: RetryCoordinator, _ nameRequests: NameRequests
    ) {
        self.saves = saves
        self.saveLifecycle = saveLifecycle
        self.nameRequests = nameRequests
        engine = context.engine
        processes = context.processes
        places = tree.places
        expectedRetries = coordinator.expectedRetries
    }

    /// Returns the request for the claim of a rename. Returns nil if the rename concerns no other program.
    func lockRequest(for move: RenameFacts, after former: ClaimedRequest?) -> ClaimedRequest? {
        guard move.node !== move.target, isClaimed(move) else { return nil }
        let save = former?.save(of: move.node) ?? assessSave(of: move)
        guard let wanted = request(for: move, of: move.node, isSave: save?.keepsName ?? false) else {
            return nil
        }
        return ClaimedRequest(
            .renaming(move.from, to: move.to), wanted, save: save,
            isInPackage: places.isInPackage(move.from.directory) || places.isInPackage(move.to.directory),
            by: move.from.caller.thread, processes: processes)
    }

    /// Returns whether a rename needs a claim.
    ///
    /// The claim for a directory asks presenters of items in it, and waits for accesses to them over the control socket. So
    /// this claim is not needed while no client is connected to the socket.
    private func isClaimed(_ move: RenameFacts) -> Bool {
        // rename(2) replaces only empty directories. If the target has entries, the rename will fail, so no presenter
        // is asked.
        if let target = move.target, target.kind == S_IFDIR, !move.isExchange {
            return target.isEmptyDirectory
        }
        return move.status.isRegularFile || move.target != nil || engine.hasAwareClients
    }

    /// Returns the claim of a rename; nil if the rename concerns no other program.
    private func request(for move: RenameFacts, of node: Node, isSave: Bool) -> ClaimRequest? {
        let target = claimedTarget(of: move)
        if move.isOfOtherLink {
            let part = target ?? nameRequests.changeOfPackage(by: move.from)
            return part.map { ClaimRequest(engine.makeClaimID(), .nameChange, $0) }
        }
        let source = ClaimRequest.Part(
            node.item, AccessTable.moving(isSave: isSave), at: places.place(in: move.from.directory))
        return ClaimRequest(engine.makeClaimID(), .nameChange, source, target)
    }

    /// Returns the claim for the new name of a rename: for the file that is replaced, for the document that waits for a
    /// file at this name, or for the package.
    private func claimedTarget(of move: RenameFacts) -> ClaimRequest.Part? {
        if let target = move.target {
            if move.isOverOtherLink { return nil }
            let access = AccessTable.movingOnto(isUpdate: move.isUpdate, isExchange: move.isExchange)
            return ClaimRequest.Part(target.item, access, at: places.place(in: move.to.directory))
        }
        if let awaited = nameRequests.awaitedNamePart(by: move.to) { return awaited }
        return move.from.directory === move.to.directory ? nil : nameRequests.changeOfPackage(by: move.to)
    }

    /// If a rename takes a document's name away as a step of a save, returns the save. Otherwise returns nil.
    private func assessSave(of move: RenameFacts) -> SaveAssessment? {
        let thread = move.from.caller.thread
        guard thread > 0, move.status.isRegularFile, !move.isExchange else { return nil }
        let node = move.node
        // Presenters know this file by another name. So this rename takes no document's name away.
        guard !move.isOfOtherLink else { return nil }
        // While any name is missing, each rename is checked. The caller may be giving this file a name that the caller has
        // taken away before.
        guard
            saveLifecycle.mayConcernOthers(node) || expectedRetries.hasWaitingOpen(node.item)
                || !saves.hasNoPendingSaves
        else { return nil }
        let isBackup = HelperFileName.isBackupName(move.to.name.bytes, of: move.from.name.bytes)
        let isRemembered = saves.remembersSteps
        let mayBeSaved = saveLifecycle.mayBeSaved(
            node, in: move.from.directory, onto: move.target, by: thread)
        let isAnswering = saveLifecycle.isAnswering(thread, about: node)
        guard isBackup || isRemembered || isAnswering || mayBeSaved,
            let saver = processes.saver(ofThread: thread)
        else { return nil }
        saveLifecycle.noteEndedMakers(besides: saver, of: move.from)
        let evidence = saves.change { state in
            state.noteActivity(by: saver, at: Engine.now)
            return state.saveDetector.evidence(
                whenRenaming: move.from.name.bytes, NodeNumber(node.id.rawValue),
                in: NodeNumber(move.from.directory.id.rawValue), to: move.to.name.bytes, isRegularFile: true,
                isAnswering: isAnswering, mayBeSaved: mayBeSaved, by: saver, at: Engine.now)
        }
        return saveLifecycle.save(by: saver, evidence, of: node, in: move.from.directory, thread)
    }
}
