// SPDX-License-Identifier: Apache-2.0
import Arbitration
package import Coordination
import LinuxSystem
import Synchronization

// Who waits for whom, in words.

extension Engine {
    /// What is noted under the lock; put into words after it, because that reads `/proc` and names of files.
    private struct Facts {
        var claims: [(id: ClaimID, entry: Entry, suspension: Suspension?, chain: [Link])] = []
        var presenters: [(id: PresenterID, entry: PresenterEntry, owed: [Question], isDemoted: Bool)] = []
    }

    /// One step of an explanation.
    private enum Link {
        case holder(waiting: any Claimant, any Claimant)
        case queued(waiting: any Claimant, any Claimant)
        case presenter(waiting: any Claimant, PresenterEntry, Question)
    }

    /// Who has, wants and shows what: of one item, or of all.
    ///
    /// The oldest so many of each. May read `/proc`, so not for threads that must not wait.
    package func census(of item: ItemID?, atMost limit: Int = .max) -> Census {
        let facts: Facts = state.withLock { self.facts(of: item, atMost: limit, in: $0) }
        let now = Self.now
        return Census(
            claims: facts.claims.map { id, entry, suspension, chain in
                let account = entry.claimant.account
                let isWaiting = entry.isWaiting
                return ClaimReport(
                    claim: id, actor: Actor(lookingAt: account), access: entry.claimant.access,
                    path: account.path(),
                    standing: isWaiting ? .waiting : suspension.map { .suspended($0) } ?? .held,
                    since: entry.since, reasons: isWaiting ? chain.map { sentence($0, now) } : [])
            },
            presenters: facts.presenters.map { id, entry, owed, isDemoted in
                PresenterReport(
                    presenter: id, actor: Actor(lookingAt: entry.account), path: entry.document.path,
                    messages: entry.messages, owed: owed.map(PresenterReport.Owed.init), isDemoted: isDemoted)
            })
    }

    private func facts(of item: ItemID?, atMost limit: Int, in state: State) -> Facts {
        var facts = Facts()
        let claims = item.map { state.arbiter.claims(on: $0) } ?? state.claims.keys.sorted()
        for id in claims.prefix(limit) {
            guard let entry = state.claims[id] else { continue }
            facts.claims.append((id, entry, state.arbiter.suspension(of: id), chain(from: id, in: state)))
        }
        let presenters = item.map { state.arbiter.presenters(of: $0) } ?? state.presenters.keys.sorted()
        for id in presenters.prefix(limit) {
            guard let entry = state.presenters[id] else { continue }
            facts.presenters.append(
                (id, entry, state.arbiter.openQuestions(of: id), state.arbiter.isDemoted(id)))
        }
        return facts
    }

    /// From a claim to those who keep everybody in the chain waiting.
    private func chain(from claim: ClaimID, in state: State) -> [Link] {
        var (links, next, seen): ([Link], ClaimID?, Set<ClaimID>) = ([], claim, [])
        while let id = next, seen.insert(id).inserted, links.count < 32, let waiting = state.claims[id] {
            next = nil
            for question in state.arbiter.openQuestions(for: id) {
                guard let presenter = state.presenters[question.presenter] else { continue }
                links.append(.presenter(waiting: waiting.claimant, presenter, question))
            }
            guard let obstacle = state.arbiter.obstacle(of: id), let entry = state.claims[obstacle] else {
                break
            }
            if entry.isWaiting {
                links.append(.queued(waiting: waiting.claimant, entry.claimant))
                next = obstacle
            } else {
                links.append(.holder(waiting: waiting.claimant, entry.claimant))
            }
        }
        return links
    }

    private func sentence(_ link: Link, _ now: Instant) -> String {
        switch link {
        case .holder(let waiting, let holder):
            let use = holder.access.isWrite ? "writing" : "reading"
            return
                "\(Self.name(of: waiting.account)) waits for \(Self.name(of: holder.account)), who is \(use) "
                + Self.path(of: holder.account)
        case .queued(let waiting, let earlier):
            return "\(Self.name(of: waiting.account)) waits behind \(Self.name(of: earlier.account)) for "
                + Self.path(of: earlier.account)
        case .presenter(let waiting, let presenter, let question):
            let verb: String =
                switch question.request {
                case .relinquishToReader, .relinquishToWriter: "to let go of"
                case .save: "to save"
                case .accommodateDeletion: "to agree to the deletion of"
                case .accommodateSubitemDeletion: "to agree to a deletion in"
                }
            let left = question.deadline.since(now)
            return "\(Self.name(of: waiting.account)) waits for \(Self.name(of: presenter.account)) \(verb) "
                + "\(Self.path(of: presenter.account)), asked \(now.since(question.asked).seconds) ago, "
                + "\(left.seconds) left"
        }
    }

    private static func path(of account: Account) -> String {
        String(decoding: account.path(), as: UTF8.self)
    }
}

extension Engine.Entry {
    var isWaiting: Bool {
        switch standing {
        case .waiting, .waitingTelling: true
        case .decided, .held: false
        }
    }
}

extension Actor {
    init(_ account: Account) {
        self.init(pid: account.thread, program: account.currentProgram ?? [])
    }

    /// With the process and its user, which `/proc` has to be asked for.
    fileprivate init(lookingAt account: Account) {
        self.init(account)
        guard let thread = ProcessInspection.status(ofThread: account.thread) else { return }
        (pid, user) = (thread.process, thread.user)
    }
}

extension PresenterReport.Owed {
    fileprivate init(_ question: Question) {
        let party = question.cause.party
        self.init(
            request: question.request, asked: question.asked, deadline: question.deadline,
            actor: Actor(pid: party.process?.number ?? 0, user: party.user, program: party.program))
    }
}

extension Span {
    /// `1.2 s`.
    fileprivate var seconds: String { "\(milliseconds / 1000).\(milliseconds / 100 % 10) s" }
}
