// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Whom a question is put to, and that it is answered or forfeited by its deadline (P2 to P10, P14).
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
    /// What was surely asked on account of each claim.
    private var asked: [ClaimID: Set<Asked>] = [:]

    mutating func see(_ effect: Effect, of event: Event, _ ledger: Ledger, _ report: inout Report) {
        switch effect {
        case .ask(let question): check(question, ledger, &report)
        case .forfeit(let question, let isDemoted):
            guard let open = ledger.questions[question.id] else {
                return report.blame("\(question.id) is forfeited, and is not open")
            }
            if ledger.now < open.deadline { report.blame("\(question.id) is forfeited early") }
            let forfeits = (ledger.showings[question.presenter]?.forfeits ?? 0) + 1
            if isDemoted != (forfeits >= 3) {
                report.blame("\(question.presenter) has forfeited \(forfeits) times: demoted \(isDemoted)")
            }
        // P1: those who show what it is on now were not asked.
        case .retarget(let id, _, _): asked[id] = nil
        default: break
        }
    }

    /// P1: each presenter is asked once for each claim.
    private mutating func checkOnce(_ question: Question, _ ledger: Ledger, _ report: inout Report) {
        guard let claim = ledger.asker(of: question) else { return }
        let asked = Asked(
            presenter: question.presenter, request: question.request, subitem: question.subitem)
        if !self.asked[claim, default: []].insert(asked).inserted {
            report.blame("\(question.presenter) is asked \(question.request.rawValue) twice for \(claim)")
        }
    }

    private mutating func check(_ question: Question, _ ledger: Ledger, _ report: inout Report) {
        if question.id <= last { report.blame("\(question.id) comes after \(last)") }
        last = question.id
        guard let showing = ledger.showings[question.presenter] else {
            return report.blame("\(question.id) is put to nobody")
        }
        let party = question.cause.party
        if showing.item == nil { report.blame("\(question.id) is put to one who shows nothing") }
        if !showing.implements(question.request) {
            report.blame("\(question.id) asks what \(question.presenter) does not implement")
        }
        if ledger.isOwn(party, showing) { report.blame("\(question.id) asks about its own access") }
        if party.works(for: showing.party), party.purpose == nil || showing.party.purpose == nil {
            report.blame("\(question.id) asks about one who works for it")
        }
        if showing.forfeits >= 3 { report.blame("\(question.id) is put to one who is demoted") }
        if question.asked != ledger.now
            || question.deadline != ledger.now + ledger.span(for: question.request)
        {
            report.blame("\(question.id) is asked at \(question.asked), by \(question.deadline)")
        }
        if (question.subitem != nil) != (question.request == .accommodateSubitemDeletion) {
            report.blame("\(question.id) names \(question.subitem.map { "\($0)" } ?? "nothing")")
        }
        if let subitem = question.subitem, subitem == showing.item {
            report.blame("\(question.id) asks about the item as if it were in it")
        }
        checkSave(question, ledger, &report)
        checkOnce(question, ledger, &report)
    }

    /// P9, P10.
    private mutating func checkSave(_ question: Question, _ ledger: Ledger, _ report: inout Report) {
        let party = question.cause.party
        guard question.request == .save, !question.cause.access.isWrite, party.purpose == nil else { return }
        if party.programClass != .ordinary {
            report.blame("\(question.id) asks to save for a \(party.programClass) program")
        }
        let key = SaveAsked(presenter: question.presenter, session: party.session)
        if party.session != 0, let before = savesAsked[key],
            ledger.now < before + ledger.bounds.askAgain
        {
            report.blame("\(question.id) asks to save again for session \(party.session)")
        }
        savesAsked[key] = ledger.now
    }

    mutating func rest(after event: Event, _ ledger: Ledger, _ report: inout Report) {
        for question in ledger.questions.values {
            if event == .tick, question.deadline <= ledger.now {
                report.blame("\(question.id) is open beyond its deadline")
            }
            if ledger.wake.map({ $0 > question.deadline }) ?? true {
                report.blame("no tick comes by the deadline of \(question.id)")
            }
        }
        if !asked.isEmpty { asked = asked.filter { ledger.claims[$0.key] != nil } }
        if case .removed(let id) = event { savesAsked = savesAsked.filter { $0.key.presenter != id } }
    }
}
