// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// The reason why a claim waits or was refused: the claim that blocks it, the claim that blocks the blocker, and so on.
///
/// The facts are collected under the lock. The sentences are made after the lock is released, because they need facts
/// from `/proc` and names of files.
package struct Explanation: Sendable {
    /// One step of the chain: one claim or presenter that another claim waits for.
    enum Link: Sendable {
        case holder(waiting: ExplainedClaimant, ExplainedClaimant, ClaimOverlap)
        case queued(waiting: ExplainedClaimant, ExplainedClaimant, ClaimOverlap)
        /// The first claim is held, and does not end before the second claim, which waits, is granted.
        case dependency(ExplainedClaimant, on: ExplainedClaimant)
        case presenter(waiting: ExplainedClaimant, PresenterEntry, Question)
    }

    /// The resource for which two claims compete, from the view of the waiting claim.
    enum ClaimOverlap: Sendable {
        case item
        case package
        /// The other claim is on an item below the directory that the waiting claim deletes, moves or replaces.
        case below
        /// The waiting claim is on an item below the directory that the other claim deletes, moves or replaces.
        case above
    }

    /// One claim of a cycle.
    struct CycleMember: Sendable {
        let claimant: ExplainedClaimant
        let isWaiting: Bool
    }

    /// A claimant that waits, or for which another claim waits.
    enum ExplainedClaimant: Sendable {
        case claimant(any Claimant)
        case detached(Attribution, [Intent])

        var attribution: Attribution {
            switch self {
            case .claimant(let claimant): claimant.attribution
            case .detached(let attribution, _): attribution
            }
        }

        var intents: [Intent] {
            switch self {
            case .claimant(let claimant): claimant.intents
            case .detached(_, let intents): intents
            }
        }

        var detached: ExplainedClaimant { .detached(attribution, intents) }
    }

    /// The largest number of steps in the chain. A user could not read a longer chain.
    static let longest = 32

    var links: [Link] = []
    /// The claims of a deadlock; empty if there is no deadlock.
    var cycle: [CycleMember] = []
    /// If the claim was refused because a presenter answered with an error: that presenter. Else nil.
    package internal(set) var refuser: PresenterID?
    /// The moment at which the facts were collected.
    private let moment: Instant

    init(at moment: Instant = Instant(nanoseconds: 0)) { self.moment = moment }

    /// The reason as sentences without a period, such as `cat (712) waits for nvim (640) to save notes.md, asked 1.2 s
    /// ago, 8.8 s left`.
    package var sentences: [String] { cycle.isEmpty ? links.map(sentence) : [cycleText] }

    /// The processes that the claim waits for, the nearest first. Each process is listed only once.
    package var actors: [ProcessDescription] {
        var accounts = links.compactMap { link -> Attribution? in
            switch link {
            case .holder(_, let other, _), .queued(_, let other, _): other.attribution
            case .presenter(_, let presenter, _): presenter.attribution
            case .dependency: nil
            }
        }
        accounts += cycle.dropFirst().map(\.claimant.attribution)
        var seen: Set<ProcessDescription> = []
        return accounts.map { ProcessDescription($0) }.filter { seen.insert($0).inserted }
    }

    private func sentence(_ link: Link) -> String {
        switch link {
        case .holder(let waiting, let holder, let overlap):
            let met = holder.intent(beside: waiting)
            return "\(waiting.name) waits for \(holder.name), which is \(met.access.activity) "
                + Self.place(of: met, met: waiting, overlap)
        case .queued(let waiting, let earlier, let overlap):
            let met = earlier.intent(beside: waiting)
            return "\(waiting.name) waits behind \(earlier.name) for "
                + Self.place(of: met, met: waiting, overlap)
        case .dependency(let holder, let waiting):
            let whose = holder.name == waiting.name ? "it" : waiting.name
            return "\(holder.name) holds \(holder.allPaths) until \(whose) has \(waiting.allPaths)"
        case .presenter(let waiting, let presenter, let question):
            let verb: String =
                switch question.request {
                case .relinquishToReader, .relinquishToWriter: "to relinquish"
                case .save: "to save"
                case .accommodateDeletion: "to agree to the deletion of"
                case .accommodateSubitemDeletion: "to agree to a deletion in"
                }
            let asked = "asked \(moment.since(question.asked).seconds) ago"
            return "\(waiting.name) waits for \(Engine.name(of: presenter.attribution)) \(verb) "
                + "\(presenter.path.shownText), \(asked), \(question.deadline.since(moment).seconds) left"
        }
    }

    private static func place(of met: Intent, met waiting: ExplainedClaimant, _ overlap: ClaimOverlap)
        -> String
    {
        let path = met.path().shownText
        switch overlap {
        case .package: return "\(path) in the same package"
        case .below: return "\(path) below it"
        case .above: return "\(path), which it is in"
        case .item:
            let isCalledSo = waiting.intents.contains { $0.path().shownText == path }
            return isCalledSo ? path : "\(path), which is the same file"
        }
    }

    /// The cycle as one sentence, such as `a (712) holds x and waits for b (640), which holds y and waits for a
    /// (712)`.
    private var cycleText: String {
        let names = cycle.map(\.claimant.name)
        let last = cycle.count - 1
        // If the last holder and the first claim are of one program, the sentence begins with the files that this
        // program holds.
        let isRound = !cycle[last].isWaiting && names[last] == names[0]
        var text = names[0] + (isRound ? " holds \(cycle[last].claimant.allPaths) and" : "")
        for (index, step) in cycle.enumerated() where !isRound || index != last {
            let next = (index + 1) % cycle.count
            let isEnd = next == 0 || (isRound && next == last)
            if step.isWaiting {
                text += " waits for \(names[next])" + (isEnd ? "" : ", which")
            } else if names[next] == names[index] {
                text += " holds \(step.claimant.allPaths) and"
            } else {
                text +=
                    " holds \(step.claimant.allPaths) until \(names[next]) is done" + (isEnd ? "" : ", which")
            }
        }
        return text
    }
}

extension Explanation.ExplainedClaimant {
    fileprivate var name: String { Engine.name(of: attribution) }

    /// The access of this claimant that competes with an access of the claimant `other`. If both claimants access one
    /// path, this is the access to that path.
    fileprivate func intent(beside other: Self) -> Intent {
        let paths = other.intents.map { $0.path() }
        let own = intents
        return own.first { paths.contains($0.path()) } ?? own[0]
    }

    fileprivate var allPaths: String { intents.map { $0.path().shownText }.joined(separator: " and ") }
}

extension Explanation {
    /// The explanation without references to claimants. A refused claimant can store the explanation, and a reference
    /// back to the claimant would be a cycle of references.
    var detached: Explanation {
        var explanation = self
        explanation.cycle = cycle.map { CycleMember(claimant: $0.claimant.detached, isWaiting: $0.isWaiting) }
        explanation.links = links.map { link in
            switch link {
            case .holder(let waiting, let other, let overlap):
                .holder(waiting: waiting.detached, other.detached, overlap)
            case .queued(let waiting, let other, let overlap):
                .queued(waiting: waiting.detached, other.detached, overlap)
            case .dependency(let holder, let waiting): .dependency(holder.detached, on: waiting.detached)
            case .presenter(let waiting, let presenter, let question):
                .presenter(waiting: waiting.detached, presenter, question)
            }
        }
        return explanation
    }
}

extension Engine.Decision {
    /// The decision as the claimant receives it: without references to claimants in the explanation.
    var told: Self {
        switch self {
        case .granted: self
        case .refused(let refusal, let explanation): .refused(refusal, explanation.detached)
        }
    }
}

extension Access {
    fileprivate var activity: String {
        switch self {
        case .read: "reading"
        case .write(.forDeleting): "deleting"
        case .write(.forMoving): "moving"
        case .write(.forReplacing): "replacing"
        case .write: "writing"
        }
    }
}

extension [UInt8] {
    /// The path as text, or `/` for the root.
    fileprivate var shownText: String { isEmpty ? "/" : String(decoding: self, as: UTF8.self) }
}

extension TimeSpan {
    /// The time in seconds as text, such as `1.2 s`.
    fileprivate var seconds: String { "\(milliseconds / 1000).\(milliseconds / 100 % 10) s" }
}
