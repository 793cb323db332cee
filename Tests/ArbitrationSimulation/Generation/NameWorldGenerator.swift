// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// Generates a simulation from a seed: programs make, link, rename, exchange, save and remove items under a few names in a few
/// directories.
package struct NameWorldGenerator: Sendable {
    package private(set) var simulationRun: SimulationRun
    package private(set) var steps: [SimulationStep] = []
    private var chance: SeededRandom
    private var names: [Place: ItemID] = [:]
    private var directories: [ItemID: Place] = [:]
    private var lastItem: UInt64 = 10
    private var lastClaim: UInt64 = 0
    private var stamp: UInt64 = 0

    private static let root = ItemID(1)
    package static let bounds = Bounds()

    package init(seed: UInt64, injectFault: FaultInjection? = nil) {
        chance = SeededRandom(seed)
        simulationRun = SimulationRun(bounds: Self.bounds, injectFault: injectFault)
    }

    package var findings: [Violation] { simulationRun.findings }

    package mutating func play(acts: Int) {
        settle()
        for _ in 0..<acts where findings.isEmpty {
            act()
            pass()
        }
        perform(.advance(.seconds(20)))
    }

    private mutating func settle() {
        let isPackage = chance.isLucky(20)
        tell(.placed(Self.root, DirectoryInfo(in: nil)))
        directories[Self.root] = Place()
        for (item, parent) in [(2, 1), (3, 1), (4, 2)] as [(UInt64, UInt64)] {
            let place = Place(in: ItemID(parent))
            tell(.placed(ItemID(item), DirectoryInfo(in: ItemID(parent), isPackage: item == 3 && isPackage)))
            directories[ItemID(item)] = place
            names[place] = ItemID(item)
        }
        for number in 1...(2 + UInt64(chance.below(3))) {
            let item = ItemID(1 + UInt64(chance.below(4)))
            var messages = PresenterMessages.all
            if chance.isLucky(50) { messages.remove(.accommodateSubitemDeletion) }
            let editor = Self.program(chance.isLucky(70) ? 50 : 60)
            tell(
                .presented(
                    Presenter(
                        PresenterID(number), of: item, at: directories[item] ?? Place(), by: editor, messages)
                ))
        }
    }

    private static func program(_ number: Int32, below parent: Int32? = nil) -> Party {
        Party(
            process: ProcessID(number: number, started: 1),
            ancestors: parent.map { [ProcessID(number: $0, started: 1)] } ?? [])
    }

    private mutating func party() -> Party {
        switch chance.below(10) {
        case 0..<5: Self.program(100)
        case 5: Self.program(101, below: 100)
        case 6: Self.program(50)
        default: Self.program(200)
        }
    }

    private mutating func pass() {
        switch chance.below(10) {
        case 0..<5: break
        case 5..<8: perform(.advance(.milliseconds(chance.milliseconds(1...200))))
        case 8: perform(.advance(.milliseconds(chance.milliseconds(200...400))))
        default: perform(.advance(.seconds(20)))
        }
    }

    private mutating func tell(_ event: ArbiterEvent) { perform(.event(event)) }

    private mutating func perform(_ step: SimulationStep) {
        guard findings.isEmpty else { return }
        steps.append(step)
        let effects = simulationRun.perform(step)
        for case .ask(let question) in effects { tell(.answered(question.id, by: question.presenter, .done)) }
    }

    // MARK: Choice of items and names

    private var places: [Place] { names.keys.sorted { order($0) < order($1) } }

    private func order(_ place: Place) -> (UInt64, UInt64) {
        (place.directory?.rawValue ?? 0, place.link?.rawValue ?? 0)
    }

    private func isDirectory(_ place: Place) -> Bool { names[place].map { directories[$0] != nil } ?? false }
    private func isEmpty(_ place: Place) -> Bool { !names.keys.contains { $0.directory == names[place] } }
    private var files: [Place] { places.filter { !isDirectory($0) } }
    private var folders: [Place] { places.filter(isDirectory) }
    private func links(of place: Place) -> Int { names.values.count { $0 == names[place] } }

    /// Returns a name that no item has, out of three names in each directory.
    private mutating func free() -> Place? {
        let all = directories.keys.sorted().flatMap { directory in
            (1...3).map { Place(in: directory, link: LinkID(directory.rawValue * 10 + $0)) }
        }
        return chance.one(of: all.filter { names[$0] == nil })
    }

    /// Whether a place lies in the directory or deeper below it.
    private func isWithin(_ place: Place, _ directory: ItemID?) -> Bool {
        var next = place.directory
        while let here = next {
            if here == directory { return true }
            next = directories[here]?.directory
        }
        return false
    }

    private mutating func fresh() -> ItemID {
        lastItem += 1
        return ItemID(lastItem)
    }

    // MARK: Actions of the simulated programs

    private mutating func act() {
        let party = party()
        switch chance.below(14) {
        case 0..<2: make(by: party)
        case 2: if let place = chance.one(of: files) { write(place, by: party) }
        case 3, 4: remove(by: party)
        case 5: link(by: party)
        case 6, 7: rename(by: party)
        case 8: renameOver(by: party)
        case 9: save(by: party)
        case 10: exchange(by: party)
        case 11: makeFolder(by: party)
        case 12: moveFolder(by: party)
        default: replaceFolder(by: party)
        }
    }

    private mutating func make(by party: Party) {
        guard let place = free() else { return }
        let item = fresh()
        names[place] = item
        tell(.created(item, at: place, by: party, under: nil))
        if chance.isLucky(50) { write(place, by: party) }
    }

    private mutating func write(_ place: Place, by party: Party) {
        guard let item = names[place] else { return }
        stamp += 1
        let cause = Cause(party, .write(.updating))
        let goesOn = chance.isLucky(20)
        tell(
            goesOn
                ? .written(item, at: place, cause, under: nil, stamp: stamp)
                : .changed(item, at: place, cause, under: nil, stamp: stamp))
    }

    private mutating func remove(by party: Party) {
        guard let place = chance.one(of: files + folders.filter(isEmpty)), let item = names[place] else {
            return
        }
        guard chance.isLucky(40) else { return delete(place, by: party) }
        lastClaim += 1
        let claim = ClaimID(lastClaim)
        perform(
            .claim(
                ClaimRequest(claim, .nameChange, ClaimRequest.Part(item, .write(.forDeleting), at: place)),
                by: party))
        delete(place, by: party, under: claim)
        tell(.ended(claim))
    }

    private mutating func delete(_ place: Place, by party: Party, under claim: ClaimID? = nil) {
        guard let item = names.removeValue(forKey: place) else { return }
        directories[item] = nil
        tell(.deleted(item, at: place, by: party, under: claim))
    }

    private mutating func link(by party: Party) {
        guard let from = chance.one(of: files), let to = free(), let item = names[from] else { return }
        names[to] = item
        tell(.created(item, at: to, by: party, under: nil))
        if chance.isLucky(50) { delete(from, by: party) }
    }

    private mutating func rename(by party: Party) {
        guard let from = chance.one(of: files), let to = free() else { return }
        move(from, to, by: party)
        if chance.isLucky(20) { move(to, from, by: party) }
    }

    private mutating func move(_ from: Place, _ to: Place, by party: Party) {
        guard let known = names.removeValue(forKey: from) else { return }
        // A further name of a file sometimes gets an item number of its own, as if the two names were two files.
        let item = directories[known] == nil && chance.isLucky(5) ? fresh() : known
        names[to] = item
        if directories[item] != nil { directories[item] = to }
        tell(.moved(item, Move(from: from, to: to), by: party, under: nil))
    }

    /// Renames a file over another file. The arbiter is told of a deletion and a move.
    private mutating func renameOver(by party: Party) {
        guard let from = chance.one(of: files),
            let to = chance.one(of: files.filter { names[$0] != names[from] })
        else { return }
        delete(to, by: party)
        move(from, to, by: party)
    }

    private mutating func save(by party: Party) {
        let single = files.filter { links(of: $0) == 1 }
        guard let to = chance.one(of: single), let document = names[to] else { return }
        var from = chance.one(of: single.filter { $0 != to })
        if chance.isLucky(60), let place = free() {
            let item = fresh()
            names[place] = item
            tell(.created(item, at: place, by: party, under: nil))
            from = place
        }
        guard let from, let incoming = names[from] else { return }
        names[from] = nil
        tell(.replaced(document: document, incoming: incoming, orphan: fresh()))
        tell(.moved(incoming, Move(from: from, to: to, replacedDocument: document), by: party, under: nil))
        if chance.isLucky(50) { write(to, by: party) }
    }

    private mutating func exchange(by party: Party) {
        guard let one = chance.one(of: places), let other = chance.one(of: places), one != other,
            let item = names[one], let otherItem = names[other], item != otherItem,
            !isWithin(one, otherItem), !isWithin(other, item),
            // Two directories are never exchanged. Between the two halves of such an exchange, an event in one directory would
            // be reported under the name of the other directory.
            directories[item] == nil || directories[otherItem] == nil
        else { return }
        (names[one], names[other]) = (otherItem, item)
        if directories[item] != nil { directories[item] = other }
        if directories[otherItem] != nil { directories[otherItem] = one }
        tell(.moved(item, Move(from: one, to: other), by: party, under: nil))
        tell(.moved(otherItem, Move(from: other, to: one, isSecondHalf: true), by: party, under: nil))
    }

    private mutating func makeFolder(by party: Party) {
        guard directories.count < 8, let place = free() else { return }
        let item = fresh()
        names[place] = item
        directories[item] = place
        tell(.placed(item, DirectoryInfo(in: place.directory)))
        tell(.created(item, at: place, by: party, under: nil))
    }

    private mutating func moveFolder(by party: Party) {
        guard let from = chance.one(of: folders), let to = free(), !isWithin(to, names[from]) else { return }
        move(from, to, by: party)
    }

    /// Renames a directory over an empty directory.
    private mutating func replaceFolder(by party: Party) {
        guard let from = chance.one(of: folders), let to = chance.one(of: folders.filter(isEmpty)),
            from != to,
            !isWithin(to, names[from])
        else { return }
        delete(to, by: party)
        move(from, to, by: party)
    }
}
