// SPDX-License-Identifier: Apache-2.0
import Coordination

/// A presenter that applies what it is told has the names that are there (N5 to N8), is told of contents that others changed, and of
/// nothing that did not happen (N1); and it is asked about the deletion of what it knows alone (P26).
///
/// A name that nothing was said of is as it was: whether it was there follows from what is said of it first.
struct BeliefChecker: Checker {
    /// One name in some directory.
    struct Key: Hashable {
        let link: LinkID?
        let item: ItemID?

        init(_ place: Place, _ item: ItemID) {
            link = place.link
            self.item = place.link == nil ? item : nil
        }
    }

    struct Name: Hashable {
        let directory: ItemID?
        let key: Key

        init(_ place: Place, _ item: ItemID) {
            directory = place.directory
            key = Key(place, item)
        }
    }

    /// Names of directories below what is presented, from the outermost, and a name in the last one.
    typealias Path = [Key]

    struct Belief {
        var paths: Set<Path> = []
        /// What happened at a name that was not told yet, by the event in which it last did.
        var untold: [Name: Int] = [:]
        /// Those of them that were not below what is presented.
        /// What it made itself.
        var made: [Name: ItemID] = [:]
        var outside: Set<Name> = []
        /// Names whose contents others changed, in the same way.
        var contents: [Name: Int] = [:]
        /// Names that it heard of, or did something with, since all was quiet.
        var heard: Set<Name> = []
        /// What was told in the event at hand.
        var told: (names: Set<Name>, number: Int) = ([], 0)
        /// It did something for which it cannot be known whether that was its own doing.
        var isExcused = false
    }

    /// What has each name of which anything was said, or nothing.
    private var names: [Name: ItemID?] = [:]
    /// What had them when all was quiet.
    private var former: [Name: ItemID?] = [:]
    private var homes: [ItemID: Place] = [:]
    /// Items that are other names of the same files.
    private var aliases: [ItemID: ItemID] = [:]
    /// When directories were deleted.
    private var ends: [ItemID: Int] = [:]
    /// The last name that was first heard of because something was moved there: it may have been taken.
    private var guessed: Name?
    private var beliefs: [PresenterID: Belief] = [:]
    /// What was told of claims that go on (N12).
    private var toldStamps: [ClaimID: UInt64] = [:]
    /// The last move: what is told of the former name before that is about the contents of the new one.
    private var last: (from: Name, to: Name, number: Int)?

    mutating func hear(_ event: Event, _ ledger: Ledger, _ report: inout Report) {
        switch event {
        case .placed(let item, let directory):
            if homes[item] == nil { homes[item] = Place(in: directory.parent) }
        case .presented(let presenter): enter(presenter.id, ledger)
        case .shown(let id, _, _): enter(id, ledger)
        case .removed(let id): beliefs[id] = nil
        case .changed(let item, let place, let cause, let claim, let stamp):
            let isTold =
                claim.map { ledger.claims[$0]?.suspension != nil || toldStamps[$0] == stamp } ?? false
            changed(item, place, cause, claim, isTold: isTold, ledger, ledger.number)
        case .written(let item, let place, let cause, let claim, let stamp):
            if let claim { toldStamps[claim] = stamp }
            // N12: what is told in the event at hand is told of this.
            changed(item, place, cause, claim, isTold: false, ledger, ledger.number - 1)
        case .created(let item, let place, let party, let claim):
            if homes[item] != nil { homes[item] = place }
            ends[item] = nil
            let name = learn(item, place, held: nil, ledger)
            names[name] = .some(item)
            let own: (inout Self, PresenterID) -> Void = { checker, id in
                if let path = checker.path(of: name, below: id, ledger) {
                    checker.beliefs[id]?.paths.insert(path)
                }
                checker.beliefs[id]?.contents[name] = nil
                checker.beliefs[id]?.made[name] = item
            }
            for id in hearers(of: party, claim, ledger, at: [name], own) {
                touch(id, [name], ledger)
            }
        case .deleted(let item, let place, let party, let claim): deleted(item, place, party, claim, ledger)
        case .lost(let item, let place, let party): deleted(item, place, party, nil, ledger)
        case .moved(let item, let move, let party, let claim): moved(item, move, party, claim, ledger)
        case .replaced(let document, let incoming, _):
            for (name, item) in names where item == incoming { names[name] = .some(document) }
            for (name, item) in former where item == incoming { former[name] = .some(document) }
        default: break
        }
    }

    private mutating func changed(
        _ item: ItemID, _ place: Place, _ cause: Cause, _ claim: ClaimID?, isTold: Bool, _ ledger: Ledger,
        _ number: Int
    ) {
        let name = learn(item, place, held: item, ledger)
        for id in hearers(of: cause.party, claim, ledger) {
            touch(id, [name], ledger)
            if beliefs[id]?.untold[name] == ledger.number { beliefs[id]?.untold[name] = number }
            // By a handle of a file that has the name no more.
            if names[name] == .some(nil) { beliefs[id]?.isExcused = true }
            if !isTold, isInside(name, id, ledger) { beliefs[id]?.contents[name] = number }
        }
    }

    private mutating func deleted(
        _ item: ItemID, _ place: Place, _ party: Party, _ claim: ClaimID?, _ ledger: Ledger
    ) {
        let name = learn(item, place, held: item, ledger)
        if names[name] == .some(item) { names[name] = .some(nil) }
        let own: (inout Self, PresenterID) -> Void = { checker, id in
            checker.strike(name, item, from: id, ledger)
            checker.beliefs[id]?.contents[name] = nil
        }
        for id in hearers(of: party, claim, ledger, at: [name], own) {
            touch(id, [name], ledger)
        }
        // Nothing is below it any more.
        if homes[item] != nil {
            ends[item] = ledger.number
            for one in names.keys where one.directory == item { names[one] = .some(nil) }
        }
    }

    private mutating func moved(
        _ item: ItemID, _ move: Move, _ party: Party, _ claim: ClaimID?, _ ledger: Ledger
    ) {
        let from = learn(item, move.from, held: item, ledger)
        let (taken, next) = (guessed, Name(move.to, move.over ?? item))
        guessed = names[next] == nil ? next : nil
        let to = learn(move.over ?? item, move.to, held: move.over, ledger)
        // The other half of an exchange: something had the name to which the first half went.
        if from == taken, move.isSecondHalf { believe(from, ledger) }
        if !move.isSecondHalf, let known = names[from], let known, known != item {
            aliases[item] = aliases[known] ?? known
        }
        if !move.isSecondHalf || names[from] == .some(item) { names[from] = .some(nil) }
        names[to] = .some(move.over ?? item)
        last = (from, to, ledger.number)
        if homes[item] != nil { homes[item] = move.to }
        let own: (inout Self, PresenterID) -> Void = { checker, id in
            if let other = checker.names[from], let other {
                // It has exchanged them.
                for (name, item) in [(from, other), (to, item)] {
                    checker.strike(name, item, from: id, ledger)
                }
                for (name, item) in [(from, other), (to, item)] { checker.add(name, item, to: id, ledger) }
                return
            }
            checker.rename(from, item, to: to, in: id, ledger)
            // What others wrote is still to be told.
            let last = checker.beliefs[id]?.contents.removeValue(forKey: from)
            checker.beliefs[id]?.contents[to] = nil
            if move.over == nil, checker.homes[item] == nil, let last {
                checker.touch(id, [to], ledger, contents: last)
            }
            if checker.beliefs[id]?.untold[from] != nil { checker.touch(id, [to], ledger) }
        }
        for id in hearers(of: party, claim, ledger, at: [from, to], own) {
            touch(id, [from, to], ledger)
            let written = beliefs[id]?.contents.removeValue(forKey: from)
            let changed = move.over == nil ? written : ledger.number
            if homes[item] == nil, isInside(to, id, ledger) { beliefs[id]?.contents[to] = changed }
        }
    }

    /// Enters a name of which nothing was said yet, for those who show something above it, too.
    private mutating func learn(_ item: ItemID, _ place: Place, held: ItemID?, _ ledger: Ledger) -> Name {
        let name = Name(place, item)
        if names[name] == nil {
            names[name] = .some(held)
            former[name] = .some(held)
            if held != nil { believe(name, ledger) }
        }
        return name
    }

    private mutating func believe(_ name: Name, _ ledger: Ledger) {
        for id in beliefs.keys {
            if let path = path(of: name, below: id, ledger) { beliefs[id]?.paths.insert(path) }
        }
    }

    /// P5, P6: those who are to hear of what a party did; for those who did it themselves the body says what they know.
    private mutating func hearers(
        of party: Party, _ claim: ClaimID?, _ ledger: Ledger, at touched: [Name] = [],
        _ body: (inout Self, PresenterID) -> Void = { _, _ in }
    ) -> [PresenterID] {
        let party = claim.flatMap { ledger.claims[$0]?.party } ?? party
        return beliefs.keys.sorted().filter { id in
            guard let showing = ledger.showings[id] else { return false }
            if ledger.isOwn(party, showing) {
                beliefs[id]?.heard.formUnion(touched)
                body(&self, id)
                return false
            }
            if party.works(for: showing.party), claim != nil || !ledger.questions.isEmpty {
                beliefs[id]?.isExcused = true
            }
            return true
        }
    }

    private mutating func touch(
        _ id: PresenterID, _ touched: [Name], _ ledger: Ledger, contents: Int? = nil
    ) {
        if let contents, let name = touched.first, isInside(name, id, ledger) {
            beliefs[id]?.contents[name] = contents
        }
        guard touched.contains(where: { isInside($0, id, ledger) }) else { return }
        // N7: what is moved away is told of with its new name.
        for name in touched {
            let isInside = isInside(name, id, ledger)
            guard isInside || name == touched.last else { continue }
            beliefs[id]?.untold[name] = ledger.number
            if isInside { beliefs[id]?.outside.remove(name) } else { beliefs[id]?.outside.insert(name) }
        }
    }
}

/// Where names are.
extension BeliefChecker {
    private func path(of name: Name, below id: PresenterID, _ ledger: Ledger) -> Path? {
        guard let shown = ledger.showings[id]?.item else { return nil }
        var path = [name.key]
        var next = name.directory
        while let directory = next, path.count < 64 {
            if directory == shown { return path }
            guard let home = homes[directory] else { return nil }
            path.insert(Key(home, directory), at: 0)
            next = home.directory
        }
        return nil
    }

    private func isInside(_ name: Name, _ id: PresenterID, _ ledger: Ledger) -> Bool {
        path(of: name, below: id, ledger) != nil
    }

    /// Whether directories have the names they are known by: in the middle of an exchange one has not.
    private func isReachable(_ directory: ItemID?) -> Bool {
        var (next, depth) = (directory, 0)
        while let here = next, let home = homes[here], depth < 64 {
            if let known = names[Name(home, here)], known != here { return false }
            (next, depth) = (home.directory, depth + 1)
        }
        return true
    }

    /// All names that are there.
    private func truth(below id: PresenterID, _ ledger: Ledger) -> [Path: Name] {
        var found: [Path: Name] = [:]
        for (name, item) in names where item != nil && isReachable(name.directory) {
            if let path = path(of: name, below: id, ledger) { found[path] = name }
        }
        return found
    }

    private mutating func enter(_ id: PresenterID, _ ledger: Ledger) {
        guard let showing = ledger.showings[id], let item = showing.item, homes[item] != nil,
            showing.implements(.subitemDidAppear), showing.implements(.subitemDidChange),
            showing.implements(.subitemDidMove)
        else { return beliefs[id] = nil }
        beliefs[id] = Belief(paths: Set(truth(below: id, ledger).keys))
    }

    /// A presenter that hears of a directory that it does not know reads what is in it.
    private mutating func add(_ name: Name, _ item: ItemID, to id: PresenterID, _ ledger: Ledger) {
        guard let path = path(of: name, below: id, ledger) else { return }
        beliefs[id]?.paths.insert(path)
        guard homes[item] != nil, let known = beliefs[id]?.paths else { return }
        beliefs[id]?.paths = known.filter { $0 == path || !$0.starts(with: path) }
        // A presenter does not believe in a name that is there only in the middle of a turn.
        let (untold, outside) = (beliefs[id]?.untold ?? [:], beliefs[id]?.outside ?? [])
        let made = beliefs[id]?.made ?? [:]
        let below = truth(below: id, ledger).filter { one in
            let isOwn = made[one.value].map { $0 == names[one.value] } ?? false
            let wasThere =
                isOwn || outside.contains(one.value) || former[one.value].map { $0 != nil } ?? false
            return one.key.starts(with: path) && (untold[one.value] == nil || wasThere || one.key == path)
        }
        beliefs[id]?.paths.formUnion(below.keys)
        beliefs[id]?.heard.formUnion(below.values)
        for name in below.values { beliefs[id]?.contents[name] = nil }
    }

    private mutating func strike(_ name: Name, _ item: ItemID, from id: PresenterID, _ ledger: Ledger) {
        guard let path = path(of: name, below: id, ledger), let paths = beliefs[id]?.paths else { return }
        beliefs[id]?.paths = paths.filter { !$0.starts(with: path) }
    }

    private mutating func rename(
        _ from: Name, _ item: ItemID, to: Name, in id: PresenterID, _ ledger: Ledger
    ) {
        guard let paths = beliefs[id]?.paths else { return }
        guard let old = path(of: from, below: id, ledger) else { return add(to, item, to: id, ledger) }
        let new = path(of: to, below: id, ledger)
        var renamed: Set<Path> = []
        for path in paths {
            if path.starts(with: old) {
                if let new { renamed.insert(new + path.dropFirst(old.count)) }
            } else if new.map({ !path.starts(with: $0) }) ?? true {
                renamed.insert(path)
            }
        }
        if let new { renamed.insert(new) }
        beliefs[id]?.paths = renamed
    }
}

/// The notices.
extension BeliefChecker {
    mutating func see(_ effect: Effect, of event: Event, _ ledger: Ledger, _ report: inout Report) {
        if case .ask(let question) = effect { return check(question, ledger, &report) }
        if case .suspend(let claim, _) = effect { noteSuspension(claim, ledger) }
        guard case .tell(let notice) = effect, let subitem = notice.subitem,
            let showing = ledger.showings[notice.presenter], beliefs[notice.presenter] != nil,
            // N6: a plain directory hears in this way of itself.
            showing.item != subitem.item
        else { return }
        let id = notice.presenter
        let name = Name(subitem.place, subitem.item)
        checkHappened(notice, name, ledger, &report)
        // N13.
        for place in [subitem.place, subitem.former].compactMap(\.self) {
            guard let directory = place.directory, let end = ends[directory], end < ledger.number,
                directory != showing.item, isInside(Name(place, subitem.item), id, ledger)
            else { continue }
            report.blame("\(id) is told of \(name) when \(directory) is gone")
        }
        switch notice.kind {
        // All that is made in a new directory is told.
        case .subitemDidAppear where notice.cause.access == .write(.forMoving):
            add(name, subitem.item, to: id, ledger)
        case .subitemDidMove:
            guard let former = subitem.former else {
                return report.blame("\(id) is told that \(subitem.item) moved, and not from where")
            }
            rename(Name(former, subitem.item), subitem.item, to: name, in: id, ledger)
            settle(Name(former, subitem.item), id, ledger)
            // N5: then no turn tells anything else of the name.
            if homes[subitem.item] != nil { beliefs[id]?.untold[name] = nil }
        case .subitemDidChange where notice.cause.access == .write(.forDeleting):
            strike(name, subitem.item, from: id, ledger)
        default: if let path = path(of: name, below: id, ledger) { beliefs[id]?.paths.insert(path) }
        }
        settle(name, id, ledger)
    }

    /// What happened in the event at hand may be told in another turn.
    private mutating func settle(_ name: Name, _ id: PresenterID, _ ledger: Ledger) {
        if let last = beliefs[id]?.untold[name], last < ledger.number { beliefs[id]?.untold[name] = nil }
        var settled = [name]
        if let last, last.number == ledger.number, last.from == name { settled.append(last.to) }
        for name in settled {
            if let written = beliefs[id]?.contents[name], written < ledger.number {
                beliefs[id]?.contents[name] = nil
            }
        }
    }

    private mutating func checkHappened(
        _ notice: Notice, _ name: Name, _ ledger: Ledger, _ report: inout Report
    ) {
        guard var told = beliefs[notice.presenter]?.told else { return }
        if told.number != ledger.number { told = ([], ledger.number) }
        // A move and a change of one name are told one after the other.
        let isWritten = ledger.claims.values.contains { claim in
            claim.isHeld && claim.parts.contains { $0.item == notice.subitem?.item && $0.access.isWrite }
        }
        if beliefs[notice.presenter]?.untold[name] == nil, !told.names.contains(name), !isWritten {
            report.blame(
                "\(notice.presenter) is told \(notice.kind.rawValue) of \(name), where nothing happened")
        }
        told.names.insert(name)
        beliefs[notice.presenter]?.heard.insert(name)
        beliefs[notice.presenter]?.told = told
    }

    /// N4: it may have changed what it writes.
    private mutating func noteSuspension(_ id: ClaimID, _ ledger: Ledger) {
        for part in ledger.claims[id]?.parts ?? [] where part.access.isWrite {
            let name = learn(part.item, part.place, held: part.item, ledger)
            for presenter in beliefs.keys { touch(presenter, [name], ledger) }
        }
    }

    /// P26.
    private func check(_ question: Question, _ ledger: Ledger, _ report: inout Report) {
        guard question.request == .accommodateSubitemDeletion, let belief = beliefs[question.presenter],
            !belief.isExcused, let item = question.subitem
        else { return }
        let known = names.filter { $0.value == item }.keys.compactMap {
            path(of: $0, below: question.presenter, ledger)
        }
        if known.isEmpty || known.contains(where: belief.paths.contains) { return }
        report.blame("\(question.presenter) is asked about \(item), which it does not know")
    }

    mutating func rest(after event: Event, _ ledger: Ledger, _ report: inout Report) {
        // Not between the two halves of an exchange.
        guard ledger.isQuiet, event == .tick else { return }
        for (id, belief) in beliefs.sorted(by: { $0.key < $1.key }) {
            guard let showing = ledger.showings[id] else { continue }
            let truth = truth(below: id, ledger)
            if !belief.isExcused, !showing.isGone {
                compare(id, belief, truth, &report)
            }
            beliefs[id] = Belief(paths: Set(truth.keys))
        }
        former = names
    }

    private func compare(_ id: PresenterID, _ belief: Belief, _ truth: [Path: Name], _ report: inout Report) {
        for path in belief.paths where truth[path] == nil {
            report.blame("\(id) believes that \(Self.text(path)) is there")
        }
        for (path, name) in truth {
            if !belief.paths.contains(path) {
                report.blame("\(id) does not know that \(Self.text(path)) is there")
            }
            let isOther = former[name].map { $0 != nil && file($0) != file(names[name] ?? nil) } ?? false
            if belief.contents[name] != nil || isOther && !belief.heard.contains(name) {
                report.blame("\(id) was not told that \(Self.text(path)) has other contents")
            }
        }
    }

    private func file(_ item: ItemID?) -> ItemID? { item.map { aliases[$0] ?? $0 } }

    private static func text(_ path: Path) -> String {
        path.map { $0.link.map(\.description) ?? $0.item.map(\.description) ?? "" }.joined(separator: "/")
    }
}
