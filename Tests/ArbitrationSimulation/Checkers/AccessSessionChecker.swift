// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Checks access sessions (P3, N3, N8).
/// - Each relinquishment is followed by one reacquire.
/// - A presenter is never asked or told the same thing twice in an access session.
/// - A presenter is told of all changes before it may reacquire the item.
struct AccessSessionChecker: Checker {
    private struct Asked: Hashable {
        let request: PresenterRequest
        let subitem: ItemID?
    }

    private struct Told: Hashable {
        let directory: ItemID?
        let link: LinkID?
        let item: ItemID?

        init(_ subitem: Notice.Subitem?) {
            (directory, link) = (subitem?.place.directory, subitem?.place.link)
            item = subitem?.place.link == nil ? subitem?.item : nil
        }
    }

    private struct SessionRecord {
        let presenter: PresenterID
        /// The event that began the access session.
        let number: Int
        var causes: [Cause] = []
        var asked: Set<Asked> = []
        /// The changes of each name, or of the item itself, that were told.
        var told: [PresenterNotice: Set<Told>] = [:]
        var rank = 0
        /// The number of subitems told since the session last reached its limit and told everything.
        var subitems = 0
        var isOver = false
        /// The time of the last question.
        var askedAt = Instant(nanoseconds: 0)
        /// The event in which the session last told something.
        var toldAt = 0

        var isRelinquished: Bool { asked.contains { $0.request.isRelinquishment } }
    }

    private var accessSessions: [AccessSessionID: SessionRecord] = [:]
    /// The access sessions of each granted claim.
    private var members: [ClaimID: [AccessSessionID: ItemID]] = [:]

    mutating func noteEvent(_ event: ArbiterEvent, _ model: WorldModel, _ report: inout ViolationReport) {
        if case .removed(let id) = event { accessSessions = accessSessions.filter { $1.presenter != id } }
    }

    mutating func noteEffect(
        _ effect: Effect, of event: ArbiterEvent, _ model: WorldModel, _ report: inout ViolationReport
    ) {
        switch effect {
        case .ask(let question):
            check(question, model, &report)
            beginAnew(question.presenter)
        case .tell(let notice): check(notice, model, &report)
        // A claim that proceeded may not have been put to its presenters.
        case .grant(let id, let grant):
            if grant.basis != .proceeded, let claim = model.claims[id] { join(claim, model) }
        default: break
        }
    }

    /// N5: before a question, all access sessions of its presenter tell pending notices and continue.
    private mutating func beginAnew(_ presenter: PresenterID) {
        for (id, accessSession) in accessSessions where accessSession.presenter == presenter {
            var accessSession = accessSession
            (accessSession.rank, accessSession.subitems, accessSession.told) = (0, 0, [:])
            accessSessions[id] = accessSession
        }
    }

    private func implementsAll(_ id: PresenterID, _ model: WorldModel) -> Bool {
        guard let presenterModel = model.presenterModels[id] else { return false }
        return presenterModel.implements(.relinquishToReader)
            && presenterModel.implements(.relinquishToWriter)
    }

    private mutating func check(_ question: Question, _ model: WorldModel, _ report: inout ViolationReport) {
        var accessSession =
            accessSessions[question.accessSession]
            ?? SessionRecord(presenter: question.presenter, number: model.number)
        if accessSession.isOver {
            report.addViolation("\(question.id) is asked in \(question.accessSession), which is over")
        }
        if accessSession.presenter != question.presenter {
            report.addViolation("\(question.accessSession) has two presenters")
        }
        // The presenter may have been asked about a deletion only.
        if question.request.isRelinquishment, accessSession.asked.contains(where: { $0.request == .save }),
            !accessSession.isRelinquished, implementsAll(question.presenter, model)
        {
            report.addViolation(
                "\(question.id): relinquishing is not asked first in \(question.accessSession)")
        }
        if !accessSession.asked.insert(Asked(request: question.request, subitem: question.subitem)).inserted {
            report.addViolation("\(question.request.rawValue) is asked twice in \(question.accessSession)")
        }
        accessSession.causes.append(question.cause)
        accessSession.askedAt = model.now
        if question.request.isRelinquishment { (accessSession.rank, accessSession.told) = (0, [:]) }
        accessSessions[question.accessSession] = accessSession
    }

    private mutating func check(_ notice: Notice, _ model: WorldModel, _ report: inout ViolationReport) {
        var accessSession =
            accessSessions[notice.accessSession]
            ?? SessionRecord(presenter: notice.presenter, number: model.number)
        guard let presenterModel = model.presenterModels[notice.presenter] else {
            return report.addViolation("\(notice.kind.rawValue) is told to \(notice.presenter), who is gone")
        }
        if accessSession.presenter != notice.presenter {
            report.addViolation("\(notice.accessSession) has two presenters")
        }
        if !presenterModel.implements(notice.kind) {
            report.addViolation("\(notice.presenter) does not implement \(notice.kind.rawValue)")
        }
        if accessSession.isOver {
            report.addViolation("\(notice.kind.rawValue) is told after \(notice.accessSession) was over")
        }
        let rank =
            switch notice.kind {
            case .didMove: 0
            case .didChange: 1
            case .subitemDidAppear, .subitemDidChange, .subitemDidMove: 2
            case .reacquire: 3
            }
        // N3, N5, N7: a session that continues may tell its pending notices, and then starts a new sequence.
        if accessSession.toldAt != model.number { (accessSession.rank, accessSession.told) = (0, [:]) }
        accessSession.toldAt = model.number
        // N13: changes of names in a directory are told before the move of the directory.
        if rank == 2, let item = notice.subitem?.item, model.directories[item] != nil {
            accessSession.told = [:]
        }
        if rank < accessSession.rank {
            if accessSession.subitems < 256 {
                report.addViolation("\(notice.kind.rawValue) comes too late in \(notice.accessSession)")
            }
            (accessSession.subitems, accessSession.told) = (0, [:])
        }
        accessSession.rank = rank
        if rank == 2 { accessSession.subitems += 1 }
        if (notice.subitem != nil) != (rank == 2) {
            report.addViolation("\(notice.kind.rawValue) names the wrong thing in \(notice.accessSession)")
        }
        let told = Told(notice.subitem)
        if !accessSession.told[notice.kind, default: []].insert(told).inserted {
            report.addViolation("\(notice.kind.rawValue) is told twice in \(notice.accessSession)")
        }
        // A move and a change are separate notices; each other kind includes the earlier ones.
        if let item = notice.subitem?.item {
            let kinds = Set(accessSession.told.filter { $0.value.contains(told) }.keys)
            if kinds.count > 1, kinds != [.subitemDidMove, .subitemDidChange] {
                report.addViolation("\(notice.presenter) is told of \(item) twice in \(notice.accessSession)")
            }
        }
        if notice.kind == .reacquire { checkReacquire(notice, accessSession, model, &report) }
        accessSession.isOver = notice.kind == .reacquire
        accessSessions[notice.accessSession] = accessSession
    }

    private func checkReacquire(
        _ notice: Notice, _ accessSession: SessionRecord, _ model: WorldModel, _ report: inout ViolationReport
    ) {
        if !accessSession.isRelinquished {
            report.addViolation("\(notice.accessSession) lets in one who never relinquished")
        }
        for (id, items) in members {
            guard let item = items[notice.accessSession], let claim = model.claims[id],
                claim.suspension == nil,
                claim.parts.contains(where: { $0.item == item }),
                model.presenterModels[notice.presenter]?.item == item,
                // R2: a claim that came to the document with another file was put to the presenters of that file.
                model.lastStructuralChange < claim.number
            else { continue }
            report.addViolation("\(notice.presenter) is let in while \(id) is at work")
        }
    }

    /// Records the access sessions that a granted claim certainly belongs to.
    private mutating func join(_ claim: WorldModel.ClaimModel, _ model: WorldModel) {
        guard let party = claim.party, claim.parts.count == 1, claim.nature != .pendingSave else { return }
        let part = claim.parts[0]
        // N3: a claim that arrives after the session has lasted `hold` begins another session.
        if claim.arrived + model.bounds.hold <= model.now { return }
        for (id, accessSession) in accessSessions where !accessSession.isOver && accessSession.isRelinquished
        {
            guard let presenterModel = model.presenterModels[accessSession.presenter],
                presenterModel.item == part.item,
                presenterModel.number < claim.number, accessSession.number >= claim.number,
                let cause = accessSession.causes.last,
                cause.party == party,
                cause.access == part.access, !model.isOwn(party, presenterModel),
                !party.works(for: presenterModel.party)
            else { continue }
            members[claim.id, default: [:]][id] = part.item
        }
    }

    /// N3, Y6: no presenter waits for its item forever.
    ///
    /// The longest session: a claim arrives within `hold`, waits for its bound, holds for its bound, and the session
    /// trails.
    private func checkSpans(_ model: WorldModel, _ report: inout ViolationReport) {
        let bounds = model.bounds
        // The file system ends name changes and pending saves.
        let isChanging = model.claims.values.contains {
            $0.nature == .nameChange || $0.nature == .pendingSave
        }
        if isChanging { return }
        let longest =
            bounds.hold.nanoseconds + max(bounds.wait, bounds.progress).nanoseconds
            + max(bounds.trailing, bounds.steps).nanoseconds
            + max(bounds.hold, bounds.holdAware).nanoseconds + bounds.progress.nanoseconds
        for (id, accessSession) in accessSessions where accessSession.isRelinquished && !accessSession.isOver
        {
            guard accessSession.askedAt + TimeSpan(nanoseconds: longest) < model.now,
                model.presenterModels[accessSession.presenter]?.implements(.reacquire) ?? false
            else { continue }
            report.addViolation(
                "\(accessSession.presenter) has not been let in again since \(accessSession.askedAt), after \(id)"
            )
        }
    }

    mutating func finish(after event: ArbiterEvent, _ model: WorldModel, _ report: inout ViolationReport) {
        if event == .tick { checkSpans(model, &report) }
        members = members.filter { model.claims[$0.key] != nil }
        guard model.isQuiet else { return }
        for (id, accessSession) in accessSessions where accessSession.isRelinquished && !accessSession.isOver
        {
            guard let presenterModel = model.presenterModels[accessSession.presenter],
                presenterModel.implements(.reacquire)
            else {
                continue
            }
            report.addViolation("\(accessSession.presenter) was never let in again after \(id)")
        }
        accessSessions = [:]
    }
}
