// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The actions of programs and users in a generated simulation.
extension WorldGenerator {
    mutating func act() {
        doWhatIsDue()
        switch chance.below(100) {
        case 0..<22: open()
        case 22..<27: request()
        case 27..<39: changeNames()
        case 39..<55: access()
        case 55..<58: prepare()
        case 58..<62: beginSave()
        case 62..<68: present()
        case 68..<69: if let id = chance.one(of: model.presenterModels.keys.sorted()) { leave(id) }
        case 69..<70: die(chance.isLucky(50) ? program() : awareProgram())
        case 70..<72: mark()
        case 72..<73: relink()
        case 73..<76: makeSomething()
        case 76..<79: changeAroundClaims()
        case 79: showLater()
        case 80: if chance.isLucky(50) { sendStray() } else { hurry() }
        case 81: if let claim = chance.one(of: model.waiting) { tell(.withdrawn(claim.id)) }
        case 82..<84: perform(.late(.milliseconds(chance.milliseconds(1...1_500))))
        case 84..<86: cross()
        case 86..<88: writeOn()
        default: pass(.milliseconds(chance.milliseconds(chance.isLucky(80) ? 0...150 : 200...3_000)))
        }
        if let directory = directoriesToForget.first, chance.isLucky(30) { forgetIfUnused(directory) }
    }

    func anyone(of parties: [Party], _ chance: inout SeededRandom) -> Party {
        chance.one(of: parties) ?? .nobody
    }
    mutating func program() -> Party { anyone(of: population.programs, &chance) }
    mutating func awareProgram() -> Party { anyone(of: population.aware, &chance) }

    /// Returns a part of a claim: an item, one of its names, and the access. If there are many programs, most parts are for a
    /// few items.
    mutating func part(_ items: [ItemID], _ access: Access) -> ClaimRequest.Part? {
        let few = chance.isLucky(families > 100 ? 15 : 60) ? Array(items.prefix(3)) : items
        guard let item = chance.one(of: few), let place = chance.one(of: tree.nodes[item]?.names ?? []) else {
            return nil
        }
        return ClaimRequest.Part(item, access, at: place)
    }

    private mutating func readingOptions() -> ReadingOptions {
        chance.isLucky(60) ? [] : ReadingOptions(rawValue: UInt8(chance.below(16)) & ~2)
    }

    mutating func open() {
        let access: Access =
            switch chance.below(10) {
            case 0..<5: .read()
            case 5..<8: .write(.updating)
            default: .write(.forMerging)
            }
        if chance.isLucky(10) { return create(by: program()) }
        guard let part = part(tree.files, access) else { return }
        var request = ClaimRequest(nextClaim(), .handle, part, accessPattern: accessPattern(access))
        if seed % 20 == 7, chance.isLucky(30) { request.bounds = ownBounds() }
        claim(request, by: program(), .use)
    }

    /// T1, Y6: makes time limits for one claim. In most worlds, no claim has any.
    private mutating func ownBounds() -> ClaimBounds {
        var bounds = ClaimBounds()
        if chance.isLucky(60) { bounds.wait = .milliseconds(UInt64(100 + chance.below(4_000))) }
        if chance.isLucky(60) { bounds.hold = .milliseconds(UInt64(100 + chance.below(4_000))) }
        return bounds
    }

    private mutating func accessPattern(_ access: Access) -> ClaimRequest.AccessPattern {
        var accessPattern: ClaimRequest.AccessPattern = chance.isLucky(15) ? .locks : []
        if access == .write(.forMerging), chance.isLucky(40) { accessPattern.insert(.appends) }
        return accessPattern
    }

    private mutating func create(by party: Party) {
        guard let directory = chance.one(of: tree.directories) else { return }
        let old = deletedItems.filter { tree.nodes[$0.value.directory ?? ItemID(0)] != nil }.keys.sorted()
        // Sometimes a deleted file is created again, as the same document.
        let item = chance.isLucky(40) ? chance.one(of: old) ?? tree.fresh() : tree.fresh()
        let place = deletedItems[item] ?? Place(in: directory)
        let part = ClaimRequest.Part(item, .write(.forReplacing), at: place)
        claim(ClaimRequest(nextClaim(), .handle, part), by: party, .use)
    }

    mutating func request() {
        let access: Access = .write(chance.isLucky(60) ? .updating : .contentIndependentMetadataOnly)
        guard let part = part(chance.isLucky(80) ? tree.files : tree.directories, access) else { return }
        claim(ClaimRequest(nextClaim(), .handleless, part), by: program(), .act)
    }

    mutating func changeNames() {
        let party = program()
        switch chance.below(10) {
        case 0..<3:
            let items = tree.files + tree.links + tree.directories.filter { tree.children(of: $0).isEmpty }
            guard let part = part(items.filter { $0 != ModelTree.root }, .write(.forDeleting)) else { return }
            claim(ClaimRequest(nextClaim(), .nameChange, part), by: party, .act)
        case 3..<6: moveSomething(tree.files + tree.links, .nameChange, by: party)
        case 6..<8: moveSomething(tree.directories, .nameChange, by: party)
        default:
            // The program renames a file over another file in the same directory.
            guard let source = chance.one(of: tree.files), tree.nodes[source]?.names.count == 1,
                let place = tree.nodes[source]?.names.first, let directory = place.directory,
                let target = chance.one(
                    of: tree.children(of: directory).filter {
                        $0 != source && tree.nodes[$0]?.kind == .file && tree.nodes[$0]?.names == [place]
                    })
            else { return }
            let request = ClaimRequest(
                nextClaim(), .nameChange, ClaimRequest.Part(source, .write(.forMoving), at: place),
                ClaimRequest.Part(target, .write(.forReplacing), at: place))
            claim(request, by: party, .act)
        }
    }

    private mutating func moveSomething(_ items: [ItemID], _ nature: ClaimRequest.Nature, by party: Party) {
        let items = items.filter { $0 != ModelTree.root }
        guard let part = part(items, .write(.forMoving)) else { return }
        claim(ClaimRequest(nextClaim(), nature, part), by: party, .act)
    }

    /// Makes an access over the control socket, with one to four parts of any kind.
    mutating func access() { access(by: awareProgram(), within: []) }

    mutating func access(by party: Party, within: [ClaimID]) {
        var parts: [ClaimRequest.Part] = []
        let count = chance.isLucky(70) ? 1 : 2 + chance.below(3)
        for _ in 0..<count { if let part = anyPart() { parts.append(part) } }
        guard let first = parts.first else { return }
        var request = ClaimRequest(nextClaim(), .aware, first, Array(parts.dropFirst()))
        request.within = within
        if chance.isLucky(20),
            let question = model.questions.values.sorted(by: { $0.id < $1.id }).first(where: {
                model.presenterModels[$0.presenter]?.party.process == party.process
            })
        {
            request.answering = question.id
        }
        claim(request, by: party, .use)
    }

    private mutating func anyPart() -> ClaimRequest.Part? {
        let everything = tree.files + tree.directories + tree.links
        switch chance.below(12) {
        case 0..<4: return part(chance.isLucky(70) ? tree.files : everything, .read(readingOptions()))
        case 4:
            guard let link = chance.one(of: tree.links), case .link(let item) = tree.nodes[link]?.kind,
                let place = tree.nodes[item]?.names.first
            else { return nil }
            return ClaimRequest.Part(item, .read(.resolvesSymbolicLink), at: place, via: link)
        case 5..<9:
            let option: WritingOption = chance.isLucky(70) ? .updating : .forMerging
            return part(chance.isLucky(70) ? tree.files : tree.files + tree.directories, .write(option))
        case 9: return part(everything.filter { $0 != ModelTree.root }, .write(.forMoving))
        case 10: return part(everything.filter { $0 != ModelTree.root }, .write(.forDeleting))
        default:
            return part(
                tree.files, .write(chance.isLucky(60) ? .forReplacing : .contentIndependentMetadataOnly))
        }
    }

    mutating func prepare() {
        var parts: [ClaimRequest.Part] = []
        for _ in 0...chance.below(4) { if let part = anyPart() { parts.append(part) } }
        guard let first = parts.first else { return }
        claim(
            ClaimRequest(nextClaim(), .batch, first, Array(parts.dropFirst())), by: awareProgram(), .prepare)
    }

    /// Makes an access for the maker of `outer`. Sometimes the access does not declare that it is within `outer`.
    mutating func nest(in outer: ClaimID) {
        guard model.claims[outer]?.isHeld ?? false, let maker = makers[outer] else { return }
        if model.claims[outer]?.nature == .aware || model.claims[outer]?.isBatch ?? false {
            var party = maker
            // If the access does not declare that it is nested, it has another purpose, or comes from a child that does not use
            // the socket.
            if chance.isLucky(30) { party = population.aware.first { $0.process == maker.process } ?? maker }
            if chance.isLucky(25) {
                party.purpose = nil
                guard let part = part(tree.files, chance.isLucky(50) ? .read() : .write(.updating)) else {
                    return
                }
                return claim(ClaimRequest(nextClaim(), .handle, part), by: party, .use)
            }
            let isBatch = model.claims[outer]?.isBatch ?? false
            access(by: party, within: chance.isLucky(60) && !isBatch ? [outer] : [])
        } else {
            guard let part = part(tree.files, chance.isLucky(50) ? .read() : .write(.updating)) else {
                return
            }
            claim(ClaimRequest(nextClaim(), .handle, part), by: maker, .use)
        }
    }

    /// Makes two programs want two files in opposite order: one program makes a claim on A and then on B, the other on B and
    /// then on A.
    mutating func cross() {
        let files = tree.files
        guard files.count > 1, let one = chance.one(of: files), let other = chance.one(of: files),
            one != other,
            let place = tree.nodes[one]?.names.first, let otherPlace = tree.nodes[other]?.names.first
        else { return }
        let parts = [
            ClaimRequest.Part(one, .write(.updating), at: place),
            ClaimRequest.Part(other, .write(.updating), at: otherPlace),
        ]
        let kinds = [chance.isLucky(60), chance.isLucky(60)]
        let parties = kinds.map { $0 ? awareProgram() : program() }
        var outer: [ClaimID] = []
        for index in 0..<2 {
            outer.append(nextClaim())
            claim(
                ClaimRequest(outer[index], kinds[index] ? .aware : .handle, parts[index]), by: parties[index],
                .use
            )
        }
        for index in 0..<2 {
            var request = ClaimRequest(nextClaim(), kinds[index] ? .aware : .handle, parts[1 - index])
            if kinds[index], chance.isLucky(50) { request.within = [outer[index]] }
            claim(request, by: parties[index], .use)
        }
    }

    // MARK: Actions that concern presenters

    mutating func present() {
        guard let party = chance.one(of: population.editors), model.presenterModels.count < 24 else { return }
        lastPresenter += 1
        let id = PresenterID(lastPresenter)
        let kinds = [
            tree.files, tree.files, tree.directories, tree.directories.filter { model.isPackage($0) },
        ]
        let items = kinds[chance.below(kinds.count)]
        let shown = chance.isLucky(8) ? nil : part(items, .read())
        let messages: PresenterMessages =
            chance.isLucky(65) ? .all : PresenterMessages(rawValue: UInt32(chance.below(2_048)))
        habits[id] = chance.one(of: PresenterBehavior.allCases)
        tell(
            .presented(Presenter(id, of: shown?.item, at: shown?.place ?? Place(), by: party, messages)))
    }

    mutating func showLater() {
        let unseen = model.presenterModels.filter { $1.item == nil }.keys.sorted()
        guard let id = chance.one(of: unseen), let part = part(tree.files, .read()) else { return }
        tell(.shown(id, part.item, at: part.place))
    }

    /// P4: gives a presenter less time to answer an open question.
    mutating func hurry() {
        let question = chance.one(of: model.questions.keys.sorted()) ?? QuestionID(1)
        tell(.hurried(question, .milliseconds(chance.milliseconds(0...1_000))))
    }

    /// Sends events that are impossible in the current state. The arbiter must accept such events without effect.
    mutating func sendStray() {
        let (claim, question) = (ClaimID(lastClaim + 1_000), QuestionID(UInt64(chance.below(2_000))))
        switch chance.below(7) {
        case 6:
            tell(.locked(claim))
            tell(.closed(claim))
            tell(.overdue(claim))
        case 0: tell(.ended(claim))
        case 1: tell(.withdrawn(claim))
        case 2: tell(.forced(claim))
        case 3: tell(.identified(claim, program()))
        case 4: tell(.progressed(question))
        default:
            if let id = model.presenterModels.keys.sorted().first {
                tell(.answered(question, by: id, .failed))
            }
        }
    }
}
