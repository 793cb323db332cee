// SPDX-License-Identifier: Apache-2.0
import Arbitration
import Coordination

/// Queries for scenario files; they do not change the arbiter.
extension Arbiter {
    /// Returns the blockers of a claim, the blockers of those blockers, and so on to the end.
    func blockingChain(of claim: ClaimID) -> [String] {
        var lines: [String] = []
        var explained: Set<ClaimID> = []
        var next: ClaimID? = claim
        while let waiting = next, explained.insert(waiting).inserted {
            for question in openQuestions(for: waiting) {
                lines.append(
                    "\(waiting) waits for \(question.presenter) to answer \(question.id) "
                        + "\(question.request.rawValue), asked at \(question.asked), by \(question.deadline)")
            }
            next = blocker(of: waiting)
            guard let holder = next else { break }
            lines.append("\(waiting) waits for \(holder) on \(describe(conflict(of: waiting, with: holder)))")
            if let inner = dependencies(of: holder).first {
                lines.append("\(holder) waits for \(inner) to end first")
                next = inner
            }
        }
        return lines.isEmpty ? ["\(claim) does not wait"] : lines
    }

    /// Returns the claims on an item, the presenters of the item, and their unanswered questions.
    func claimsAndPresenters(of item: ItemID) -> [String] {
        let claims = claims(on: item).map { claim in
            let isWaiting = blocker(of: claim) != nil || !openQuestions(for: claim).isEmpty
            return "\(claim)\(isWaiting ? " waits" : "")"
        }
        let presenters = presenters(of: item).map { presenter in
            let open = openQuestions(of: presenter).map { "\($0.id) \($0.request.rawValue)" }
            return "\(presenter)\(open.isEmpty ? "" : " owes " + open.joined(separator: ", "))"
        }
        return claims + presenters
    }

    private func describe(_ conflict: ClaimConflict?) -> String {
        switch conflict {
        case .item(let item): "\(item)"
        case .package(let item): "package \(item)"
        case .contents(let item): "what is in \(item)"
        case nil: "nothing"
        }
    }
}
