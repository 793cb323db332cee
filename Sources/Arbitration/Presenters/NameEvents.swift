// SPDX-License-Identifier: Apache-2.0
import Coordination

/// A name, as it is known to presenters of the directories above.
struct NameKey: Hashable, Sendable {
    let directory: ItemID?
    let link: LinkID?
    /// The item; nil if `link` identifies the name. If there is no link number, the directory and the item identify the
    /// name.
    let item: ItemID?

    init(_ item: ItemID, at place: Place) {
        directory = place.directory
        link = place.link
        self.item = place.link == nil ? item : nil
    }
}

/// N8: The events of one name in an access session: the item before, the item now, and the last cause of each kind of
/// event.
struct NameEvents: Sendable {
    /// How the item that has the name now got the name.
    enum Arrival: Sendable {
        case made(Cause)
        case moved(Cause)
        /// A directory was moved to the name, with all items in it.
        case directoryMoved(Cause)

        var cause: Cause {
            switch self {
            case .made(let cause), .moved(let cause), .directoryMoved(let cause): cause
            }
        }
        var isOfDirectory: Bool { if case .directoryMoved = self { true } else { false } }
    }

    /// The facts about an item that move with the item to another name.
    struct CarriedState: Sendable {
        /// The name of the item before the access session.
        var origin: NameKey?
        /// The cause of a change of the item's contents in the access session.
        var changed: Cause?
    }

    let name: NameKey
    let place: Place
    /// N7: Whether the name is below the presented directory. A name outside the directory is stored only if an item
    /// was moved out of the directory to this name.
    var isInside: Bool
    /// The item that had the name before the access session.
    var before: ItemID?
    var now: ItemID?
    var carried = CarriedState()
    /// The item that had this name, and was replaced by a move to this name. If two names are exchanged by two moves,
    /// the second move moves the replaced item.
    var displaced: (item: ItemID, carried: CarriedState)?
    var arrival: Arrival?
    /// The cause of the last event by which an item lost the name.
    var left: Cause?
    /// The cause of the last event by which the name got other contents: a change, or an item that got the name.
    var other: Cause?

    /// Whether no event of the name is left of which the presenter was not told.
    var isSettled: Bool { arrival == nil && left == nil && carried.changed == nil }
    var isStep: Bool { arrival != nil || left != nil }

    mutating func change(_ cause: Cause) {
        carried.changed = cause
        other = cause
    }

    mutating func arrive(_ item: ItemID, _ arrival: Arrival, _ carried: CarriedState) {
        if let now, now != item { displaced = (now, self.carried) }
        (now, self.arrival, self.carried) = (item, arrival, carried)
        other = Cause(arrival.cause.party, .write(.forReplacing))
    }

    /// Notes that an item loses the name. Returns the facts about the item that its next name needs.
    mutating func depart(_ item: ItemID, _ cause: Cause, isSecondHalf: Bool = false) -> CarriedState {
        left = cause
        guard let now, now != item else {
            // These facts are needed even for a deletion, because it can turn out to be a move (N9).
            self.now = nil
            return CarriedState(
                origin: carried.origin ?? (before == item ? name : nil), changed: carried.changed)
        }
        guard isSecondHalf else {
            // The file has two names, and events of its other name were stored under this name. So no item has this
            // name now.
            self.now = nil
            return CarriedState()
        }
        if let displaced, displaced.item == item {
            self.displaced = nil
            let origin = displaced.carried.origin ?? (before == item ? name : nil)
            return CarriedState(origin: origin, changed: displaced.carried.changed)
        }
        // Two moves exchange two names, and this is the second move. When the first move was stored, it was not known
        // that this item had the name.
        if before == nil { before = item }
        return CarriedState(origin: before == item ? name : nil)
    }
}

/// N8: The events of an access session at the names below the presented item, in the order of the first event of each
/// name.
struct NameEventLog: Sendable {
    private(set) var entries: [NameEvents] = []
    private var index: [NameKey: Int] = [:]
    /// The new name of the last move. It is stored because two moves can exchange two names, and the presenter can be
    /// told of the first move before the second.
    private var lastArrival: NameKey?
    /// N10: Whether any name got or lost an item.
    private(set) var hasSteps = false

    /// N8: When an access session has events of this many names, its presenter is told immediately, and not at the end
    /// of the session.
    ///
    /// The number is 256, or less if there are very many presenters. A program can have an access session with each
    /// presenter. All these sessions together store at most about 32,768 names.
    static func most(among presenters: Int) -> Int { max(4, min(256, 32_768 / max(presenters, 1))) }

    var hasUnreported: Bool { entries.contains { !$0.isSettled } }

    func knows(anyOf names: [NameKey]) -> Bool {
        names.contains { name in index[name].map { !entries[$0].isSettled } ?? false }
    }

    mutating func change(_ item: ItemID, at place: Place, _ cause: Cause) {
        update(NameKey(item, at: place), at: place, held: item) { $0.change(cause) }
    }

    mutating func appear(_ item: ItemID, at place: Place, _ cause: Cause) {
        update(NameKey(item, at: place), at: place, held: nil) { entry in
            // An item that was deleted and created again has new contents.
            let changed = entry.before == item ? cause : entry.now == item ? entry.carried.changed : nil
            entry.arrive(item, .made(cause), NameEvents.CarriedState(changed: changed))
        }
    }

    mutating func remove(_ item: ItemID, at place: Place, _ cause: Cause) {
        update(NameKey(item, at: place), at: place, held: item) { entry in
            // No item has the name now, even if another item than the deleted one was stored for the name.
            _ = entry.depart(entry.now ?? item, cause)
        }
    }

    /// N7: Notes a move. A name of the move that is outside the presented directory is mostly ignored.
    mutating func move(
        _ item: ItemID, _ move: Move, _ arrival: NameEvents.Arrival, isFromInside: Bool, isToInside: Bool
    ) {
        let (from, to) = (NameKey(item, at: move.from), NameKey(move.replacedDocument ?? item, at: move.to))
        var carried = NameEvents.CarriedState()
        if isFromInside || index[from] != nil {
            update(from, at: move.from, isInside: isFromInside, held: item) {
                carried = $0.depart(item, arrival.cause, isSecondHalf: move.isSecondHalf)
            }
        }
        // The presenter can know a directory from earlier events in the directory, so the former name is stored even
        // for a new directory.
        let isLeft = index[from].map { entries[$0].now == nil } ?? false
        if arrival.isOfDirectory, isFromInside, isLeft { carried.origin = carried.origin ?? from }
        // An item from outside the presented directory counts as changed, because the presenter was not told of its
        // changes outside.
        let replacing = Cause(arrival.cause.party, .write(.forReplacing))
        if !isFromInside { carried.changed = replacing }
        if !isFromInside, arrival.isOfDirectory { carried.origin = nil }
        if let document = move.replacedDocument {
            guard isToInside else { return }
            update(to, at: move.to, held: document) { entry in
                if entry.now != document { entry.arrive(document, arrival, NameEvents.CarriedState()) }
                entry.change(replacing)
            }
            return
        }
        update(to, at: move.to, isInside: isToInside, held: nil) { entry in
            // Perhaps the item had this name before. But the presenter knows only the contents that the item had then.
            entry.arrive(item, arrival, carried)
        }
        if isToInside { lastArrival = to }
    }

    private mutating func update(
        _ name: NameKey, at place: Place, isInside: Bool = true, held: ItemID?,
        _ body: (inout NameEvents) -> Void
    ) {
        let known = index[name] ?? entries.count
        if known == entries.count {
            index[name] = known
            entries.append(NameEvents(name: name, place: place, isInside: isInside, before: held, now: held))
        }
        if isInside, !entries[known].isInside {
            // The directory of this name was moved into the presented directory, so the presenter knows the item that
            // has the name now.
            (entries[known].isInside, entries[known].before) = (true, entries[known].now)
        }
        body(&entries[known])
        if entries[known].isStep { hasSteps = true }
    }

    /// Forgets the events of names. The presenter is told of them in another notice.
    mutating func forget(_ names: [NameKey]) {
        guard names.contains(where: { index[$0] != nil }) else { return }
        // For more than a few names, a set avoids the comparison of all pairs.
        let (few, many) = names.count > 8 ? ([], Set(names)) : (names, [])
        entries.removeAll { few.contains($0.name) || many.contains($0.name) }
        reindex()
    }

    /// N14: Forgets all names except the names of one item. Returns whether a forgotten name had an event of which the
    /// presenter was not told.
    mutating func forgetNames(but item: ItemID) -> Bool {
        let forgotten = entries.filter { $0.before != item && $0.now != item }
        guard !forgotten.isEmpty else { return false }
        forget(forgotten.map(\.name))
        return forgotten.contains { !$0.isSettled }
    }

    /// N5: Notes an event that the presenter itself caused, and forgets earlier events of the names in this event.
    ///
    /// One earlier event is not forgotten. If the presenter moved an item that another program had changed, perhaps the
    /// presenter does not know the changed contents. So the change is noted again, under the item's new name.
    mutating func know(_ itemEvent: ItemEvent) {
        guard itemEvent.names.contains(where: { index[$0] != nil }) else { return }
        var changed: Cause?
        if let (item, move) = itemEvent.moved, let from = index[NameKey(item, at: move.from)],
            let now = entries[from].now, now == item || !move.isSecondHalf
        {
            changed = entries[from].other
        }
        // Perhaps two moves exchange two names, and this is the second move. The name that the first move gave to
        // another item is not forgotten.
        let kept = itemEvent.names.filter { name in
            guard let mover = itemEvent.mover, name != itemEvent.names.last, let known = index[name] else {
                return false
            }
            return entries[known].now != nil && entries[known].now != mover
        }
        forget(itemEvent.names.filter { !kept.contains($0) })
        guard let changed, let (item, move) = itemEvent.moved else { return }
        change(item, at: move.to, changed)
    }

    /// N9: Forgets the deletion of an item that exists again.
    mutating func takeBackDeletion(of item: ItemID) {
        guard entries.contains(where: { $0.before == item && $0.now == nil }) else { return }
        entries.removeAll { $0.before == item && $0.now == nil }
        reindex()
    }

    /// N5, N8: Called when the presenter was told of all events except those of the names in `heldBack`: forgets the
    /// other events.
    mutating func discardReported(heldBack: Set<NameKey> = []) {
        let last = lastArrival
        entries = entries.compactMap { entry in
            if heldBack.contains(entry.name) { return entry }
            guard entry.name == last, let now = entry.now else { return nil }
            return NameEvents(name: entry.name, place: entry.place, isInside: true, before: now, now: now)
        }
        reindex()
    }

    private mutating func reindex() {
        index = Dictionary(uniqueKeysWithValues: entries.enumerated().map { ($1.name, $0) })
        hasSteps = entries.contains(where: \.isStep)
        if let last = lastArrival, index[last] == nil { lastArrival = nil }
    }
}

/// A notice to a presenter about one name.
struct NameNotice {
    let name: NameKey
    let kind: PresenterNotice
    let subitem: Notice.Subitem
    let cause: Cause

    var isOfDeletion: Bool { kind == .subitemDidChange && cause.access == .write(.forDeleting) }
}

/// N6 to N8: Turns the events at names into notices.
extension NameEventLog {
    /// Returns the moves, as indexes of names: for each new name of an item, the item's former name.
    private func formerNames() -> [Int: Int] {
        var formers: [Int: Int] = [:]
        var taken: Set<Int> = []
        for (place, entry) in entries.enumerated() {
            guard let now = entry.now, now != entry.before,
                let origin = entry.carried.origin.flatMap({ index[$0] }),
                !taken.contains(origin)
            else { continue }
            // The move of a directory is always reported as a move, because all items in the directory have new paths.
            let isMove = entry.before == nil && entries[origin].now == nil && entries[origin].before == now
            guard isMove || entry.arrival?.isOfDirectory ?? false else { continue }
            formers[place] = origin
            taken.insert(origin)
        }
        addLinks(to: &formers, taken)
        return formers
    }

    /// Adds items that lost one name and got another, as by link(2) followed by unlink(2).
    private func addLinks(to formers: inout [Int: Int], _ taken: Set<Int>) {
        var gone: [ItemID: [Int]] = [:]
        for (place, entry) in entries.enumerated() where entry.now == nil && !taken.contains(place) {
            if let before = entry.before { gone[before, default: []].append(place) }
        }
        if gone.isEmpty { return }
        for (place, entry) in entries.enumerated() where entry.before == nil && formers[place] == nil {
            guard let now = entry.now, let former = gone[now]?.first else { continue }
            gone[now]?.removeFirst()
            formers[place] = former
        }
    }

    /// The notices of all events. Moves of directories come first, because the other notices use the new paths.
    var notices: [NameNotice] {
        let formers = formerNames()
        let moved = Set(formers.values)
        var (first, rest): ([NameNotice], [NameNotice]) = ([], [])
        for (place, entry) in entries.enumerated() {
            if let former = formers[place] {
                let told = entry.noticesOfMove(from: entries[former].place)
                if entry.arrival?.isOfDirectory ?? false { first += told } else { rest += told }
            } else if entry.isInside, !moved.contains(place) || entry.now != nil {
                rest += entry.notice.map { [$0] } ?? []
            }
        }
        return first + rest
    }

    /// N5: Names that an item had before the access session, and that no item has now. Perhaps a save has removed the
    /// name in its first step, and gives the name to a new file later.
    var goneNames: Set<NameKey> {
        let moved = Set(formerNames().values)
        return Set(
            entries.indices.filter { !moved.contains($0) && entries[$0].isGone }.map { entries[$0].name })
    }

    /// P26: Whether the presenter was not told yet that an item has this name.
    func isUnreported(_ name: NameKey) -> Bool {
        guard let place = index[name], entries[place].before == nil else { return false }
        return formerNames()[place] == nil
    }
}

extension NameEvents {
    var isGone: Bool { isInside && before != nil && now == nil }

    fileprivate func noticesOfMove(from former: Place) -> [NameNotice] {
        guard let now, let arrival else { return [] }
        let subitem = Notice.Subitem(now, at: place, from: former)
        let moved = NameNotice(name: name, kind: .subitemDidMove, subitem: subitem, cause: arrival.cause)
        return [moved] + (carried.changed.map { [notice(.subitemDidChange, now, $0)] } ?? [])
    }

    fileprivate var notice: NameNotice? {
        switch (before, now) {
        case (nil, nil): return nil
        case (nil, let now?): return arrival.map { notice(.subitemDidAppear, now, $0.cause) }
        case (let before?, nil):
            return left.map { notice(.subitemDidChange, before, Cause($0.party, .write(.forDeleting))) }
        case (let before?, let now?):
            if before == now { return carried.changed.map { notice(.subitemDidChange, now, $0) } }
            // A directory has replaced the item. It is reported as new, because the presenter does not know the items
            // in the directory.
            if let arrival, arrival.isOfDirectory { return notice(.subitemDidAppear, now, arrival.cause) }
            return other.map { notice(.subitemDidChange, now, $0) }
        }
    }

    private func notice(_ kind: PresenterNotice, _ item: ItemID, _ cause: Cause) -> NameNotice {
        NameNotice(name: name, kind: kind, subitem: Notice.Subitem(item, at: place), cause: cause)
    }
}

/// How presenters are told of the events of an access session.
extension Arbiter {
    /// N8: Tells a presenter of all events of an access session so far. The session goes on.
    mutating func reportNameEvents(of id: AccessSessionID, _ effects: inout [Effect]) {
        guard let accessSession = registry.accessSessions[id],
            let record = registry.records[accessSession.presenter]
        else { return }
        tell(of: accessSession, accessSession.nameEvents.notices, record, &effects)
        registry.updateAccessSession(id) { $0.discardAllEvents() }
    }

    /// N5: Tells a presenter of all events of an access session except deletions. A deletion may be the first step of a
    /// save.
    mutating func reportExceptDeletions(of id: AccessSessionID, _ effects: inout [Effect]) {
        guard let accessSession = registry.accessSessions[id], accessSession.deleted == nil,
            let record = registry.records[accessSession.presenter]
        else {
            return
        }
        let gone = accessSession.nameEvents.goneNames
        tell(
            of: accessSession, accessSession.nameEvents.notices.filter { !gone.contains($0.name) }, record,
            &effects
        )
        registry.updateAccessSession(id) { $0.discardReportedEvents(but: gone) }
    }

    /// N3, N9: Tells a presenter first of moves of its item, then of changes of its item, then of events of items
    /// below.
    func tell(
        of accessSession: AccessSession, _ notices: [NameNotice], _ record: PresenterRecord,
        _ effects: inout [Effect]
    ) {
        let tell = { (kind: PresenterNotice, cause: Cause?) -> [Effect] in
            guard let cause, record.presenter.messages.contains(PresenterMessages(kind)) else { return [] }
            return [.tell(Notice(kind, to: accessSession.presenter, in: accessSession.id, cause))]
        }
        // A presenter that has not agreed to the deletion is told of it, so that its next save does not create the item
        // again.
        let hasAgreed =
            !accessSession.lacksConsent && accessSession.asked.contains { $0.request == .accommodateDeletion }
        // N6: For the presenter of a plain directory (no package), the deletion of the directory is stored like an
        // event in the directory.
        let isEnd = { (notice: NameNotice) in notice.subitem.item == record.item && notice.isOfDeletion }
        let isGone = notices.contains(where: isEnd)
        if accessSession.deleted == nil, !isGone {
            effects += tell(.didMove, accessSession.moved)
            effects += tell(.didChange, accessSession.changed ?? fallBack(notices, record))
        } else if !hasAgreed {
            effects += tell(.didChange, accessSession.deleted)
        }
        tellNames(notices.filter { !hasAgreed || !isEnd($0) }, of: accessSession, record, &effects)
    }

    private func tellNames(
        _ notices: [NameNotice], of accessSession: AccessSession, _ record: PresenterRecord,
        _ effects: inout [Effect]
    ) {
        for notice in notices where record.presenter.messages.contains(PresenterMessages(notice.kind)) {
            effects.append(
                .tell(
                    Notice(
                        notice.kind, of: notice.subitem, to: accessSession.presenter, in: accessSession.id,
                        notice.cause)))
        }
    }

    /// N13: Called when a directory is about to leave the presented directory: tells the presenter of the events in the
    /// leaving directory, while the paths of these events are still true.
    ///
    /// If this is the second of two moves that exchange two names, the event of the name `taken` is not told now.
    mutating func reportNameEvents(
        inside directory: ItemID, but taken: NameKey? = nil, to id: PresenterID, _ effects: inout [Effect]
    ) {
        guard let record = registry.records[id] else { return }
        let isInside = { [tree] (one: ItemID?) in
            guard let one else { return false }
            return one == directory || tree.isBelow(one, at: Place(), directory)
        }
        for id in record.accessSessions {
            guard let accessSession = registry.accessSessions[id] else { continue }
            let notices = accessSession.nameEvents.notices.filter {
                $0.name != taken && (isInside($0.name.directory) || isInside($0.subitem.former?.directory))
            }
            let names = accessSession.nameEvents.entries.map(\.name).filter { isInside($0.directory) }
            if !notices.isEmpty { tell(notices, inMidstOf: accessSession, record, &effects) }
            registry.updateAccessSession(id) { $0.nameEvents.forget(names) }
        }
    }

    /// N12: Tells a presenter of the events of the given names only. With other names, the program may be in the middle
    /// of a save.
    mutating func reportWritten(_ names: [NameKey], of id: AccessSessionID, _ effects: inout [Effect]) {
        guard let accessSession = registry.accessSessions[id], accessSession.deleted == nil,
            let record = registry.records[accessSession.presenter]
        else {
            return
        }
        tell(
            accessSession.nameEvents.notices.filter { names.contains($0.name) }, inMidstOf: accessSession,
            record,
            &effects)
    }

    /// N3: Tells a presenter first of the moves and changes of its item, and then of the events of some names below.
    private mutating func tell(
        _ notices: [NameNotice], inMidstOf accessSession: AccessSession, _ record: PresenterRecord,
        _ effects: inout [Effect]
    ) {
        let told = notices.flatMap { notice in
            [notice.name] + (notice.subitem.former.map { [NameKey(notice.subitem.item, at: $0)] } ?? [])
        }
        registry.updateAccessSession(accessSession.id) { $0.nameEvents.forget(told) }
        guard accessSession.deleted == nil else {
            return tellNames(notices, of: accessSession, record, &effects)
        }
        tell(of: accessSession, notices, record, &effects)
        registry.updateAccessSession(accessSession.id) { $0.discardItemEvents() }
    }

    /// N6: If the presenter of a package does not implement the notice for an event in the package, it receives
    /// `didChange`. Returns the cause of the last such event; nil if there is none.
    private func fallBack(_ notices: [NameNotice], _ record: PresenterRecord) -> Cause? {
        guard !notices.isEmpty, let item = record.item, tree.isPackage(item) else { return nil }
        return notices.last { !record.presenter.messages.contains(PresenterMessages($0.kind)) }?.cause
    }
}
