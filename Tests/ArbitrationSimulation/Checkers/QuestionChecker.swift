// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Checks which presenters are asked, and that each question is answered or forfeited by its deadline (P2 to P10, P14).
struct QuestionChecker: Checker {
    private struct SaveAsked: Hashable {
        let presenter: PresenterID
        let session: Int32
    }

    private struct Asked: Hashable {
        let presenter: PresenterID
        let request: PresenterRequest
        let subitem: ItemID?
    }

    private var last = QuestionID(0)
    private var savesAsked: [SaveAsked: Instant] = [:]
    /// For each claim, the questions that were certainly asked because of this claim.
    private var asked: [ClaimID: Set<Asked>] = [:]

    mutating func noteEffect(
        _ effect: Effect, of event: ArbiterEvent, _ model: WorldModel, _ report: inout ViolationReport
    ) {
        switch effect {
        case .ask(let question): check(question, model, &report)
        case .forfeit(let question, let isDemoted):
            guard let open = model.questions[question.id] else {
                return report.addViolation("\(question.id) is forfeited, and is not open")
            }
            if model.now < open.deadline { report.addViolation("\(question.id) is forfeited early") }
            let forfeits = (model.presenterModels[question.presenter]?.forfeits ?? 0) + 1
            if isDemoted != (forfeits >= 3) {
                report.addViolation(
                    "\(question.presenter) has forfeited \(forfeits) times: demoted \(isDemoted)")
            }
        // P1: the claim has a new item, and the presenters of the new item were not asked yet.
        case .retarget(let id, _, _): asked[id] = nil
        default: break
        }
    }

    /// P1: checks that each presenter is asked once for each claim.
    private mutating func checkOnce(
        _ question: Question, _ model: WorldModel, _ report: inout ViolationReport
    ) {
        guard let claim = model.asker(of: question) else { return }
        let asked = Asked(
            presenter: question.presenter, request: question.request, subitem: question.subitem)
        if !self.asked[claim, default: []].insert(asked).inserted {
            report.addViolation(
                "\(question.presenter) is asked \(question.request.rawValue) twice for \(claim)")
        }
    }

    private mutating func check(_ question: Question, _ model: WorldModel, _ report: inout ViolationReport) {
        if question.id <= last { report.addViolation("\(question.id) comes after \(last)") }
        last = question.id
        guard let presenterModel = model.presenterModels[question.presenter] else {
            return report.addViolation("\(question.id) is put to nobody")
        }
        let party = question.cause.party
        if presenterModel.item == nil {
            report.addViolation("\(question.id) is put to one who shows nothing")
        }
        if !presenterModel.implements(question.request) {
            report.addViolation("\(question.id) asks what \(question.presenter) does not implement")
        }
        if model.isOwn(party, presenterModel) {
            report.addViolation("\(question.id) asks about its own access")
        }
        if party.works(for: presenterModel.party), party.purpose == nil || presenterModel.party.purpose == nil
        {
            report.addViolation("\(question.id) asks about one who works for it")
        }
        if presenterModel.forfeits >= 3 { report.addViolation("\(question.id) is put to one who is demoted") }
        if question.asked != model.now
            || question.deadline != model.now + model.span(for: question.request)
        {
            report.addViolation("\(question.id) is asked at \(question.asked), by \(question.deadline)")
        }
        if (question.subitem != nil) != (question.request == .accommodateSubitemDeletion) {
            report.addViolation("\(question.id) names \(question.subitem.map { "\($0)" } ?? "nothing")")
        }
        if let subitem = question.subitem, subitem == presenterModel.item {
            report.addViolation("\(question.id) asks about the item as if it were in it")
        }
        checkSave(question, model, &report)
        checkOnce(question, model, &report)
    }

    /// P9, P10: checks that only ordinary programs ask to save when they read, and each session at most once in `askAgain`.
    private mutating func checkSave(
        _ question: Question, _ model: WorldModel, _ report: inout ViolationReport
    ) {
        let party = question.cause.party
        guard question.request == .save, !question.cause.access.isWrite, party.purpose == nil else { return }
        if party.programClass != .ordinary {
            report.addViolation("\(question.id) asks to save for a \(party.programClass) program")
        }
        let key = SaveAsked(presenter: question.presenter, session: party.session)
        if party.session != 0, let before = savesAsked[key],
            model.now < before + model.bounds.askAgain
        {
            report.addViolation("\(question.id) asks to save again for session \(party.session)")
        }
        savesAsked[key] = model.now
    }

    mutating func finish(after event: ArbiterEvent, _ model: WorldModel, _ report: inout ViolationReport) {
        for question in model.questions.values {
            if event == .tick, question.deadline <= model.now {
                report.addViolation("\(question.id) is open beyond its deadline")
            }
            if model.wake.map({ $0 > question.deadline }) ?? true {
                report.addViolation("no tick comes by the deadline of \(question.id)")
            }
        }
        if !asked.isEmpty { asked = asked.filter { model.claims[$0.key] != nil } }
        if case .removed(let id) = event { savesAsked = savesAsked.filter { $0.key.presenter != id } }
    }
}
