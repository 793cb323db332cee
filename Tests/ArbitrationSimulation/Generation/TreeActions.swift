// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Changes of files and directories, and the events that report the changes to the arbiter.
extension WorldGenerator {
    mutating func makeDirectory() {
        guard let parent = chance.one(of: tree.directories.filter { tree.depth(of: $0) < 5 }) else { return }
        let item = tree.fresh()
        let isPackage = chance.isLucky(25)
        tree.add(item, .directory(isPackage: isPackage), [Place(in: parent)])
        tell(.placed(item, DirectoryInfo(in: parent, isPackage: isPackage)))
        if lastClaim > 0 { tell(.created(item, at: Place(in: parent), by: program(), under: nil)) }
    }

    mutating func addFile() {
        guard let directory = chance.one(of: tree.directories) else { return }
        tree.add(tree.fresh(), .file, [Place(in: directory)])
    }

    mutating func addHardLink() {
        guard let one = chance.one(of: tree.directories), let other = chance.one(of: tree.directories) else {
            return
        }
        let names = [Place(in: one, link: tree.freshLink()), Place(in: other, link: tree.freshLink())]
        tree.add(tree.fresh(), .file, names)
    }

    mutating func addLink() {
        guard let directory = chance.one(of: tree.directories), let target = chance.one(of: tree.files) else {
            return
        }
        tree.add(tree.fresh(), .link(target), [Place(in: directory)])
    }

    mutating func makeSomething() {
        if chance.isLucky(40) { return makeDirectory() }
        // The file is made without a claim, because Truce does not see the open of this new file.
        guard let directory = chance.one(of: tree.directories) else { return }
        let item = tree.fresh()
        tree.add(item, .file, [Place(in: directory)])
        tell(.created(item, at: Place(in: directory), by: program(), under: nil))
    }

    /// Makes a plain directory a package, or a package a plain directory.
    mutating func mark() {
        guard let item = chance.one(of: tree.directories.filter { $0 != ModelTree.root }),
            var directory = model.directories[item]
        else { return }
        directory.isPackage.toggle()
        tree.setKind(item, .directory(isPackage: directory.isPackage))
        tell(.placed(item, directory))
    }

    mutating func relink() {
        guard let link = chance.one(of: tree.links), let target = chance.one(of: tree.files),
            let place = tree.nodes[target]?.names.first, tree.nodes[link]?.kind != .link(target)
        else { return }
        tree.setKind(link, .link(target))
        tell(.relinked(link, to: target, at: place))
    }

    /// Reports a change that was made without a claim.
    mutating func changeAroundClaims() {
        let party = program()
        guard let part = part(tree.files + tree.directories, .read()) else { return }
        let stamp = UInt64(100 + chance.below(100))
        tell(.changed(part.item, at: part.place, Cause(party, .write(.updating)), under: nil, stamp: stamp))
    }

    /// Lets a program write to its open file and go on.
    mutating func writeOn() {
        let writers = model.claims.values.filter { $0.isHeld && $0.nature == .handle }.sorted {
            $0.id < $1.id
        }
        guard let entry = chance.one(of: writers),
            let part = entry.parts.first(where: { $0.access.isWrite && tree.nodes[$0.item] != nil })
        else { return }
        if stamps[entry.id] == nil || chance.isLucky(70) { stamps[entry.id] = (stamps[entry.id] ?? 0) + 1 }
        let cause = Cause(maker(entry.id), .write(.updating))
        tell(.written(part.item, at: part.place, cause, under: entry.id, stamp: stamps[entry.id] ?? 1))
    }

    // MARK: Changes by programs that hold a claim

    /// Carries out the changes of a held claim. Changes that the tree no longer allows are left out.
    mutating func carryOut(_ entry: WorldModel.ClaimModel) {
        if entry.isBatch || entry.nature == .pendingSave { return }
        if entry.nature == .nameChange, entry.parts.count == 2 { return renameOver(entry) }
        for part in entry.parts where part.access.isWrite {
            // Some accesses end without a change.
            if entry.nature == .aware || entry.nature == .handle, chance.isLucky(30) { continue }
            switch part.access {
            case .write(.forDeleting): delete(part, entry.id)
            case .write(.forMoving): move(part, entry.id)
            case .write(.forReplacing):
                if tree.nodes[part.item] == nil { create(part, entry) } else { change(part, entry.id) }
            default: change(part, entry.id)
            }
        }
    }

    private func maker(_ claim: ClaimID) -> Party { simulationRun.maker(of: claim) }

    private mutating func change(_ part: ClaimRequest.Part, _ claim: ClaimID) {
        // A file without a name has no presenter, so its changes are not reported.
        guard tree.nodes[part.item] != nil else { return }
        let stamp = chance.isLucky(60) ? (stamps[claim] ?? 0) + 1 : stamps[claim] ?? 1
        tell(
            .changed(
                part.item, at: part.place, Cause(maker(claim), .write(.updating)), under: claim, stamp: stamp)
        )
    }

    private mutating func create(_ part: ClaimRequest.Part, _ entry: WorldModel.ClaimModel) {
        guard entry.nature == .handle, let directory = part.place.directory, tree.nodes[directory] != nil
        else {
            return
        }
        deletedItems[part.item] = nil
        tree.add(part.item, .file, [part.place])
        tell(.created(part.item, at: part.place, by: maker(entry.id), under: entry.id))
        if chance.isLucky(60) { change(part, entry.id) }
    }

    private mutating func delete(_ part: ClaimRequest.Part, _ claim: ClaimID) {
        guard let node = tree.nodes[part.item], part.item != ModelTree.root else { return }
        if node.isDirectory {
            let children = tree.children(of: part.item)
            // rmdir(2) refuses a directory that is not empty. An access over the socket deletes the contents first.
            if !children.isEmpty, model.claims[claim]?.nature == .nameChange { return }
            for child in children {
                for name in tree.nodes[child]?.names ?? [] where name.directory == part.item {
                    delete(ClaimRequest.Part(child, part.access, at: name), claim)
                }
            }
        }
        guard let name = tree.nodes[part.item]?.names.first(where: { $0 == part.place }) else { return }
        let left = (tree.nodes[part.item]?.names ?? []).filter { $0 != name }
        if left.isEmpty {
            tree.remove(part.item)
            if node.kind == .file, name.link == nil { deletedItems[part.item] = name }
            if node.isDirectory { directoriesToForget.append(part.item) }
            for link in tree.links where tree.nodes[link]?.kind == .link(part.item) { dangle(link, claim) }
        } else {
            tree.setNames(part.item, left)
        }
        tell(.deleted(part.item, at: name, by: maker(claim), under: claim))
    }

    /// Makes a symbolic link lead to another file when its target has no name any more. This model has no dangling links.
    private mutating func dangle(_ link: ItemID, _ claim: ClaimID) {
        if let other = chance.one(of: tree.files) { tree.setKind(link, .link(other)) }
    }

    private mutating func move(_ part: ClaimRequest.Part, _ claim: ClaimID) {
        guard let node = tree.nodes[part.item], part.item != ModelTree.root,
            let from = node.names.first(where: { $0 == part.place }),
            let directory = chance.one(
                of: tree.directories.filter { !node.isDirectory || !tree.isWithin($0, part.item) })
        else { return }
        if node.isDirectory, tree.depth(of: directory) > 6 { return }
        let to = Place(in: directory, link: from.link)
        tree.setNames(part.item, node.names.map { $0 == from ? to : $0 })
        // A claim that waits to replace the moved item must stay with the item's former name. So the move contains a new item
        // number for this name.
        let isAwaited = model.claims.values.contains { other in
            other.parts.contains { $0.item == part.item && $0.access == .write(.forReplacing) }
        }
        // Sometimes a move is made through a new file. Then the deletion of the former file is reported before the move.
        if node.kind == .file, from.link == nil, model.claims[claim]?.nature == .aware, chance.isLucky(25) {
            tell(.deleted(part.item, at: from, by: maker(claim), under: claim))
        }
        let move = Move(from: from, to: to, placeholder: isAwaited ? tree.fresh() : nil)
        tell(.moved(part.item, move, by: maker(claim), under: claim))
    }

    private mutating func renameOver(_ entry: WorldModel.ClaimModel) {
        let (source, target) = (entry.parts[0], entry.parts[1])
        guard source.item != target.item, let node = tree.nodes[source.item], tree.nodes[target.item] != nil,
            node.names == [source.place], tree.nodes[target.item]?.names == [source.place]
        else { return }
        tree.remove(source.item)
        for link in tree.links where tree.nodes[link]?.kind == .link(source.item) { dangle(link, entry.id) }
        tell(.replaced(document: target.item, incoming: source.item, orphan: tree.fresh()))
        let cause = Cause(maker(entry.id), .write(.updating))
        tell(.changed(target.item, at: target.place, cause, under: entry.id, stamp: 77))
    }

    // MARK: Saves in several steps

    /// Lets a program rename a document aside or unlink it. The program will later put a new file under the name.
    mutating func beginSave() {
        guard let part = part(tree.files.filter { tree.nodes[$0]?.names.count == 1 }, .write(.updating))
        else {
            return
        }
        let party = chance.isLucky(30) ? anyone(of: population.editors, &chance) : program()
        var unmodified = party
        unmodified.purpose = nil
        claim(ClaimRequest(nextClaim(), .nameChange, part), by: unmodified, .vacate(part.item))
    }

    mutating func vacate(_ document: ItemID, _ claim: ClaimID) {
        guard let place = tree.nodes[document]?.names.first, tree.nodes[document]?.names.count == 1,
            model.claims[claim]?.parts.first?.item == document
        else { return tell(.ended(claim)) }
        let party = makers[claim] ?? .nobody
        let pendingSave = nextClaim()
        self.claim(
            ClaimRequest(
                pendingSave, .pendingSave, ClaimRequest.Part(document, .write(.updating), at: place)),
            by: party, .use)
        tell(.vacated(document: document, orphan: tree.fresh()))
        if model.claims[claim] != nil { tell(.ended(claim)) }
        schedule(.fill(document, party, pendingSave: pendingSave), in: chance.milliseconds(0...60))
    }

    mutating func fill(_ document: ItemID, _ party: Party, _ pendingSave: ClaimID) {
        guard let place = tree.nodes[document]?.names.first, model.claims[pendingSave] != nil else { return }
        if chance.isLucky(15) {
            // The program puts no new file under the name: the removal was no step of a save, so the pending save ends.
            tell(.ended(pendingSave))
            tree.remove(document)
            deletedItems[document] = place.link == nil ? place : nil
            for link in tree.links where tree.nodes[link]?.kind == .link(document) {
                dangle(link, pendingSave)
            }
            return tell(.lost(document, at: place, by: party))
        }
        let part = ClaimRequest.Part(document, .write(.forReplacing), at: place)
        claim(ClaimRequest(nextClaim(), .handle, part), by: party, .fill(document, pendingSave))
    }

    /// Tells the arbiter to forget a deleted directory, once no claim or presenter is in it.
    mutating func forgetIfUnused(_ directory: ItemID) {
        let isNamed =
            model.claims.values.contains { claim in
                claim.parts.contains { $0.item == directory || $0.place.directory == directory }
            }
            || model.presenterModels.values.contains {
                $0.item == directory || $0.place.directory == directory
            }
            || model.directories.values.contains { $0.parent == directory }
        if isNamed || model.directories[directory] == nil { return }
        directoriesToForget.removeAll { $0 == directory }
        for (item, place) in deletedItems where place.directory == directory { deletedItems[item] = nil }
        tell(.forgotten(directory))
    }
}
