// SPDX-License-Identifier: Apache-2.0
import Coordination

/// An event at a name below a presented item.
enum NaiveNameEvent: Sendable {
    case changed(ItemID, Place, Cause)
    case made(ItemID, Place, Cause)
    case deleted(ItemID, Place, Cause)
    case moved(NaiveMove)
}

/// A move as it appears to a presenter of a directory above the old or the new place (N7).
struct NaiveMove: Sendable {
    let item: ItemID
    let move: Move
    let cause: Cause
    let isFromInside: Bool
    let isToInside: Bool
    let isOfDirectory: Bool
}

/// A name in a directory.
///
/// A link number tells the names of one file apart. If the link number is not known, the directory and the item identify the
/// name.
struct NaiveName: Equatable, Sendable {
    let directory: ItemID?
    let link: LinkID?
    let item: ItemID?

    init(_ place: Place, _ item: ItemID) {
        (directory, link) = (place.directory, place.link)
        self.item = place.link == nil ? item : nil
    }
}

/// The result of all events of an access session at one name (N8).
struct NaiveNameState: Sendable {
    /// The item that has the name now, and what happened to this item in the access session.
    struct Holder: Sendable {
        let item: ItemID
        /// The name that the item had before the access session, if that name is known.
        var origin: NaiveName?
        var changed: Cause?
    }

    let name: NaiveName
    let place: Place
    var isInside: Bool
    var before: ItemID?
    var holder: Holder?
    /// The item that lost this name last, with its state at that time.
    var taken: Holder?
    /// The item that had this name before a move replaced it. The second half of an exchange can move this item to another
    /// name.
    var under: Holder?
    var arrived: (cause: Cause, isDirectoryMoved: Bool)?
    var left: Cause?
    var latest: Cause?

    var now: ItemID? { holder?.item }
    var isTold: Bool { arrived == nil && left == nil && (holder ?? taken)?.changed == nil }
    var isGone: Bool { isInside && before != nil && holder == nil }

    mutating func come(_ newcomer: Holder, _ cause: Cause, isDirectoryMoved: Bool) {
        if let holder, holder.item != newcomer.item { under = holder }
        (holder, taken) = (newcomer, nil)
        arrived = (cause, isDirectoryMoved)
        latest = Cause(cause.party, .write(.forReplacing))
    }

    /// Takes the name away from an item, and returns the item's state, which moves with the item.
    mutating func go(_ item: ItemID, _ cause: Cause, isExchanged: Bool = false) -> Holder {
        left = cause
        let isItsFormer = before == item
        func leaving(_ known: Holder?) -> Holder {
            Holder(
                item: item, origin: known?.origin ?? (isItsFormer ? name : nil), changed: known?.changed)
        }
        guard let holder else { return leaving(taken) }
        if holder.item == item {
            (taken, self.holder) = (holder, nil)
            return leaving(holder)
        }
        if !isExchanged {
            self.holder = nil
            return Holder(item: item)
        }
        if under?.item == item {
            defer { under = nil }
            return leaving(under)
        }
        if before == nil { before = item }
        return Holder(item: item, origin: before == item ? name : nil)
    }
}

/// For each name that an access session knows: what the events of the session did to this name so far.
struct NaiveNameStates: Sendable {
    var all: [NaiveNameState] = []

    func find(_ name: NaiveName) -> Int? { all.firstIndex { $0.name == name } }

    mutating func take(_ nameEvent: NaiveNameEvent) {
        switch nameEvent {
        case .changed(let item, let place, let cause):
            let index = enter(item, place, held: item)
            if all[index].holder == nil {
                var taken = all[index].taken ?? NaiveNameState.Holder(item: item)
                taken.changed = cause
                all[index].taken = taken
            } else {
                all[index].holder?.changed = cause
            }
            all[index].latest = cause
        case .made(let item, let place, let cause):
            let index = enter(item, place, held: nil)
            var changed: Cause?
            if all[index].now == item { changed = all[index].holder?.changed }
            if all[index].before == item { changed = cause }
            let newcomer = NaiveNameState.Holder(item: item, changed: changed)
            all[index].come(newcomer, cause, isDirectoryMoved: false)
        case .deleted(let item, let place, let cause):
            let index = enter(item, place, held: item)
            _ = all[index].go(all[index].now ?? item, cause)
        case .moved(let move): take(move)
        }
    }

    private mutating func take(_ move: NaiveMove) {
        let (item, places) = (move.item, move.move)
        var mover = NaiveNameState.Holder(item: item)
        if move.isFromInside || find(NaiveName(places.from, item)) != nil {
            let from = enter(item, places.from, held: item, isInside: move.isFromInside)
            mover = all[from].go(item, move.cause, isExchanged: places.isSecondHalf)
        }
        let isLeft = all.contains { $0.name == NaiveName(places.from, item) && $0.holder == nil }
        if move.isOfDirectory, move.isFromInside, isLeft, mover.origin == nil {
            mover.origin = NaiveName(places.from, item)
        }
        let replacing = Cause(move.cause.party, .write(.forReplacing))
        if !move.isFromInside { mover.changed = replacing }
        if !move.isFromInside, move.isOfDirectory { mover.origin = nil }
        if let document = places.replacedDocument {
            if !move.isToInside { return }
            let to = enter(document, places.to, held: document)
            if all[to].now != document {
                let newcomer = NaiveNameState.Holder(item: document)
                all[to].come(newcomer, move.cause, isDirectoryMoved: move.isOfDirectory)
            }
            all[to].holder?.changed = replacing
            all[to].latest = replacing
            return
        }
        let to = enter(item, places.to, held: nil, isInside: move.isToInside)
        all[to].come(mover, move.cause, isDirectoryMoved: move.isOfDirectory)
    }

    private mutating func enter(
        _ item: ItemID, _ place: Place, held: ItemID?, isInside: Bool = true
    ) -> Int {
        let name = NaiveName(place, item)
        if let known = find(name) {
            if isInside, !all[known].isInside {
                (all[known].isInside, all[known].before) = (true, all[known].now)
            }
            return known
        }
        all.append(
            NaiveNameState(
                name: name, place: place, isInside: isInside, before: held,
                holder: held.map { NaiveNameState.Holder(item: $0) }))
        return all.count - 1
    }

    /// The pairs of a new and a former name that are reported as moves.
    ///
    /// Pairs from moves that were observed come first. After them come pairs of an item that lost one name and got another
    /// name.
    var formers: [(to: Int, from: Int)] {
        var pairs: [(to: Int, from: Int)] = []
        for to in all.indices {
            guard let holder = all[to].holder, all[to].before != holder.item,
                let from = holder.origin.flatMap({ find($0) }),
                !pairs.contains(where: { $0.from == from })
            else { continue }
            let isDirectory = all[to].arrived?.isDirectoryMoved ?? false
            let isMove = all[to].before == nil && all[from].holder == nil && all[from].before == holder.item
            if isDirectory || isMove { pairs.append((to, from)) }
        }
        for to in all.indices where all[to].before == nil && !pairs.contains(where: { $0.to == to }) {
            guard let item = all[to].now else { continue }
            let from = all.indices.first { from in
                all[from].before == item && all[from].holder == nil
                    && !pairs.contains { $0.from == from }
            }
            if let from { pairs.append((to, from)) }
        }
        return pairs
    }

    /// N5: the names that an item had before the access session and that no item has now.
    var gone: [NaiveName] {
        let formers = formers
        return all.indices.filter { index in
            all[index].isGone && !formers.contains { $0.from == index }
        }.map { all[$0].name }
    }
}

/// A notice about a name, before it is sent.
struct NaiveNotice: Sendable {
    let name: NaiveName
    let kind: PresenterNotice
    let item: ItemID
    let place: Place
    var former: Place?
    let cause: Cause

    var isEnd: Bool { kind == .subitemDidChange && cause.access == .write(.forDeleting) }
}

extension NaiveNameStates {
    /// N8: the notices for all names. Each notice follows from the item with the name before the access session and the item
    /// with the name now.
    var notices: [NaiveNotice] {
        let formers = formers
        var (directories, others): ([NaiveNotice], [NaiveNotice]) = ([], [])
        for index in all.indices {
            let outcome = all[index]
            if let from = formers.first(where: { $0.to == index })?.from {
                let told = moved(outcome, from: all[from])
                if outcome.arrived?.isDirectoryMoved ?? false { directories += told } else { others += told }
            } else if outcome.isInside,
                outcome.holder != nil || !formers.contains(where: { $0.from == index })
            {
                others += told(outcome)
            }
        }
        return directories + others
    }

    private func moved(_ outcome: NaiveNameState, from: NaiveNameState) -> [NaiveNotice] {
        guard let holder = outcome.holder, let arrived = outcome.arrived else { return [] }
        var told = [
            NaiveNotice(
                name: outcome.name, kind: .subitemDidMove, item: holder.item, place: outcome.place,
                former: from.place, cause: arrived.cause)
        ]
        if let changed = holder.changed {
            told.append(
                NaiveNotice(
                    name: outcome.name, kind: .subitemDidChange, item: holder.item, place: outcome.place,
                    cause: changed))
        }
        return told
    }

    private func told(_ outcome: NaiveNameState) -> [NaiveNotice] {
        func one(_ kind: PresenterNotice, _ item: ItemID, _ cause: Cause?) -> [NaiveNotice] {
            guard let cause else { return [] }
            return [
                NaiveNotice(name: outcome.name, kind: kind, item: item, place: outcome.place, cause: cause)
            ]
        }
        guard let before = outcome.before else {
            return outcome.now.map { one(.subitemDidAppear, $0, outcome.arrived?.cause) } ?? []
        }
        guard let holder = outcome.holder else {
            let cause = outcome.left.map { Cause($0.party, .write(.forDeleting)) }
            return one(.subitemDidChange, before, cause)
        }
        if holder.item == before { return one(.subitemDidChange, before, holder.changed) }
        if let arrived = outcome.arrived, arrived.isDirectoryMoved {
            return one(.subitemDidAppear, holder.item, arrived.cause)
        }
        return one(.subitemDidChange, holder.item, outcome.latest)
    }
}

/// The names that an access session knows.
extension NaiveAccessSession {
    var outcomes: NaiveNameStates {
        var outcomes = NaiveNameStates(all: known)
        for nameEvent in nameEvents { outcomes.take(nameEvent) }
        return outcomes
    }

    mutating func note(_ nameEvent: NaiveNameEvent) {
        nameEvents.append(nameEvent)
        if case .moved(let move) = nameEvent, move.isToInside, move.move.replacedDocument == nil {
            movedTo = NaiveName(move.move.to, move.item)
        }
    }

    /// Removes all names except the given names from the access session.
    mutating func keep(_ kept: [NaiveNameState]) {
        (known, nameEvents) = (kept, [])
        if let name = movedTo, !kept.contains(where: { $0.name == name }) { movedTo = nil }
    }

    /// Removes from the access session the names of which the presenter was told, except the names in `heldBack`.
    ///
    /// The new name of the last move stays, because this move may be the first half of an exchange.
    mutating func discardReported(but heldBack: [NaiveName] = []) {
        keep(
            outcomes.all.compactMap { outcome in
                if heldBack.contains(outcome.name) { return outcome }
                guard outcome.name == movedTo, let holder = outcome.holder else { return nil }
                return NaiveNameState(
                    name: outcome.name, place: outcome.place, isInside: true, before: holder.item,
                    holder: NaiveNameState.Holder(item: holder.item))
            })
    }

    func knows(_ names: [NaiveName]) -> Bool {
        outcomes.all.contains { names.contains($0.name) && !$0.isTold }
    }

    /// N10: whether the access session has a notice that can be a step of a save: a new, deleted or moved name, or a move or
    /// deletion of the item.
    var hasSteps: Bool {
        moved != nil || gone != nil || outcomes.all.contains { $0.arrived != nil || $0.left != nil }
    }

    /// P26: whether the name is new and unknown to the presenter: no notice of the name was sent, and the item had no name
    /// before that the presenter knows.
    func isUnreported(_ name: NaiveName) -> Bool {
        let outcomes = outcomes
        guard let index = outcomes.find(name), outcomes.all[index].before == nil else { return false }
        return !outcomes.formers.contains { $0.to == index }
    }
}
