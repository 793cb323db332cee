// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Checks that the presenters of granted claims were asked, and that grants list those that did not agree (P1, P2, P12, P16 to
/// P18).
struct ConsentChecker: Checker {
    private struct ConsentRecord {
        let presenter: PresenterID
        /// The number of the event that began the access session.
        let number: Int
        var isWrite: Bool
        var causes: [Party] = []
        var asked: Set<PresenterRequest> = []
        /// Whether a presenter refused or forfeited a question of the session.
        var lacksConsent = false
        /// P9: whether the session possibly waited for the answer to a question that another session had asked.
        var mayBeUnanswered = false
        var isOver = false
    }

    private var accessSessions: [AccessSessionID: ConsentRecord] = [:]
    /// For each presenter, the last time at which it had an unanswered question to save.
    private var saves: [PresenterID: Instant] = [:]
    private var sessionOf: [QuestionID: AccessSessionID] = [:]
    /// The questions that a presenter may refuse: all except questions to relinquish.
    private var refusable: Set<QuestionID> = []
    private var saving: Set<QuestionID> = []
    /// The identified parties that have a purpose.
    private var purposeful: Set<Party> = []
    /// For each presenter, the number of the event in which it last refused or forfeited a question.
    private var refused: [PresenterID: Int] = [:]
    /// P15: the presenters that have relinquished to an access, for each claim that was made within this access.
    private var covered: [ClaimID: Set<PresenterID>] = [:]
    /// P15: the items that an access is allowed to move, for each claim that was made within this access.
    private var moving: [ClaimID: Set<ItemID>] = [:]
    /// P12: the items for which a presenter was listed since its last answer. A presenter need not be listed for them again.
    private var listed: [PresenterID: Set<ItemID>] = [:]

    mutating func noteEvent(_ event: ArbiterEvent, _ model: WorldModel, _ report: inout ViolationReport) {
        switch event {
        case .removed(let id):
            accessSessions = accessSessions.filter { $1.presenter != id }
            saves[id] = nil
        case .identified(_, let party): if party.purpose != nil { purposeful.insert(party) }
        case .answered(let id, let presenter, let answer):
            listed[presenter] = nil
            if answer == .failed, saving.contains(id) { spread(presenter) }
            guard let accessSession = sessionOf[id], accessSessions[accessSession]?.presenter == presenter
            else { return }
            sessionOf[id] = nil
            if answer == .failed, refusable.contains(id) {
                accessSessions[accessSession]?.lacksConsent = true
                refused[presenter] = model.number
            }
        default: break
        }
        noteCovers(model)
        for question in model.questions.values where question.request == .save {
            saves[question.presenter] = model.now
        }
    }

    /// Whether two parties can share an access session (Terms in the Rules).
    ///
    /// A session that a process began without a purpose can later get a purpose of this process. A session that a parent began
    /// includes all children of the parent.
    private func mayShareSession(_ cause: Party, _ party: Party) -> Bool {
        WorldModel.areOneProgram(cause, party)
            || !Set(cause.ancestors).isDisjoint(with: party.ancestors)
            || purposeful.contains { $0.purpose == party.purpose && WorldModel.areOneProgram(cause, $0) }
    }

    private mutating func spread(_ presenter: PresenterID) {
        for (id, accessSession) in accessSessions where accessSession.presenter == presenter {
            accessSessions[id]?.mayBeUnanswered = true
        }
    }

    private mutating func noteCovers(_ model: WorldModel) {
        covered = covered.filter { model.claims[$0.key] != nil }
        moving = moving.filter { model.claims[$0.key] != nil }
        let outer = model.claims.values.filter { $0.isHeld && $0.nature == .aware && $0.party != nil }
        if outer.isEmpty { return }
        for claim in model.claims.values where !claim.isHeld {
            for cover in outer where model.areExempt(cover, claim) {
                let relinquished = accessSessions.values.filter { accessSession in
                    accessSession.asked.contains(where: \.isRelinquishment)
                        && accessSession.causes.contains {
                            WorldModel.areOneProgram($0, cover.party ?? .nobody)
                        }
                }
                covered[claim.id, default: []].formUnion(relinquished.map(\.presenter))
                let moves: [Access] = [.write(.updating), .write(.forMerging), .write(.forMoving)]
                let moved = cover.parts.filter { moves.contains($0.access) }
                moving[claim.id, default: []].formUnion(moved.map(\.item))
            }
        }
    }

    mutating func noteEffect(
        _ effect: Effect, of event: ArbiterEvent, _ model: WorldModel, _ report: inout ViolationReport
    ) {
        switch effect {
        case .ask(let question):
            var accessSession =
                accessSessions[question.accessSession]
                ?? ConsentRecord(
                    presenter: question.presenter, number: model.number,
                    isWrite: question.cause.access.isWrite)
            accessSession.causes.append(question.cause.party)
            accessSession.asked.insert(question.request)
            accessSessions[question.accessSession] = accessSession
            sessionOf[question.id] = question.accessSession
            if !question.request.isRelinquishment { refusable.insert(question.id) }
            if question.request == .save {
                saves[question.presenter] = model.now
                saving.insert(question.id)
            }
        case .forfeit(let question, _):
            accessSessions[question.accessSession]?.lacksConsent = true
            if question.request == .save { spread(question.presenter) }
            refused[question.presenter] = model.number
            sessionOf[question.id] = nil
        case .tell(let notice):
            if notice.kind == .reacquire { accessSessions[notice.accessSession] = nil } else { break }
        case .grant(let id, let grant):
            guard let claim = model.claims[id], !claim.isHeld else { return }
            checkConsent(claim, grant, model, &report)
            checkList(claim, grant, model, &report)
            for presenter in grant.unanswered {
                listed[presenter, default: []].formUnion(claim.parts.map(\.item))
            }
        default: break
        }
    }

    private func checkConsent(
        _ claim: WorldModel.ClaimModel, _ grant: Grant, _ model: WorldModel, _ report: inout ViolationReport
    ) {
        guard grant.basis != .proceeded, claim.nature != .pendingSave else { return }
        for (id, presenterModel) in model.presenterModels.sorted(by: { $0.key < $1.key }) {
            // Some presenters need not be asked: those that registered after the claim was made, and those that only a later
            // move concerns.
            guard presenterModel.number < claim.number, model.lastStructuralChange < claim.number,
                !presenterModel.hasEverForfeited
            else { continue }
            for part in claim.parts {
                let wanted = Self.wanted(claim, part, presenterModel, model).filter(presenterModel.implements)
                if wanted.isEmpty { continue }
                guard let party = claim.party else {
                    report.addViolation(
                        "\(claim.id) is granted, nobody knows to whom, and \(id) was not asked")
                    continue
                }
                if model.isOwn(party, presenterModel) || party.works(for: presenterModel.party) { continue }
                // P15: if the claim is made within another access, it is enough that the presenter has relinquished to this
                // access.
                let parties =
                    [party]
                    + model.claims.values.compactMap {
                        $0.isHeld && $0.nature == .aware && model.areExempt($0, claim) ? $0.party : nil
                    }
                let present = accessSessions.values.filter { accessSession in
                    accessSession.presenter == id
                        && accessSession.causes.contains { cause in
                            parties.contains { mayShareSession(cause, $0) }
                        }
                }
                for request in wanted where !present.contains(where: { $0.asked.contains(request) }) {
                    if isCovered(claim, request, id, model) { continue }
                    if request.isDeletion, isMovedInstead(part, of: claim) { continue }
                    // P26: a presenter of a directory is not asked about the deletion of a name in it before it was told of
                    // this name.
                    if request == .accommodateSubitemDeletion, model.newcomers.contains(part.item) {
                        continue
                    }
                    // P9: the presenter was already asked to save for another claim, and this claim waits for the same answer.
                    if request == .save, let saved = saves[id], saved >= claim.arrived { continue }
                    if request == .save, isSparedSaving(claim, part, presenterModel, model) { continue }
                    // P22: a presenter that has relinquished to a writer need not relinquish to a reader.
                    if request == .relinquishToReader,
                        present.contains(where: { $0.asked.contains(.relinquishToWriter) })
                    {
                        continue
                    }
                    report.addViolation("\(claim.id) is granted, and \(id) was not asked \(request.rawValue)")
                }
            }
        }
    }

    /// Whether the presenter need not be asked to save. P23: another write goes on in a session of the presenter. P24: the
    /// presenter implements no notice of a write.
    private func isSparedSaving(
        _ claim: WorldModel.ClaimModel, _ part: ClaimRequest.Part,
        _ presenterModel: WorldModel.PresenterModel, _ model: WorldModel
    ) -> Bool {
        if !presenterModel.implements(.didChange), !presenterModel.implements(.subitemDidChange) {
            return true
        }
        return model.claims.values.contains { other in
            other.id != claim.id && !other.onlyReads && other.arrived <= model.now
                && other.parts.contains { model.position(of: presenterModel, to: $0.item, $0.place) != nil }
        }
    }

    /// Returns the questions that a presenter certainly must get because of a part of a claim (P2, P16 to P19).
    private static func wanted(
        _ claim: WorldModel.ClaimModel, _ part: ClaimRequest.Part,
        _ presenterModel: WorldModel.PresenterModel, _ model: WorldModel
    ) -> [PresenterRequest] {
        let position = model.position(of: presenterModel, to: part.item, part.place)
        switch (position, part.access) {
        case (nil, _): return []
        case (.plainAbove, _), (.below, .read): return []
        case (.below, .write(let option)):
            // P17: presenters of items below a directory are asked only if the directory itself is deleted, moved or replaced.
            guard option.isStructural, claim.nature != .handle else { return [] }
            return option == .forMoving ? [.relinquishToWriter] : [.relinquishToWriter, .accommodateDeletion]
        case (_, .read): return [.relinquishToReader]
        case (_, .write(.forMerging)): return [.relinquishToWriter, .save]
        case (_, .write(.updating)), (_, .write(.contentIndependentMetadataOnly)):
            return [.relinquishToWriter]
        case (let position, .write(let option)):
            guard claim.nature != .handle || option != .forReplacing else { return [] }
            // P19: only presenters of the deleted, moved or replaced name are asked. If a name has a link number, this checker
            // cannot find out which presenters these are.
            guard position != .of || (part.place.link == nil && presenterModel.place.link == nil) else {
                return []
            }
            if option == .forMoving { return [.relinquishToWriter] }
            let request: PresenterRequest =
                position == .of ? .accommodateDeletion : .accommodateSubitemDeletion
            return [.relinquishToWriter, request]
        }
    }

    /// P15: whether a presenter need not be asked. Within another access of the program, no presenter is asked to save, or to
    /// relinquish a second time.
    private func isCovered(
        _ claim: WorldModel.ClaimModel, _ request: PresenterRequest, _ id: PresenterID, _ model: WorldModel
    ) -> Bool {
        if request == .save, covered[claim.id] != nil { return true }
        let isAware = claim.nature == .aware || claim.isBatch
        if request.isRelinquishment, !isAware, covered[claim.id]?.contains(id) ?? false { return true }
        return model.claims.values.contains {
            $0.isHeld && $0.nature == .aware && model.areExempt($0, claim)
                && (request == .save || $0.suspension != nil)
        }
    }

    /// P15: whether the claim deletes an item within an access that is allowed to move this item.
    private func isMovedInstead(_ part: ClaimRequest.Part, of claim: WorldModel.ClaimModel) -> Bool {
        part.access == .write(.forDeleting) && claim.nature != .aware && !claim.isBatch
            && moving[claim.id]?.contains(part.item) ?? false
    }

    /// P12: checks that the grant lists exactly the presenters that did not agree.
    private func checkList(
        _ claim: WorldModel.ClaimModel, _ grant: Grant, _ model: WorldModel, _ report: inout ViolationReport
    ) {
        if grant.unanswered != Array(Set(grant.unanswered)).sorted() {
            report.addViolation("\(claim.id) lists \(grant.unanswered), not in order")
        }
        let isAware = claim.nature == .aware || claim.isBatch
        if claim.onlyReads, !isAware, !grant.unanswered.isEmpty {
            report.addViolation("\(claim.id) reads, and lists \(grant.unanswered)")
        }
        for id in grant.unanswered {
            guard let presenterModel = model.presenterModels[id] else {
                report.addViolation("\(claim.id) lists \(id), who is gone")
                continue
            }
            let isOpen = model.questions.values.contains { $0.presenter == id }
            let hasRefused =
                accessSessions.values.contains {
                    $0.presenter == id && ($0.lacksConsent || $0.mayBeUnanswered)
                }
                || refused[id].map { $0 >= claim.number } ?? false
            // P12: once a presenter has forfeited a question, it may be listed in any later session.
            if !isOpen, !hasRefused, !presenterModel.hasEverForfeited, grant.basis != .proceeded {
                report.addViolation("\(claim.id) lists \(id), who refused nothing")
            }
            if let party = claim.party, model.isOwn(party, presenterModel) {
                report.addViolation("\(claim.id) lists its own presenter \(id)")
            }
        }
        guard !claim.onlyReads, let party = claim.party, claim.nature != .pendingSave else { return }
        for accessSession in accessSessions.values
        where accessSession.lacksConsent && accessSession.isWrite && accessSession.causes.contains(party)
            && accessSession.number >= claim.number
        {
            guard let presenterModel = model.presenterModels[accessSession.presenter],
                !grant.unanswered.contains(accessSession.presenter),
                !claim.parts.contains(where: { listed[accessSession.presenter]?.contains($0.item) ?? false }),
                claim.parts.contains(where: {
                    $0.item == presenterModel.item && $0.access.isWrite && !$0.access.isStructural
                }), !isCovered(claim, .save, accessSession.presenter, model),
                presenterModel.number < claim.number,
                model.lastStructuralChange < claim.number
            else { continue }
            report.addViolation("\(claim.id) does not list \(accessSession.presenter), who did not agree")
        }
    }
}
