// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Counts how often each kind of event and effect has occurred.
package struct SimulationCounts: Sendable, CustomStringConvertible {
    package private(set) var counts: [String: Int] = [:]

    package init() {}

    package subscript(name: String) -> Int { counts[name] ?? 0 }

    package mutating func add(_ other: SimulationCounts) { counts.merge(other.counts, uniquingKeysWith: +) }

    private mutating func count(_ name: String) { counts[name, default: 0] += 1 }

    package var description: String {
        counts.sorted { $0.key < $1.key }.map { "  \($0.key): \($0.value)" }.joined(separator: "\n")
    }

    /// Counts an event, before the model records the event.
    mutating func count(_ event: ArbiterEvent, _ model: WorldModel) {
        count("event")
        switch event {
        case .claimed(let request): count(request)
        case .withdrawn: count("fact: withdrawn")
        case .forced: count("fact: forced")
        case .overdue: count("fact: overdue")
        case .vacated: count("fact: vacated")
        case .replaced: count("fact: replaced")
        case .placed(let item, let directory):
            if let known = model.directories[item], known.isPackage != directory.isPackage {
                count("fact: package mark changed")
            }
        case .forgotten: count("fact: directory forgotten")
        case .relinked: count("fact: relinked")
        case .presented(let presenter):
            let kind =
                presenter.item.map {
                    model.directories[$0].map { $0.isPackage ? "package" : "folder" } ?? "file"
                }
            count("presenter of \(kind ?? "nothing yet")")
        case .shown: count("presenter shown later")
        case .removed: count("presenter removed")
        case .paused: count("fact: paused")
        case .resumed: count("fact: resumed")
        case .muted: count("fact: muted")
        case .unmuted: count("fact: unmuted")
        case .answered(let id, _, let answer):
            count(
                model.questions[id] == nil
                    ? "answer: late, twice or to nothing" : "answer: \(answer.rawValue)")
        case .progressed: count("fact: progress")
        case .hurried: count("fact: hurried")
        case .changed: count("fact: changed")
        case .written: count("fact: written")
        case .created: count("fact: created")
        case .deleted: count("fact: deleted")
        case .lost: count("fact: lost")
        case .versioned: count("fact: version changed")
        case .moved(let item, _, _, _):
            count(model.directories[item] == nil ? "fact: file moved" : "fact: directory moved")
        case .tick: if let wake = model.wake, wake < model.now { count("fact: late tick") }
        case .locked: count("fact: locked")
        case .closed: count("fact: closed")
        case .identified, .observed, .ended: break
        }
    }

    private mutating func count(_ request: ClaimRequest) {
        count("claim")
        count("claim: \(request.nature.rawValue)")
        if request.accessPattern.contains(.appends) { count("claim that appends") }
        if request.accessPattern.contains(.locks) { count("claim that locks") }
        if request.parts.count > 2 { count("claim of many parts") }
        if !request.within.isEmpty { count("claim within another") }
        if request.bounds != ClaimBounds() { count("claim with its own time limits") }
        if request.answering != nil { count("claim made to answer") }
        if request.parts.contains(where: { $0.via != nil }) { count("claim through a symbolic link") }
        if request.parts.contains(where: { $0.place.link != nil }) { count("claim by a hard link") }
    }

    /// Counts an effect, before the model records the effect.
    mutating func count(_ effect: Effect, _ model: WorldModel) {
        switch effect {
        case .grant(let id, let grant):
            count("grant: \(grant.basis.rawValue)")
            if !grant.preempted.isEmpty { count("grant over others") }
            if !grant.unanswered.isEmpty { count("grant over presenters") }
            if let claim = model.claims[id], claim.parts.contains(where: { model.isInPackage($0) }) {
                count("grant in a package")
            }
        case .refuse(_, let refusal): count("refuse: \(refusal.rawValue)")
        case .identify: count("identify")
        case .observe: count("observe")
        case .suspend(_, let suspension): count("suspend: \(suspension.rawValue)")
        case .retarget: count("retarget")
        case .deadlock(let deadlock): count("deadlock: \(deadlock.resolution.rawValue)")
        case .ask(let question): count("ask: \(question.request.rawValue)")
        case .forfeit(_, let isDemoted):
            count("forfeit")
            if isDemoted { count("demotion") }
        case .tell(let notice): count("tell: \(notice.kind.rawValue)")
        case .wake: break
        }
    }
}

extension WorldModel {
    func isInPackage(_ part: ClaimRequest.Part) -> Bool { outermostPackage(part.item, part.place) != nil }
}
