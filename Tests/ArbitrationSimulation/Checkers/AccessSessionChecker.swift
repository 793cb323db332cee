// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Checks access sessions (P3, N3, N8).
///
/// - The presenter may reacquire the item exactly once after each relinquishment.
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
        /// The number of the event that began the access session.
        let number: Int
        var causes: [Cause] = []
        var asked: Set<Asked> = []
        /// The notices that were sent, each with the names (or the item itself) that the notice was about.
        var told: [PresenterNotice: Set<Told>] = [:]
        var rank = 0
        /// The number of notices about subitems since the session last reached its limit and sent all its notices.
        var subitems = 0
        var isOver = false
        /// The time of the last question in the session.
        var askedAt = Instant(nanoseconds: 0)
        /// The number of the event in which the session last sent a notice.
        var toldAt = 0

        var isRelinquished: Bool { asked.contains { $0.request.isRelinquishment } }
    }

    private var accessSessions: [AccessSessionID: SessionRecord] = [:]
    /// For each granted claim, the access sessions to which the claim certainly belongs, with the presented item.
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
        // The presenters of a claim that proceeded were perhaps not asked.
        case .grant(let id, let grant):
            if grant.basis != .proceeded, let claim = model.claims[id] { join(claim, model) }
        default: break
        }
    }

    /// N5: before a question, all access sessions of the presenter send their pending notices and go on.
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
        // Relinquishing must come first only if it is needed: a claim may ask to agree to a deletion only.
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
        // N3, N5, N7: a session that goes on may send its pending notices. After that a new sequence of notices begins.
        if accessSession.toldAt != model.number { (accessSession.rank, accessSession.told) = (0, [:]) }
        accessSession.toldAt = model.number
        // N13: before a directory moves, the changes of names in the directory are told.
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
        // A move and a change of one name are two notices. Any other notice replaces all earlier notices of the name.
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
                // R2: a claim may have come to the document with another file. Then the presenters of that other file were
                // asked.
                model.lastStructuralChange < claim.number
            else { continue }
            report.addViolation("\(notice.presenter) is let in while \(id) is at work")
        }
    }

    /// Records the access sessions to which a granted claim certainly belongs.
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

    /// N3, Y6: checks that no presenter waits for ever until it may reacquire its item.
    ///
    /// The longest session: the last claim arrives after `hold`, waits and holds as long as it may, and the session then ends
    /// after its last pause.
    private func checkSpans(_ model: WorldModel, _ report: inout ViolationReport) {
        let bounds = model.bounds
        // The file system alone ends name changes and pending saves, so their length has no limit here.
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
