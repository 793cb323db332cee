// SPDX-License-Identifier: Apache-2.0
import Coordination

/// A presenter that applies what it is told has the names that are there (N5 to N8), is told of contents that others changed, and of
/// nothing that did not happen (N1); and it is asked about the deletion of what it knows alone (P26).
///
/// A name that nothing was said of is as it was: whether it was there follows from what is said of it first.
struct NameViewChecker: Checker {
    /// One name in some directory.
    struct Key: Hashable {
        let link: LinkID?
        let item: ItemID?

        init(_ place: Place, _ item: ItemID) {
            link = place.link
            self.item = place.link == nil ? item : nil
        }
    }

    struct ModelName: Hashable {
        let directory: ItemID?
        let key: Key

        init(_ place: Place, _ item: ItemID) {
            directory = place.directory
            key = Key(place, item)
        }
    }

    /// Names of directories below what is presented, from the outermost, and a name in the last one.
    typealias Path = [Key]

    struct NameView {
        var paths: Set<Path> = []
        /// What happened at a name that was not told yet, by the event in which it last did.
        var untold: [ModelName: Int] = [:]
        /// Those of them that were not below what is presented.
        /// What it made itself.
        var made: [ModelName: ItemID] = [:]
        var outside: Set<ModelName> = []
        /// Names whose contents others changed, in the same way.
        var contents: [ModelName: Int] = [:]
        /// Names that it heard of, or did something with, since all was quiet.
        var heard: Set<ModelName> = []
        /// What was told in the event at hand.
        var told: (names: Set<ModelName>, number: Int) = ([], 0)
        /// It did something for which it cannot be known whether that was its own doing.
        var isExcused = false
    }

    /// What has each name of which anything was said, or nothing.
    private var names: [ModelName: ItemID?] = [:]
    /// What had them when all was quiet.
    private var former: [ModelName: ItemID?] = [:]
    private var homes: [ItemID: Place] = [:]
    /// Items that are other names of the same files.
    private var aliases: [ItemID: ItemID] = [:]
    /// When directories were deleted.
    private var ends: [ItemID: Int] = [:]
    /// The last name that was first heard of because something was moved there: it may have been taken.
    private var guessed: ModelName?
    private var nameViews: [PresenterID: NameView] = [:]
    /// What was told of claims that go on (N12).
    private var reportedStamps: [ClaimID: UInt64] = [:]
    /// The last move: what is told of the former name before that is about the contents of the new one.
    private var last: (from: ModelName, to: ModelName, number: Int)?

    mutating func noteEvent(_ event: ArbiterEvent, _ model: WorldModel, _ report: inout ViolationReport) {
        switch event {
        case .placed(let item, let directory):
            if homes[item] == nil { homes[item] = Place(in: directory.parent) }
        case .presented(let presenter): enter(presenter.id, model)
        case .shown(let id, _, _): enter(id, model)
        case .removed(let id): nameViews[id] = nil
        case .changed(let item, let place, let cause, let claim, let stamp):
            let isTold =
                claim.map { model.claims[$0]?.suspension != nil || reportedStamps[$0] == stamp } ?? false
            changed(item, place, cause, claim, isTold: isTold, model, model.number)
        case .written(let item, let place, let cause, let claim, let stamp):
            if let claim { reportedStamps[claim] = stamp }
            // N12: what is told in the event at hand is told of this.
            changed(item, place, cause, claim, isTold: false, model, model.number - 1)
        case .created(let item, let place, let party, let claim):
            if homes[item] != nil { homes[item] = place }
            ends[item] = nil
            let name = learn(item, place, held: nil, model)
            names[name] = .some(item)
            let own: (inout Self, PresenterID) -> Void = { checker, id in
                if let path = checker.path(of: name, below: id, model) {
                    checker.nameViews[id]?.paths.insert(path)
                }
                checker.nameViews[id]?.contents[name] = nil
                checker.nameViews[id]?.made[name] = item
            }
            for id in hearers(of: party, claim, model, at: [name], own) {
                touch(id, [name], model)
            }
        case .deleted(let item, let place, let party, let claim): deleted(item, place, party, claim, model)
        case .lost(let item, let place, let party): deleted(item, place, party, nil, model)
        case .moved(let item, let move, let party, let claim): moved(item, move, party, claim, model)
        case .replaced(let document, let incoming, _):
            for (name, item) in names where item == incoming { names[name] = .some(document) }
            for (name, item) in former where item == incoming { former[name] = .some(document) }
        default: break
        }
    }

    private mutating func changed(
        _ item: ItemID, _ place: Place, _ cause: Cause, _ claim: ClaimID?, isTold: Bool, _ model: WorldModel,
        _ number: Int
    ) {
        let name = learn(item, place, held: item, model)
        for id in hearers(of: cause.party, claim, model) {
            touch(id, [name], model)
            if nameViews[id]?.untold[name] == model.number { nameViews[id]?.untold[name] = number }
            // By a handle of a file that has the name no more.
            if names[name] == .some(nil) { nameViews[id]?.isExcused = true }
            if !isTold, isInside(name, id, model) { nameViews[id]?.contents[name] = number }
        }
    }

    private mutating func deleted(
        _ item: ItemID, _ place: Place, _ party: Party, _ claim: ClaimID?, _ model: WorldModel
    ) {
        let name = learn(item, place, held: item, model)
        if names[name] == .some(item) { names[name] = .some(nil) }
        let own: (inout Self, PresenterID) -> Void = { checker, id in
            checker.strike(name, item, from: id, model)
            checker.nameViews[id]?.contents[name] = nil
        }
        for id in hearers(of: party, claim, model, at: [name], own) {
            touch(id, [name], model)
        }
        // Nothing is below it any more.
        if homes[item] != nil {
            ends[item] = model.number
            for one in names.keys where one.directory == item { names[one] = .some(nil) }
        }
    }

    private mutating func moved(
        _ item: ItemID, _ move: Move, _ party: Party, _ claim: ClaimID?, _ model: WorldModel
    ) {
        let from = learn(item, move.from, held: item, model)
        let (taken, next) = (guessed, ModelName(move.to, move.over ?? item))
        guessed = names[next] == nil ? next : nil
        let to = learn(move.over ?? item, move.to, held: move.over, model)
        // The other half of an exchange: something had the name to which the first half went.
        if from == taken, move.isSecondHalf { believe(from, model) }
        if !move.isSecondHalf, let known = names[from], let known, known != item {
            aliases[item] = aliases[known] ?? known
        }
        if !move.isSecondHalf || names[from] == .some(item) { names[from] = .some(nil) }
        names[to] = .some(move.over ?? item)
        last = (from, to, model.number)
        if homes[item] != nil { homes[item] = move.to }
        let own: (inout Self, PresenterID) -> Void = { checker, id in
            if let other = checker.names[from], let other {
                // It has exchanged them.
                for (name, item) in [(from, other), (to, item)] {
                    checker.strike(name, item, from: id, model)
                }
                for (name, item) in [(from, other), (to, item)] { checker.add(name, item, to: id, model) }
                return
            }
            checker.rename(from, item, to: to, in: id, model)
            // What others wrote is still to be told.
            let last = checker.nameViews[id]?.contents.removeValue(forKey: from)
            checker.nameViews[id]?.contents[to] = nil
            if move.over == nil, checker.homes[item] == nil, let last {
                checker.touch(id, [to], model, contents: last)
            }
            if checker.nameViews[id]?.untold[from] != nil { checker.touch(id, [to], model) }
        }
        for id in hearers(of: party, claim, model, at: [from, to], own) {
            touch(id, [from, to], model)
            let written = nameViews[id]?.contents.removeValue(forKey: from)
            let changed = move.over == nil ? written : model.number
            if homes[item] == nil, isInside(to, id, model) { nameViews[id]?.contents[to] = changed }
        }
    }

    /// Enters a name of which nothing was said yet, for those who show something above it, too.
    private mutating func learn(_ item: ItemID, _ place: Place, held: ItemID?, _ model: WorldModel)
        -> ModelName
    {
        let name = ModelName(place, item)
        if names[name] == nil {
            names[name] = .some(held)
            former[name] = .some(held)
            if held != nil { believe(name, model) }
        }
        return name
    }

    private mutating func believe(_ name: ModelName, _ model: WorldModel) {
        for id in nameViews.keys {
            if let path = path(of: name, below: id, model) { nameViews[id]?.paths.insert(path) }
        }
    }

    /// P5, P6: those who are to hear of what a party did; for those who did it themselves the body says what they know.
    private mutating func hearers(
        of party: Party, _ claim: ClaimID?, _ model: WorldModel, at touched: [ModelName] = [],
        _ body: (inout Self, PresenterID) -> Void = { _, _ in }
    ) -> [PresenterID] {
        let party = claim.flatMap { model.claims[$0]?.party } ?? party
        return nameViews.keys.sorted().filter { id in
            guard let presenterModel = model.presenterModels[id] else { return false }
            if model.isOwn(party, presenterModel) {
                nameViews[id]?.heard.formUnion(touched)
                body(&self, id)
                return false
            }
            if party.works(for: presenterModel.party), claim != nil || !model.questions.isEmpty {
                nameViews[id]?.isExcused = true
            }
            return true
        }
    }

    private mutating func touch(
        _ id: PresenterID, _ touched: [ModelName], _ model: WorldModel, contents: Int? = nil
    ) {
        if let contents, let name = touched.first, isInside(name, id, model) {
            nameViews[id]?.contents[name] = contents
        }
        guard touched.contains(where: { isInside($0, id, model) }) else { return }
        // N7: what is moved away is told of with its new name.
        for name in touched {
            let isInside = isInside(name, id, model)
            guard isInside || name == touched.last else { continue }
            nameViews[id]?.untold[name] = model.number
            if isInside { nameViews[id]?.outside.remove(name) } else { nameViews[id]?.outside.insert(name) }
        }
    }
}

/// Where names are.
extension NameViewChecker {
    private func path(of name: ModelName, below id: PresenterID, _ model: WorldModel) -> Path? {
        guard let shown = model.presenterModels[id]?.item else { return nil }
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

    private func isInside(_ name: ModelName, _ id: PresenterID, _ model: WorldModel) -> Bool {
        path(of: name, below: id, model) != nil
    }

    /// Whether directories have the names they are known by: in the middle of an exchange one has not.
    private func isReachable(_ directory: ItemID?) -> Bool {
        var (next, depth) = (directory, 0)
        while let here = next, let home = homes[here], depth < 64 {
            if let known = names[ModelName(home, here)], known != here { return false }
            (next, depth) = (home.directory, depth + 1)
        }
        return true
    }

    /// All names that are there.
    private func truth(below id: PresenterID, _ model: WorldModel) -> [Path: ModelName] {
        var found: [Path: ModelName] = [:]
        for (name, item) in names where item != nil && isReachable(name.directory) {
            if let path = path(of: name, below: id, model) { found[path] = name }
        }
        return found
    }

    private mutating func enter(_ id: PresenterID, _ model: WorldModel) {
        guard let presenterModel = model.presenterModels[id], let item = presenterModel.item,
            homes[item] != nil,
            presenterModel.implements(.subitemDidAppear), presenterModel.implements(.subitemDidChange),
            presenterModel.implements(.subitemDidMove)
        else { return nameViews[id] = nil }
        nameViews[id] = NameView(paths: Set(truth(below: id, model).keys))
    }

    /// A presenter that hears of a directory that it does not know reads what is in it.
    private mutating func add(_ name: ModelName, _ item: ItemID, to id: PresenterID, _ model: WorldModel) {
        guard let path = path(of: name, below: id, model) else { return }
        nameViews[id]?.paths.insert(path)
        guard homes[item] != nil, let known = nameViews[id]?.paths else { return }
        nameViews[id]?.paths = known.filter { $0 == path || !$0.starts(with: path) }
        // A presenter does not believe in a name that is there only in the middle of a turn.
        let (untold, outside) = (nameViews[id]?.untold ?? [:], nameViews[id]?.outside ?? [])
        let made = nameViews[id]?.made ?? [:]
        let below = truth(below: id, model).filter { one in
            let isOwn = made[one.value].map { $0 == names[one.value] } ?? false
            let wasThere =
                isOwn || outside.contains(one.value) || former[one.value].map { $0 != nil } ?? false
            return one.key.starts(with: path) && (untold[one.value] == nil || wasThere || one.key == path)
        }
        nameViews[id]?.paths.formUnion(below.keys)
        nameViews[id]?.heard.formUnion(below.values)
        for name in below.values { nameViews[id]?.contents[name] = nil }
    }

    private mutating func strike(_ name: ModelName, _ item: ItemID, from id: PresenterID, _ model: WorldModel)
    {
        guard let path = path(of: name, below: id, model), let paths = nameViews[id]?.paths else { return }
        nameViews[id]?.paths = paths.filter { !$0.starts(with: path) }
    }

    private mutating func rename(
        _ from: ModelName, _ item: ItemID, to: ModelName, in id: PresenterID, _ model: WorldModel
    ) {
        guard let paths = nameViews[id]?.paths else { return }
        guard let old = path(of: from, below: id, model) else { return add(to, item, to: id, model) }
        let new = path(of: to, below: id, model)
        var renamed: Set<Path> = []
        for path in paths {
            if path.starts(with: old) {
                if let new { renamed.insert(new + path.dropFirst(old.count)) }
            } else if new.map({ !path.starts(with: $0) }) ?? true {
                renamed.insert(path)
            }
        }
        if let new { renamed.insert(new) }
        nameViews[id]?.paths = renamed
    }
}

/// The notices.
extension NameViewChecker {
    mutating func noteEffect(
        _ effect: Effect, of event: ArbiterEvent, _ model: WorldModel, _ report: inout ViolationReport
    ) {
        if case .ask(let question) = effect { return check(question, model, &report) }
        if case .suspend(let claim, _) = effect { noteSuspension(claim, model) }
        guard case .tell(let notice) = effect, let subitem = notice.subitem,
            let presenterModel = model.presenterModels[notice.presenter], nameViews[notice.presenter] != nil,
            // N6: a plain directory hears in this way of itself.
            presenterModel.item != subitem.item
        else { return }
        let id = notice.presenter
        let name = ModelName(subitem.place, subitem.item)
        checkHappened(notice, name, model, &report)
        // N13.
        for place in [subitem.place, subitem.former].compactMap(\.self) {
            guard let directory = place.directory, let end = ends[directory], end < model.number,
                directory != presenterModel.item, isInside(ModelName(place, subitem.item), id, model)
            else { continue }
            report.addViolation("\(id) is told of \(name) when \(directory) is gone")
        }
        switch notice.kind {
        // All that is made in a new directory is told.
        case .subitemDidAppear where notice.cause.access == .write(.forMoving):
            add(name, subitem.item, to: id, model)
        case .subitemDidMove:
            guard let former = subitem.former else {
                return report.addViolation("\(id) is told that \(subitem.item) moved, and not from where")
            }
            rename(ModelName(former, subitem.item), subitem.item, to: name, in: id, model)
            settle(ModelName(former, subitem.item), id, model)
            // N5: then no turn tells anything else of the name.
            if homes[subitem.item] != nil { nameViews[id]?.untold[name] = nil }
        case .subitemDidChange where notice.cause.access == .write(.forDeleting):
            strike(name, subitem.item, from: id, model)
        default: if let path = path(of: name, below: id, model) { nameViews[id]?.paths.insert(path) }
        }
        settle(name, id, model)
    }

    /// What happened in the event at hand may be told in another turn.
    private mutating func settle(_ name: ModelName, _ id: PresenterID, _ model: WorldModel) {
        if let last = nameViews[id]?.untold[name], last < model.number { nameViews[id]?.untold[name] = nil }
        var settled = [name]
        if let last, last.number == model.number, last.from == name { settled.append(last.to) }
        for name in settled {
            if let written = nameViews[id]?.contents[name], written < model.number {
                nameViews[id]?.contents[name] = nil
            }
        }
    }

    private mutating func checkHappened(
        _ notice: Notice, _ name: ModelName, _ model: WorldModel, _ report: inout ViolationReport
    ) {
        guard var told = nameViews[notice.presenter]?.told else { return }
        if told.number != model.number { told = ([], model.number) }
        // A move and a change of one name are told one after the other.
        let isWritten = model.claims.values.contains { claim in
            claim.isHeld && claim.parts.contains { $0.item == notice.subitem?.item && $0.access.isWrite }
        }
        if nameViews[notice.presenter]?.untold[name] == nil, !told.names.contains(name), !isWritten {
            report.addViolation(
                "\(notice.presenter) is told \(notice.kind.rawValue) of \(name), where nothing happened")
        }
        told.names.insert(name)
        nameViews[notice.presenter]?.heard.insert(name)
        nameViews[notice.presenter]?.told = told
    }

    /// N4: it may have changed what it writes.
    private mutating func noteSuspension(_ id: ClaimID, _ model: WorldModel) {
        for part in model.claims[id]?.parts ?? [] where part.access.isWrite {
            let name = learn(part.item, part.place, held: part.item, model)
            for presenter in nameViews.keys { touch(presenter, [name], model) }
        }
    }

    /// P26.
    private func check(_ question: Question, _ model: WorldModel, _ report: inout ViolationReport) {
        guard question.request == .accommodateSubitemDeletion, let nameView = nameViews[question.presenter],
            !nameView.isExcused, let item = question.subitem
        else { return }
        let known = names.filter { $0.value == item }.keys.compactMap {
            path(of: $0, below: question.presenter, model)
        }
        if known.isEmpty || known.contains(where: nameView.paths.contains) { return }
        report.addViolation("\(question.presenter) is asked about \(item), which it does not know")
    }

    mutating func finish(after event: ArbiterEvent, _ model: WorldModel, _ report: inout ViolationReport) {
        // Not between the two halves of an exchange.
        guard model.isQuiet, event == .tick else { return }
        for (id, nameView) in nameViews.sorted(by: { $0.key < $1.key }) {
            guard let presenterModel = model.presenterModels[id] else { continue }
            let truth = truth(below: id, model)
            if !nameView.isExcused, !presenterModel.isGone {
                compare(id, nameView, truth, &report)
            }
            nameViews[id] = NameView(paths: Set(truth.keys))
        }
        former = names
    }

    private func compare(
        _ id: PresenterID, _ nameView: NameView, _ truth: [Path: ModelName], _ report: inout ViolationReport
    ) {
        for path in nameView.paths where truth[path] == nil {
            report.addViolation("\(id) believes that \(Self.text(path)) is there")
        }
        for (path, name) in truth {
            if !nameView.paths.contains(path) {
                report.addViolation("\(id) does not know that \(Self.text(path)) is there")
            }
            let isOther = former[name].map { $0 != nil && file($0) != file(names[name] ?? nil) } ?? false
            if nameView.contents[name] != nil || isOther && !nameView.heard.contains(name) {
                report.addViolation("\(id) was not told that \(Self.text(path)) has other contents")
            }
        }
    }

    private func file(_ item: ItemID?) -> ItemID? { item.map { aliases[$0] ?? $0 } }

    private static func text(_ path: Path) -> String {
        path.map { $0.link.map(\.description) ?? $0.item.map(\.description) ?? "" }.joined(separator: "/")
    }
}
