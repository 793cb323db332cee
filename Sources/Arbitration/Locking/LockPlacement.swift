// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Determines the required locks of claims from the places of their items.
extension Arbiter {
    /// S1 to S4: The locks that a claim needs: on its items, on their packages, and on the contents of directories.
    func requiredLocks(of claim: Claim) -> [RequiredLock] {
        // B1: A batch is an announcement of later accesses. It only asks presenters about these accesses, so it
        // requires no lock.
        if claim.nature == .batch { return [] }
        var requiredLocks: [RequiredLock] = []
        claim.forEachPart { part in
            let isWrite = part.access.isWrite
            requiredLocks.add(.item(part.item), isWrite: isWrite)
            if tree.isEmpty { return }
            let outermostPackage = tree.outermostPackage(of: part.item, at: part.place)
            // S2: An access in a package needs a lock on the whole package.
            if let outermostPackage { requiredLocks.add(.item(outermostPackage), isWrite: isWrite) }
            // S3: A deletion, move or replacement of a directory locks the contents of the directory.
            if outermostPackage == nil, part.access.isStructural, tree.isDirectory(part.item) {
                requiredLocks.add(.contents(of: part.item), isWrite: true)
            }
            if !locks.hasSubtreeLocks { return }
            for directory in tree.ancestors(of: part.item, at: part.place)
            where isEntered(claim, in: directory) {
                requiredLocks.add(.contents(of: directory), isWrite: false)
            }
        }
        return requiredLocks
    }

    /// S4: Whether a claim below a directory requires a lock to read the contents of the directory.
    private func isEntered(_ claim: Claim, in directory: ItemID) -> Bool {
        guard let subtreeLock = locks.subtreeLock(of: directory) else { return false }
        // If the contents are locked already when a claim is made, the claim always gets a read lock.
        return subtreeLock.isComplete || claim.nature == .aware || claims[claim.id] == nil
            || claim.isWriting(.contents(of: directory)) != nil
    }

    /// S4: Called when a claim is about to lock the contents of directories. Gives the claims below each directory a
    /// read lock on the contents.
    mutating func lockSubtrees(_ claim: Claim) {
        claim.forEachRequiredLock { lock in
            if lock.isWrite, lock.resource.isContents { lockSubtree(lock.resource.item, by: claim) }
        }
    }

    private mutating func lockSubtree(_ directory: ItemID, by claim: Claim) {
        let (isFirst, mustEnterAll) = locks.lockSubtree(
            directory, completely: claim.nature != .nameChange)
        guard mustEnterAll || isFirst else { return }
        // The order does not matter, because a lock queue sorts its claims.
        let ids = mustEnterAll ? Array(claims.ids) : Array(claims.aware)
        var subtree = DirectoryTree.Subtree(below: directory)
        for id in ids where id != claim.id { enterContents(of: &subtree, id) }
        // Holders that have just got a read lock on the contents may block claims that wait for the contents.
        guard let held = locks[.contents(of: directory)]?.held else { return }
        addHoldersToReview(at: .contents(of: directory), held)
    }

    private mutating func enterContents(of subtree: inout DirectoryTree.Subtree, _ id: ClaimID) {
        let contents = Resource.contents(of: subtree.top)
        guard var claim = claims[id], claim.nature != .batch, claim.isWriting(contents) == nil,
            claim.firstOfParts({ subtree.contains($0.item, at: $0.place, in: tree) ? true : nil }) != nil
        else { return }
        let lock = RequiredLock(contents, isWrite: false)
        claim.setRequiredLocks(claim.requiredLocks + [lock])
        claims.replace(claim)
        enter(claim, lock)
    }

    /// S4: Called when a claim no longer requires the contents of a directory to write. If no other claim does, removes
    /// the read locks on the contents.
    mutating func releaseSubtreeLocks(_ claim: Claim) {
        if !locks.hasSubtreeLocks { return }
        claim.forEachRequiredLock { lock in
            if lock.isWrite, lock.resource.isContents { releaseSubtreeLocks(over: lock.resource.item) }
        }
    }

    private mutating func releaseSubtreeLocks(over directory: ItemID) {
        guard let lockQueue = locks.unlockSubtree(directory) else { return }
        contentions.remove(.contents(of: directory))
        for side in [lockQueue.held, lockQueue.waiting] {
            for id in Array(side.readers) + Array(side.writers) {
                if let claim = claims[id] {
                    claim.forEachRequiredLock { lock in
                        if lock.resource == .contents(of: directory) {
                            _ = locks.uncountHold(claim, at: lock)
                        }
                    }
                }
                let rest = claims[id]?.requiredLocks.filter { $0.resource != .contents(of: directory) }
                if let rest { claims.update(id) { $0.setRequiredLocks(rest) } }
            }
        }
    }
}

/// How directories are placed.
extension Arbiter {
    /// S5: Adds or moves a directory. Computes again the required locks of the claims below the directory.
    mutating func place(_ item: ItemID, _ directory: DirectoryInfo) {
        let own = registry.presented[item] ?? []
        for presenter in own { leavePlace(presenter) }
        // If the directory is new to the arbiter, no claim is on an item in it, so no required lock changes.
        let isNew = !tree.isDirectory(item)
        let haveUnitsChanged = tree.place(item, directory)
        let parent = tree.parent(of: item, at: Place())
        for presenter in own { enterPlace(presenter, in: parent) }
        if isNew || (!locks.hasSubtreeLocks && !haveUnitsChanged) { return }
        var subtree = DirectoryTree.Subtree(below: item)
        let ids = claims.all.filter { claim in
            claim.firstOfParts { part in
                part.item == item || subtree.contains(part.item, at: part.place, in: tree) ? true : nil
            } != nil
        }.map(\.id)
        for id in ids.sorted() { relocate(id) { $0 } }
    }

    /// R3, S5, S6, S7: Replaces the parts of a claim and its required locks, as one step.
    mutating func relocate(_ id: ClaimID, _ body: (ClaimRequest.Part) -> ClaimRequest.Part) {
        guard let former = claims[id] else { return }
        var claim = former
        claim.setParts(body)
        if !claim.isHeld { waits.relink(former, to: claim) }
        let wanted = requiredLocks(of: claim)
        guard Set(wanted) != Set(former.requiredLocks) else {
            claims.replace(claim)
            return
        }
        // Takes the new locks on contents before the old ones are released, so that a lock that stays is never
        // released.
        claim.setRequiredLocks(wanted)
        lockSubtrees(claim)
        let overlongBefore = former.requiredLocks.map(\.resource).filter(isOverlong)
        leave(former)
        releaseSubtreeLocks(former)
        // The claim needs a read lock on the contents of a directory only while another claim requires the contents to
        // write.
        claim.setRequiredLocks(requiredLocks(of: claim))
        // I1: At its grant, the claim was compared only with the claims at its old resources, and not with the claims
        // at its new resources.
        if claim.isHeld { claim.mayOverlap = true }
        claims.replace(claim)
        enter(claim)
        // Q5: If a claim was removed from a very long queue and added again, the rule for very long queues stays in
        // force.
        for resource in overlongBefore { locks.restoreOverlong(resource, within: limits.queue) }
        addContendedToReview(by: former)
        // D2: The claim's program may make fewer claims wait than before.
        if former.isHeld, let party = families.party(of: id) { addRelativesToCandidates(of: party) }
        agenda.addResources((former.requiredLocks + claim.requiredLocks).map(\.resource))
        releaseWatchers(of: id)
    }
}

/// How claims stay with items that are moved, and with the targets of symbolic links.
extension Arbiter {
    /// S5, S6: Moves an item with its claims and presenters to another name.
    mutating func move(_ item: ItemID, _ move: Move, _ effects: inout [Effect]) {
        let isDirectory = tree.isDirectory(item)
        for id in allClaims(on: item) {
            guard let claim = claims[id],
                claim.firstOfParts({ $0.item == item && $0.place.isSameName(as: move.from) ? true : nil })
                    != nil
            else { continue }
            var isRetargeted = false
            relocate(id) { part in
                guard part.item == item, part.place.isSameName(as: move.from) else { return part }
                // A handle that holds a claim for a replacement has created this file, so the claim stays with the
                // file.
                let isMaker = claim.isHeld && claim.nature == .handle
                if part.access == .write(.forReplacing), !isMaker, let name = move.placeholder {
                    isRetargeted = true
                    return ClaimRequest.Part(name, part.access, at: move.from)
                }
                guard move.to.directory != nil else { return part }
                return ClaimRequest.Part(item, part.access, at: move.to, via: part.via)
            }
            guard isRetargeted, let name = move.placeholder else { continue }
            if claim.isHeld {
                effects.append(.retarget(id, from: item, to: name))
            } else {
                retarget(id, from: item, to: name, &effects)
            }
        }
        if isDirectory, move.to.directory != nil {
            return place(item, DirectoryInfo(in: move.to.directory, isPackage: tree.isPackage(item)))
        }
        for presenter in registry.presented[item] ?? [] {
            guard move.to.directory != nil,
                registry.records[presenter]?.place.isSameName(as: move.from) ?? false
            else {
                continue
            }
            leavePlace(presenter)
            registry.updateRecord(presenter) { $0.place = move.to }
            enterPlace(presenter, in: move.to.directory)
        }
    }

    /// S7: Called when a symbolic link has a new target: waiting reads that followed the link wait for the new target.
    mutating func follow(_ link: ItemID, to target: ItemID, _ place: Place, _ effects: inout [Effect]) {
        for id in waits.claims(resolving: link) {
            guard let claim = claims[id],
                let former = claim.firstOfParts({ $0.via == link && $0.item != target ? $0.item : nil })
            else { continue }
            relocate(id) { part in
                part.via == link ? ClaimRequest.Part(target, part.access, at: place, via: link) : part
            }
            retarget(id, from: former, to: target, &effects)
        }
    }

    /// S6, S7: Moves a waiting claim to another item. Presenters are selected again (P1), because the presenters of the
    /// new item were not asked.
    private mutating func retarget(
        _ id: ClaimID, from former: ItemID, to item: ItemID, _ effects: inout [Effect]
    ) {
        effects.append(.retarget(id, from: former, to: item))
        leaveAccessSessions(id, atOnce: false, &effects)
        claims.update(id) { $0.hasConsulted = false }
        agenda.addGrantCandidate(id)
    }
}

/// How presenters are added to the lists of their items and directories.
extension Arbiter {
    mutating func present(_ presenter: Presenter) {
        registry.insert(presenter)
        if let item = presenter.item { show(presenter.id, item, presenter.place) }
    }

    /// P21: Called when the item of a presenter exists from now on, or the presenter shows another item.
    mutating func show(_ id: PresenterID, _ item: ItemID, _ place: Place) {
        guard registry.records[id] != nil else { return }
        leavePlace(id)
        registry.leave(id)
        registry.updateRecord(id) { $0.place = place }
        registry.enter(id, at: item)
        enterPlace(id, in: tree.parent(of: item, at: place))
    }

    /// Adds a presenter to the list of its item's directory.
    mutating func enterPlace(_ id: PresenterID, in directory: ItemID?) {
        registry.enterDirectory(directory, id)
        guard let directory else { return }
        tree.ensureNode(directory)
        tree.count(1, from: directory)
    }

    mutating func leavePlace(_ id: PresenterID) {
        guard let record = registry.records[id], record.item != nil, let directory = record.place.directory
        else {
            return
        }
        tree.count(-1, from: directory)
        registry.leaveDirectory(directory, id)
    }
}
