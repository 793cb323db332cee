// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// Returns the text for an effect in a scenario file.
package func describe(_ effect: Effect) -> String {
    switch effect {
    case .grant(let claim, let grant):
        let preempted = grant.preempted.map { $0.isClean ? "\($0.claim) (clean)" : "\($0.claim)" }
        let over = preempted.isEmpty ? "" : " over " + preempted.joined(separator: ", ")
        let silent = grant.unanswered.map(\.description).joined(separator: ", ")
        return "grant \(claim) \(grant.basis.rawValue)\(over)"
            + (silent.isEmpty ? "" : " unanswered by \(silent)")
    case .refuse(let claim, let refusal): return "refuse \(claim) \(refusal.rawValue)"
    case .identify(let claim): return "identify \(claim)"
    case .observe(let claim): return "observe \(claim)"
    case .suspend(let claim, let suspension): return "suspend \(claim) \(suspension.rawValue)"
    case .wake(let moment): return "wake at \(moment)"
    case .ask(let question):
        let subitem = question.subitem.map { " of \($0)" } ?? ""
        return
            "ask \(question.id) \(question.presenter) \(question.request.rawValue)\(subitem) in \(question.accessSession) "
            + "for \(name(of: question.cause)) by \(question.deadline)"
    case .forfeit(let question, let isDemoted):
        return "forfeit \(question.id) \(question.presenter) \(question.request.rawValue)"
            + (isDemoted ? " demoted" : "")
    case .tell(let notice):
        let subitem = notice.subitem.map { subitem in
            " of \(subitem.item)\(describe(subitem.place, as: "at"))"
                + (subitem.former.map { describe($0, as: "from") } ?? "")
        }
        let version = notice.version.map { " \($0)" } ?? ""
        return
            "tell \(notice.presenter) \(notice.kind.rawValue)\(version)\(subitem ?? "") in \(notice.accessSession) "
            + "for \(name(of: notice.cause))\(isOfDeletion(notice) ? " (deletion)" : "")"
    case .retarget(let claim, let item, let other): return "retarget \(claim) from \(item) to \(other)"
    case .deadlock(let deadlock):
        let cycle = deadlock.cycle.map(\.description).joined(separator: " ")
        return "deadlock \(cycle): \(deadlock.resolution.rawValue) \(deadlock.claim)"
    }
}

/// N6: whether a notice of a change is about a deletion. Then there are no new contents for the presenter to read.
private func isOfDeletion(_ notice: Notice) -> Bool {
    (notice.kind == .didChange || notice.kind == .subitemDidChange)
        && notice.cause.access == .write(.forDeleting)
}

/// Returns the text for a place, such as ` at @5 link 2`; empty for an empty place.
private func describe(_ place: Place, as preposition: String) -> String {
    let directory = place.directory.map { " \(preposition) \($0)" } ?? ""
    return directory + (place.link.map { " link \($0.rawValue)" } ?? "")
}

private func name(of cause: Cause) -> String { cause.party.process.map { "\($0)" } ?? "nobody" }
