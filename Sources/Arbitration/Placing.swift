// SPDX-License-Identifier: Apache-2.0
import Coordination

/// How many stake the contents of a directory to write, and whom they have met.
struct Dispute: Sendable {
    var claims = 0
    /// Whether every claim below has its stake; otherwise aware ones only.
    var isComplete = false
}

/// What claims stake, given where things are.
extension Arbiter {
    /// S1 to S4.
    func stakes(of claim: Claim) -> [Stake] {
        // B1.
        if claim.nature == .batch { return [] }
        var stakes: [Stake] = []
        claim.forEachPart { part in
            let isWrite = part.access.isWrite
            stakes.add(.item(part.item), isWrite: isWrite)
            if tree.isEmpty { return }
            let unit = tree.unit(of: part.item, at: part.place)
            // S2.
            if let unit { stakes.add(.item(unit), isWrite: isWrite) }
            // S3.
            if unit == nil, part.access.isStructural, tree.isDirectory(part.item) {
                stakes.add(.contents(of: part.item), isWrite: true)
            }
            if disputed.isEmpty { return }
            for directory in tree.ancestors(of: part.item, at: part.place)
            where isEntered(claim, in: directory) {
                stakes.add(.contents(of: directory), isWrite: false)
            }
        }
        return stakes
    }

    /// S4: whether a claim below a directory has a stake in its contents.
    private func isEntered(_ claim: Claim, in directory: ItemID) -> Bool {
        guard let dispute = disputed[directory] else { return false }
        // Those who come after a change of names find it there, whoever they are.
        return dispute.isComplete || claim.nature == .aware || claims[claim.id] == nil
            || claim.isWriting(.contents(of: directory)) != nil
    }

    /// S4: before a claim's first look round, those it will meet in contents are entered there.
    mutating func dispute(_ claim: Claim) {
        claim.forEachStake { stake in
            if stake.isWrite, stake.resource.isContents { dispute(stake.resource.item, by: claim) }
        }
    }

    private mutating func dispute(_ directory: ItemID, by claim: Claim) {
        var dispute = disputed[directory] ?? Dispute()
        let isFirst = dispute.claims == 0
        dispute.claims += 1
        let isNameChange = claim.nature == .nameChange
        let mustEnterAll = !isNameChange && !dispute.isComplete
        if mustEnterAll { dispute.isComplete = true }
        disputed[directory] = dispute
        guard mustEnterAll || isFirst else { return }
        // In any order: a docket sorts.
        let ids = mustEnterAll ? Array(claims.keys) : Array(aware)
        var subtree = Tree.Subtree(below: directory)
        for id in ids where id != claim.id { enterContents(of: &subtree, id) }
        // A holder that is entered there may keep out a claim that waits already.
        guard let held = dockets[.contents(of: directory)]?.held else { return }
        shakeHolders(at: .contents(of: directory), held)
    }

    private mutating func enterContents(of subtree: inout Tree.Subtree, _ id: ClaimID) {
        let contents = Resource.contents(of: subtree.top)
        guard var claim = claims[id], claim.nature != .batch, claim.isWriting(contents) == nil,
            claim.firstOfParts({ subtree.contains($0.item, at: $0.place, in: tree) ? true : nil }) != nil
        else { return }
        let stake = Stake(contents, isWrite: false)
        claim.setStakes(claim.stakes + [stake])
        claims[id] = claim
        enter(claim, stake)
    }

    /// S4: after the last who staked contents to write nobody stakes them to read.
    mutating func settleDispute(_ claim: Claim) {
        if disputed.isEmpty { return }
        claim.forEachStake { stake in
            if stake.isWrite, stake.resource.isContents { settleDispute(over: stake.resource.item) }
        }
    }

    private mutating func settleDispute(over directory: ItemID) {
        guard var dispute = disputed[directory] else { return }
        dispute.claims -= 1
        disputed[directory] = dispute.claims > 0 ? dispute : nil
        guard dispute.claims == 0, let docket = dockets.removeValue(forKey: .contents(of: directory)) else {
            return
        }
        standoffs[.contents(of: directory)] = nil
        throngs[.contents(of: directory)] = nil
        crowded.remove(.contents(of: directory))
        for side in [docket.held, docket.waiting] {
            for id in Array(side.readers) + Array(side.writers) {
                if let claim = claims[id] {
                    claim.forEachStake { stake in
                        if stake.resource == .contents(of: directory) { _ = abandon(claim, at: stake) }
                    }
                }
                let rest = claims[id]?.stakes.filter { $0.resource != .contents(of: directory) }
                if let rest { claims[id]?.setStakes(rest) }
            }
        }
    }
}

/// Where directories are.
extension Arbiter {
    /// S5.
    mutating func place(_ item: ItemID, _ directory: Directory) {
        let own = desk.presented[item] ?? []
        for presenter in own { leavePlace(presenter) }
        // Of what was not known nothing was named.
        let isNew = !tree.isDirectory(item)
        let haveUnitsChanged = tree.place(item, directory)
        let parent = tree.parent(of: item, at: Place())
        for presenter in own { enterPlace(presenter, in: parent) }
        if isNew || (disputed.isEmpty && !haveUnitsChanged) { return }
        var subtree = Tree.Subtree(below: item)
        let ids = claims.values.filter { claim in
            claim.firstOfParts { part in
                part.item == item || subtree.contains(part.item, at: part.place, in: tree) ? true : nil
            } != nil
        }.map(\.id)
        for id in ids.sorted() { restake(id) { $0 } }
    }

    /// Puts other parts in the place of a claim's own and stakes it anew, as one step (R3, S5, S6, S7).
    mutating func restake(_ id: ClaimID, _ body: (Request.Part) -> Request.Part) {
        guard let former = claims[id] else { return }
        var claim = former
        claim.setParts(body)
        if !claim.isHeld {
            noteResolving(former) { $0.remove(id) }
            noteResolving(claim) { $0.insert(id) }
        }
        let wanted = stakes(of: claim)
        guard Set(wanted) != Set(former.stakes) else {
            claims[id] = claim
            return
        }
        // What it goes on to dispute does not cease to be disputed meanwhile.
        claim.setStakes(wanted)
        dispute(claim)
        let crowdedBefore = former.stakes.map(\.resource).filter(isCrowded)
        leave(former)
        settleDispute(former)
        // What it no longer disputes nobody stakes to read.
        claim.setStakes(stakes(of: claim))
        // I1: those it meets there were not weighed against it when it was granted.
        if claim.isHeld { claim.wentOver = true }
        claims[id] = claim
        enter(claim)
        // Q5: it was not away.
        for resource in crowdedBefore where dockets[resource]?.waiting.count ?? 0 > crowd.queue / 2 {
            crowded.insert(resource)
        }
        shakeContested(by: former)
        // D2: whom its program held up may be so no longer.
        if former.isHeld, let party = parties[id] { suspectRelatives(of: party) }
        touched.formUnion((former.stakes + claim.stakes).map(\.resource))
        releaseWatchers(of: id)
    }
}

/// How claims follow names.
extension Arbiter {
    /// S5, S6.
    mutating func move(_ item: ItemID, _ move: Move, _ effects: inout [Effect]) {
        let isDirectory = tree.isDirectory(item)
        for id in everybody(on: item) {
            guard let claim = claims[id],
                claim.firstOfParts({ $0.item == item && $0.place.isSameName(as: move.from) ? true : nil })
                    != nil
            else { continue }
            var isRetargeted = false
            restake(id) { part in
                guard part.item == item, part.place.isSameName(as: move.from) else { return part }
                // Who makes a file has it open, and goes on with that.
                let isMaker = claim.isHeld && claim.nature == .handle
                if part.access == .write(.forReplacing), !isMaker, let name = move.leaving {
                    isRetargeted = true
                    return Request.Part(name, part.access, at: move.from)
                }
                guard move.to.directory != nil else { return part }
                return Request.Part(item, part.access, at: move.to, via: part.via)
            }
            guard isRetargeted, let name = move.leaving else { continue }
            if claim.isHeld {
                effects.append(.retarget(id, from: item, to: name))
            } else {
                retarget(id, from: item, to: name, &effects)
            }
        }
        if isDirectory, move.to.directory != nil {
            return place(item, Directory(in: move.to.directory, isPackage: tree.isPackage(item)))
        }
        for presenter in desk.presented[item] ?? [] {
            guard move.to.directory != nil, desk.records[presenter]?.place.isSameName(as: move.from) ?? false
            else {
                continue
            }
            leavePlace(presenter)
            desk.records[presenter]?.place = move.to
            enterPlace(presenter, in: move.to.directory)
        }
    }

    /// S7.
    mutating func follow(_ link: ItemID, to target: ItemID, _ place: Place, _ effects: inout [Effect]) {
        for id in (resolving[link] ?? []).sorted() {
            guard let claim = claims[id],
                let former = claim.firstOfParts({ $0.via == link && $0.item != target ? $0.item : nil })
            else { continue }
            restake(id) { part in
                part.via == link ? Request.Part(target, part.access, at: place, via: link) : part
            }
            retarget(id, from: former, to: target, &effects)
        }
    }

    /// S6, S7; P1: those who show what it is on now were not asked.
    private mutating func retarget(
        _ id: ClaimID, from former: ItemID, to item: ItemID, _ effects: inout [Effect]
    ) {
        effects.append(.retarget(id, from: former, to: item))
        leaveTurns(id, atOnce: false, &effects)
        claims[id]?.isPut = false
        unsettled.append(id)
    }
}

/// Where presenters are.
extension Arbiter {
    mutating func present(_ presenter: Presenter) {
        desk.insert(presenter)
        if let item = presenter.item { show(presenter.id, item, presenter.place) }
    }

    /// P21.
    mutating func show(_ id: PresenterID, _ item: ItemID, _ place: Place) {
        guard desk.records[id] != nil else { return }
        leavePlace(id)
        desk.leave(id)
        desk.records[id]?.place = place
        desk.enter(id, at: item)
        enterPlace(id, in: tree.parent(of: item, at: place))
    }

    /// Counts a presenter where its item is.
    mutating func enterPlace(_ id: PresenterID, in directory: ItemID?) {
        desk.records[id]?.place.directory = directory
        guard let directory else { return }
        tree.expect(directory)
        tree.count(1, from: directory)
        desk.byDirectory[directory, default: []].insert(id)
    }

    mutating func leavePlace(_ id: PresenterID) {
        guard let record = desk.records[id], record.item != nil, let directory = record.place.directory else {
            return
        }
        tree.count(-1, from: directory)
        desk.byDirectory[directory]?.remove(id)
        if desk.byDirectory[directory]?.isEmpty ?? false { desk.byDirectory[directory] = nil }
    }
}
