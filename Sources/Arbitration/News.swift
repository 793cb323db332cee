// SPDX-License-Identifier: Apache-2.0
import Coordination

/// What happened in a turn to one item below a presenter's: the last cause of each kind (N8).
struct SubitemNews: Sendable {
    let item: ItemID
    var place: Place
    var former: Place?
    var appeared: Cause?
    var moved: Cause?
    var changed: Cause?
    var deleted: Cause?

    mutating func noteMove(_ cause: Cause, from: Place, to: Place) {
        former = former ?? from
        (moved, place, deleted) = (cause, to, nil)
    }

    /// What was there, was deleted and is there again has changed.
    mutating func noteAppearance(_ cause: Cause, at place: Place) {
        if deleted != nil, appeared == nil { changed = cause } else { appeared = cause }
        (self.place, deleted) = (place, nil)
    }

    /// N8, N6: what there is to tell.
    var notices: [(kind: PresenterNotice, cause: Cause)] {
        if let deleted { return appeared == nil ? [(.subitemDidChange, deleted)] : [] }
        if let appeared { return [(.subitemDidAppear, appeared)] }
        let move = moved.map { [(PresenterNotice.subitemDidMove, $0)] } ?? []
        return move + (changed.map { [(.subitemDidChange, $0)] } ?? [])
    }
}

extension Turn {
    /// As many items are told of at once (N8).
    static let mostNews = 256

    mutating func note(_ item: ItemID, at place: Place, _ body: (inout SubitemNews) -> Void) {
        let present = news.lastIndex { $0.item == item }
        if present == nil { news.append(SubitemNews(item: item, place: place)) }
        body(&news[present ?? news.count - 1])
    }
}

/// How what happened in a turn is told.
extension Arbiter {
    /// N8: tells of all that has happened in a turn that goes on.
    mutating func tellNews(of id: TurnID, _ effects: inout [Effect]) {
        guard var turn = desk.turns[id], let record = desk.records[turn.presenter] else { return }
        tell(of: turn, record, &effects)
        (turn.moved, turn.changed, turn.deleted, turn.news) = (nil, nil, nil, [])
        desk.turns[id] = turn
    }

    /// N3, N9: moved, changed, then subitems.
    func tell(of turn: Turn, _ record: PresenterRecord, _ effects: inout [Effect]) {
        let tell = { (kind: PresenterNotice, cause: Cause?) -> [Effect] in
            guard let cause, record.presenter.messages.contains(PresenterMessages(kind)) else { return [] }
            return [.tell(Notice(kind, to: turn.presenter, in: turn.id, cause))]
        }
        // Who has refused, or never said, may believe that it is still there, and would bring it back by the next save.
        let hasAgreed = !turn.isUnanswered && turn.asked.contains { $0.request == .accommodateDeletion }
        // N6: a plain directory's own end is among what happened in it.
        let isGone = turn.news.contains { $0.item == record.item && $0.deleted != nil }
        if turn.deleted == nil, !isGone {
            effects += tell(.didMove, turn.moved)
            effects += tell(.didChange, turn.changed ?? fallBack(turn, record))
        } else if !hasAgreed {
            effects += tell(.didChange, turn.deleted)
        }
        for news in turn.news where news.item != record.item || !isGone || !hasAgreed {
            for (kind, cause) in news.notices
            where record.presenter.messages.contains(PresenterMessages(kind)) {
                let subitem = Notice.Subitem(
                    news.item, at: news.place, from: kind == .subitemDidMove ? news.former : nil)
                effects.append(.tell(Notice(kind, of: subitem, to: turn.presenter, in: turn.id, cause)))
            }
        }
    }

    /// N6: why a presenter of a package must be told `didChange` for want of something better.
    private func fallBack(_ turn: Turn, _ record: PresenterRecord) -> Cause? {
        guard !turn.news.isEmpty, let item = record.item, tree.isPackage(item) else { return nil }
        let notices = turn.news.flatMap(\.notices)
        return notices.last { !record.presenter.messages.contains(PresenterMessages($0.kind)) }?.cause
    }
}
