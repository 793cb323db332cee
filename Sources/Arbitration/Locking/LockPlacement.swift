// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The required locks of claims, given the places of their items.
extension Arbiter {
    /// S1 to S4.
    func requiredLocks(of claim: Claim) -> [RequiredLock] {
        // B1.
        if claim.nature == .batch { return [] }
        var requiredLocks: [RequiredLock] = []
        claim.forEachPart { part in
            let isWrite = part.access.isWrite
            requiredLocks.add(.item(part.item), isWrite: isWrite)
            if tree.isEmpty { return }
            let outermostPackage = tree.outermostPackage(of: part.item, at: part.place)
            // S2.
            if let outermostPackage { requiredLocks.add(.item(outermostPackage), isWrite: isWrite) }
            // S3.
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

    /// S4: whether a claim below a directory requires its contents to read.
    private func isEntered(_ claim: Claim, in directory: ItemID) -> Bool {
        guard let subtreeLock = locks.subtreeLock(of: directory) else { return false }
        // Every claim made after a change of names gets the lock.
        return subtreeLock.isComplete || claim.nature == .aware || claims[claim.id] == nil
            || claim.isWriting(.contents(of: directory)) != nil
    }

    /// S4: Enters the claims that this claim will meet in contents, before its first check for blockers.
    mutating func lockSubtrees(_ claim: Claim) {
        claim.forEachRequiredLock { lock in
            if lock.isWrite, lock.resource.isContents { lockSubtree(lock.resource.item, by: claim) }
        }
    }

    private mutating func lockSubtree(_ directory: ItemID, by claim: Claim) {
        let (isFirst, mustEnterAll) = locks.lockSubtree(
            directory, completely: claim.nature != .nameChange)
        guard mustEnterAll || isFirst else { return }
        // In any order, because a lock queue sorts.
        let ids = mustEnterAll ? Array(claims.ids) : Array(claims.aware)
        var subtree = DirectoryTree.Subtree(below: directory)
        for id in ids where id != claim.id { enterContents(of: &subtree, id) }
        // A holder that is entered there may keep out a claim that waits already.
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

    /// S4: Removes the read locks on contents once no claim requires them to write.
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
    /// S5.
    mutating func place(_ item: ItemID, _ directory: DirectoryInfo) {
        let own = registry.presented[item] ?? []
        for presenter in own { leavePlace(presenter) }
        // Nothing refers to a directory that was not known before.
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

    /// Replaces the parts of a claim and its required locks, as one step (R3, S5, S6, S7).
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
        // The locks on contents that stay required must not be released meanwhile.
        claim.setRequiredLocks(wanted)
        lockSubtrees(claim)
        let overlongBefore = former.requiredLocks.map(\.resource).filter(isOverlong)
        leave(former)
        releaseSubtreeLocks(former)
        // Contents that no claim requires to write are not required to read.
        claim.setRequiredLocks(requiredLocks(of: claim))
        // I1: claims that it meets there were not checked when it was granted.
        if claim.isHeld { claim.mayOverlap = true }
        claims.replace(claim)
        enter(claim)
        // Q5: the claim has not left the queue.
        for resource in overlongBefore { locks.restoreOverlong(resource, within: limits.queue) }
        addContendedToReview(by: former)
        // D2: the program may hold up fewer claims than before.
        if former.isHeld, let party = families.party(of: id) { addRelativesToCandidates(of: party) }
        agenda.addResources((former.requiredLocks + claim.requiredLocks).map(\.resource))
        releaseWatchers(of: id)
    }
}

/// How claims follow moves and links.
extension Arbiter {
    /// S5, S6.
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
                // The creator of a file has it open, and its handle stays with the file.
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

    /// S7.
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

    /// S6, S7; P1: Moves a waiting claim to another item; presenters of that item were not asked.
    private mutating func retarget(
        _ id: ClaimID, from former: ItemID, to item: ItemID, _ effects: inout [Effect]
    ) {
        effects.append(.retarget(id, from: former, to: item))
        leaveAccessSessions(id, atOnce: false, &effects)
        claims.update(id) { $0.hasConsulted = false }
        agenda.addGrantCandidate(id)
    }
}

/// How presenters are placed.
extension Arbiter {
    mutating func present(_ presenter: Presenter) {
        registry.insert(presenter)
        if let item = presenter.item { show(presenter.id, item, presenter.place) }
    }

    /// P21.
    mutating func show(_ id: PresenterID, _ item: ItemID, _ place: Place) {
        guard registry.records[id] != nil else { return }
        leavePlace(id)
        registry.leave(id)
        registry.updateRecord(id) { $0.place = place }
        registry.enter(id, at: item)
        enterPlace(id, in: tree.parent(of: item, at: place))
    }

    /// Counts a presenter at the directory of its item.
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
