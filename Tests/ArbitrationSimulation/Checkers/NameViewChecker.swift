// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Checks that notices give a presenter a true view of the names below its item (N1, N5 to N8, P26).
///
/// - If a presenter applies each notice to its list of names, the list has exactly the names that exist.
/// - A presenter is told of all contents that others changed, and of nothing that did not happen.
/// - A presenter is asked only about deletions of items that it knows.
///
/// Before the first event at a name, the checker does not know whether the name exists. The first event shows this.
struct NameViewChecker: Checker {
    /// Identifies a name within its directory: by its link number, which tells the names of one file apart, or else by the
    /// item.
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

    /// The position of a name below the presented item: the names of the directories from the outermost, then the name itself.
    typealias Path = [Key]

    struct NameView {
        var paths: Set<Path> = []
        /// The names with a change of which the presenter was not told yet, each with the number of the last event at the name.
        var untold: [ModelName: Int] = [:]
        /// The names that the presenter's own program made, each with its item.
        var made: [ModelName: ItemID] = [:]
        /// The names outside the presented item that have a change of which the presenter was not told yet.
        var outside: Set<ModelName> = []
        /// The names with contents that another program changed without a notice to the presenter so far, each with the number
        /// of the last change.
        var contents: [ModelName: Int] = [:]
        /// The names of which the presenter was told, or which its own program changed. Names from before the last moment
        /// without claims, questions and requested ticks are left out.
        var heard: Set<ModelName> = []
        /// The names in the notices that follow from the current event.
        var told: (names: Set<ModelName>, number: Int) = ([], 0)
        /// If true, the checker does not check this view, because the presenter's own program possibly made a change.
        var isExcused = false
    }

    /// The item at each name that an event has mentioned; nil if no item has the name.
    private var names: [ModelName: ItemID?] = [:]
    /// The item at each name when the model last had no claims, no questions and no requested ticks.
    private var former: [ModelName: ItemID?] = [:]
    private var homes: [ItemID: Place] = [:]
    /// For an item that was found to be another name of a file, the first item of that file.
    private var aliases: [ItemID: ItemID] = [:]
    /// For each deleted directory, the number of the event in which it was deleted.
    private var ends: [ItemID: Int] = [:]
    /// The new name of the last move, if no earlier event had mentioned this name. It is not known whether an item had the name
    /// before the move.
    private var guessed: ModelName?
    private var nameViews: [PresenterID: NameView] = [:]
    /// N12: for each claim that goes on writing, the change stamp in the last notice about it.
    private var reportedStamps: [ClaimID: UInt64] = [:]
    /// The last move. A notice about the former name that follows from the same event concerns the contents under the new name.
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
            // N12: the change must be reported within the current event. A notice counts only for changes of earlier events, so
            // this change gets the number of the previous event.
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
            // The change was made through a handle of a file that has lost this name.
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
        // When a directory is deleted, the names in it are deleted with it.
        if homes[item] != nil {
            ends[item] = model.number
            for one in names.keys where one.directory == item { names[one] = .some(nil) }
        }
    }

    private mutating func moved(
        _ item: ItemID, _ move: Move, _ party: Party, _ claim: ClaimID?, _ model: WorldModel
    ) {
        let from = learn(item, move.from, held: item, model)
        let (taken, next) = (guessed, ModelName(move.to, move.replacedDocument ?? item))
        guessed = names[next] == nil ? next : nil
        let to = learn(move.replacedDocument ?? item, move.to, held: move.replacedDocument, model)
        // This event is the second of the two moves of an exchange. So before the exchange an item had the name `from`.
        if from == taken, move.isSecondHalf { believe(from, model) }
        if !move.isSecondHalf, let known = names[from], let known, known != item {
            aliases[item] = aliases[known] ?? known
        }
        if !move.isSecondHalf || names[from] == .some(item) { names[from] = .some(nil) }
        names[to] = .some(move.replacedDocument ?? item)
        last = (from, to, model.number)
        if homes[item] != nil { homes[item] = move.to }
        let own: (inout Self, PresenterID) -> Void = { checker, id in
            if let other = checker.names[from], let other {
                // The presenter's own program has exchanged the two items.
                for (name, item) in [(from, other), (to, item)] {
                    checker.strike(name, item, from: id, model)
                }
                for (name, item) in [(from, other), (to, item)] { checker.add(name, item, to: id, model) }
                return
            }
            checker.rename(from, item, to: to, in: id, model)
            // Changes of the contents by other programs must still be reported, now under the new name.
            let last = checker.nameViews[id]?.contents.removeValue(forKey: from)
            checker.nameViews[id]?.contents[to] = nil
            if move.replacedDocument == nil, checker.homes[item] == nil, let last {
                checker.touch(id, [to], model, contents: last)
            }
            if checker.nameViews[id]?.untold[from] != nil { checker.touch(id, [to], model) }
        }
        for id in hearers(of: party, claim, model, at: [from, to], own) {
            touch(id, [from, to], model)
            let written = nameViews[id]?.contents.removeValue(forKey: from)
            let changed = move.replacedDocument == nil ? written : model.number
            if homes[item] == nil, isInside(to, id, model) { nameViews[id]?.contents[to] = changed }
        }
    }

    /// Records a name that no earlier event had mentioned. If the name existed before this event, the presenters of the
    /// directories above know it.
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

    /// P5, P6: returns the presenters that must get a notice of a change by this party.
    ///
    /// If a presenter's own program made the change, the method calls `body` to change the presenter's view, and does not
    /// return the presenter.
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
        // N7: a moved item is reported under its new name only.
        for name in touched {
            let isInside = isInside(name, id, model)
            guard isInside || name == touched.last else { continue }
            nameViews[id]?.untold[name] = model.number
            if isInside { nameViews[id]?.outside.remove(name) } else { nameViews[id]?.outside.insert(name) }
        }
    }
}

/// Computes where names are.
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

    /// Whether the names of all directories above are up to date. In the middle of an exchange, one of the names still belongs
    /// to another item.
    private func isReachable(_ directory: ItemID?) -> Bool {
        var (next, depth) = (directory, 0)
        while let here = next, let home = homes[here], depth < 64 {
            if let known = names[ModelName(home, here)], known != here { return false }
            (next, depth) = (home.directory, depth + 1)
        }
        return true
    }

    /// Returns all names that exist below the presented item.
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

    /// Adds a name to a presenter's view. For a new directory it also adds the names in it, because the presenter reads the
    /// directory.
    private mutating func add(_ name: ModelName, _ item: ItemID, to id: PresenterID, _ model: WorldModel) {
        guard let path = path(of: name, below: id, model) else { return }
        nameViews[id]?.paths.insert(path)
        guard homes[item] != nil, let known = nameViews[id]?.paths else { return }
        nameViews[id]?.paths = known.filter { $0 == path || !$0.starts(with: path) }
        // Leaves out each new name of which the presenter was not told, because its program may not have seen the name.
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

/// Checks the notices and questions.
extension NameViewChecker {
    mutating func noteEffect(
        _ effect: Effect, of event: ArbiterEvent, _ model: WorldModel, _ report: inout ViolationReport
    ) {
        if case .ask(let question) = effect { return check(question, model, &report) }
        if case .suspend(let claim, _) = effect { noteSuspension(claim, model) }
        guard case .tell(let notice) = effect, let subitem = notice.subitem,
            let presenterModel = model.presenterModels[notice.presenter], nameViews[notice.presenter] != nil,
            // N6: a notice about a name can be about the presented directory itself. This checker does not check such notices.
            presenterModel.item != subitem.item
        else { return }
        let id = notice.presenter
        let name = ModelName(subitem.place, subitem.item)
        checkHappened(notice, name, model, &report)
        // N13: after a directory was deleted, no notice about a name in the directory is allowed.
        for place in [subitem.place, subitem.former].compactMap(\.self) {
            guard let directory = place.directory, let end = ends[directory], end < model.number,
                directory != presenterModel.item, isInside(ModelName(place, subitem.item), id, model)
            else { continue }
            report.addViolation("\(id) is told of \(name) when \(directory) is gone")
        }
        switch notice.kind {
        // If a directory was moved to a place below the presented item, the presenter reads the names in it.
        case .subitemDidAppear where notice.cause.access == .write(.forMoving):
            add(name, subitem.item, to: id, model)
        case .subitemDidMove:
            guard let former = subitem.former else {
                return report.addViolation("\(id) is told that \(subitem.item) moved, and not from where")
            }
            rename(ModelName(former, subitem.item), subitem.item, to: name, in: id, model)
            settle(ModelName(former, subitem.item), id, model)
            // N5: after the notice of the directory's move, no other access session sends a notice of this name.
            if homes[subitem.item] != nil { nameViews[id]?.untold[name] = nil }
        case .subitemDidChange where notice.cause.access == .write(.forDeleting):
            strike(name, subitem.item, from: id, model)
        default: if let path = path(of: name, below: id, model) { nameViews[id]?.paths.insert(path) }
        }
        settle(name, id, model)
    }

    /// Notes that the presenter was told of a name. Changes in the current event do not count as told, because another access
    /// session may report them.
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
        // A move and a change of one name give two notices. So two notices of one event may have the same name.
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

    /// N4: a suspended claim may have changed the items that it writes, so notices of these items are allowed.
    private mutating func noteSuspension(_ id: ClaimID, _ model: WorldModel) {
        for part in model.claims[id]?.parts ?? [] where part.access.isWrite {
            let name = learn(part.item, part.place, held: part.item, model)
            for presenter in nameViews.keys { touch(presenter, [name], model) }
        }
    }

    /// P26: checks that a presenter is asked only about the deletion of an item that it knows.
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
        // The views are compared with the real names only at a tick. Between the two moves of an exchange, views and real names
        // differ.
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
