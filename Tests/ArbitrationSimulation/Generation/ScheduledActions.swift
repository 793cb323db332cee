// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The reactions of the simulated programs to the effects of the arbiter.
extension WorldGenerator {
    mutating func react(to effect: Effect) {
        switch effect {
        case .identify(let claim):
            if simulationRun.maker(of: claim) == .nobody {
                schedule(.identify(claim), in: chance.isLucky(70) ? 0 : chance.milliseconds(1...400))
            }
        case .observe(let claim):
            if !chance.isLucky(5) {
                schedule(.reportObservation(claim), in: chance.isLucky(80) ? 0 : chance.milliseconds(1...60))
            }
        case .ask(let question): arrange(question)
        case .grant(let claim, _): useGrant(claim)
        case .refuse, .suspend, .retarget, .deadlock, .forfeit, .tell, .wake: break
        }
    }

    private mutating func arrange(_ question: Question) {
        let (id, presenter) = (question.id, question.presenter)
        let span = question.deadline.since(now).milliseconds
        // With a small probability a presenter does not follow its usual behavior.
        let habit =
            chance.isLucky(85)
            ? habits[presenter] ?? .good : chance.one(of: PresenterBehavior.allCases) ?? .good
        switch habit {
        case .brisk: schedule(.answer(id, presenter, .done), in: 0)
        case .good: schedule(.answer(id, presenter, .done), in: chance.milliseconds(0...80))
        case .slow: schedule(.answer(id, presenter, .done), in: span / 2 + UInt64(chance.below(Int(span))))
        case .silent: if chance.isLucky(30) { schedule(.answer(id, presenter, .done), in: span * 2) }
        case .failing: schedule(.answer(id, presenter, .failed), in: chance.milliseconds(0...200))
        case .working:
            for round in 1...(1 + UInt64(chance.below(6))) {
                schedule(.progress(id), in: round * span * 2 / 3)
            }
            if chance.isLucky(70) { schedule(.answer(id, presenter, .done), in: span * 3) }
        case .dying: schedule(.leave(presenter), in: chance.milliseconds(0...300))
        case .lying:
            let stranger = model.presenterModels.keys.sorted().first { $0 != presenter } ?? presenter
            schedule(.answer(id, stranger, .done), in: 1)
            schedule(.answer(QuestionID(id.rawValue + 3), presenter, .failed), in: 2)
            for _ in 0..<2 { schedule(.answer(id, presenter, .done), in: chance.milliseconds(3...90)) }
        case .saving: schedule(.save(id, presenter), in: chance.milliseconds(0...100))
        }
    }

    /// Carries out the plan of the program that made a claim, after the claim was granted.
    private mutating func useGrant(_ claim: ClaimID) {
        switch plans[claim] {
        case .use:
            let span = chance.isLucky(90) ? chance.milliseconds(0...900) : chance.milliseconds(2_000...9_000)
            schedule(.finish(claim), in: span)
            if chance.isLucky(25) { schedule(.nest(claim), in: chance.milliseconds(0...300)) }
        case .prepare:
            for _ in 0..<chance.below(4) { schedule(.nest(claim), in: chance.milliseconds(0...300)) }
            schedule(.finish(claim), in: chance.milliseconds(0...3_000))
        case .act, .vacate, .fill, .answer, nil: schedule(.finish(claim), in: 0)
        }
    }

    mutating func run(_ action: ScheduledAction) {
        switch action {
        case .identify(let claim):
            guard model.claims[claim]?.party == nil, model.claims[claim] != nil else { return }
            tell(.identified(claim, chance.isLucky(95) ? makers[claim] ?? .nobody : .nobody))
        case .reportObservation(let claim): reportObservation(claim)
        case .answer(let question, let presenter, let answer):
            // A presenter that was removed before its answer was due sends no answer.
            if model.presenterModels[presenter] != nil { tell(.answered(question, by: presenter, answer)) }
        case .progress(let question): if model.questions[question] != nil { tell(.progressed(question)) }
        case .save(let question, let presenter): save(question, presenter)
        case .leave(let presenter): leave(presenter)
        case .finish(let claim): finish(claim)
        case .withdraw(let claim): if model.claims[claim]?.isHeld == false { tell(.withdrawn(claim)) }
        case .nest(let claim): nest(in: claim)
        case .fill(let document, let party, let pendingSave): fill(document, party, pendingSave)
        }
    }

    private mutating func reportObservation(_ claim: ClaimID) {
        // The claim may have ended before this observation. Sometimes the observation is sent all the same.
        guard let entry = model.claims[claim] else {
            if chance.isLucky(30) { tell(.observed(claim, .atEnd)) }
            return
        }
        let isWriter = entry.parts.contains { $0.access.isWrite }
        guard isWriter else {
            let position = Int64(chance.isLucky(50) ? 7 : chance.below(3))
            if chance.isLucky(15) { return tell(.observed(claim, .atEnd)) }
            let isAtEnd = chance.isLucky(30)
            return tell(
                .observed(
                    claim, isAtEnd ? .atEndUnconfirmed(position: position) : .reading(position: position)))
        }
        if chance.isLucky(10) { tell(.locked(claim)) }
        if stamps[claim] == nil, chance.isLucky(45) {
            let position = Int64(chance.isLucky(70) ? 0 : chance.below(3))
            if chance.isLucky(70) { return tell(.observed(claim, .unchanged(position: position))) }
            return tell(.observed(claim, chance.isLucky(50) ? .clean : .emptied))
        }
        // After the first write of a program, every observation of the program shows that the file was changed.
        if stamps[claim] == nil || chance.isLucky(30) { stamps[claim] = (stamps[claim] ?? 0) + 1 }
        tell(.observed(claim, .dirty(stamp: stamps[claim] ?? 1)))
    }

    /// Lets an asked presenter save: its own process writes, over the socket or without it.
    private mutating func save(_ question: QuestionID, _ presenter: PresenterID) {
        guard let asked = model.questions[question], let presenterModel = model.presenterModels[presenter],
            let item = presenterModel.item, tree.nodes[item]?.kind == .file
        else {
            if model.presenterModels[presenter] != nil { tell(.answered(question, by: presenter, .done)) }
            return
        }
        _ = asked
        var party = presenterModel.party
        let isAware = party.purpose != nil && chance.isLucky(60)
        if !isAware { party.purpose = nil }
        let part = ClaimRequest.Part(item, .write(.updating), at: presenterModel.place)
        var request = ClaimRequest(nextClaim(), isAware ? .aware : .handle, part)
        if isAware { request.answering = question }
        claim(request, by: party, .answer(question, presenter))
        if chance.isLucky(20) { schedule(.withdraw(request.claim), in: 500) }
        if chance.isLucky(30) { schedule(.answer(question, presenter, .done), in: 700) }
    }

    mutating func leave(_ presenter: PresenterID) {
        guard model.presenterModels[presenter] != nil else { return }
        habits[presenter] = nil
        tell(.removed(presenter))
    }

    /// Ends a program, with all its claims and presenters.
    mutating func die(_ party: Party) {
        for (id, presenterModel) in model.presenterModels.sorted(by: { $0.key < $1.key })
        where presenterModel.party.process == party.process {
            leave(id)
        }
        for claim in model.claims.keys.sorted() where makers[claim]?.process == party.process {
            if model.claims[claim]?.isHeld == false { tell(.withdrawn(claim)) } else { finish(claim) }
        }
    }

    // MARK: Making and ending claims

    mutating func nextClaim() -> ClaimID {
        lastClaim += 1
        return ClaimID(lastClaim)
    }

    mutating func claim(_ request: ClaimRequest, by party: Party, _ plan: Plan) {
        makers[request.claim] = party
        plans[request.claim] = plan
        // Claims over the socket, batches (claims that only ask presenters) and pending saves are identified as soon as the
        // arbiter asks. Other claims are sometimes identified later.
        let isShy = request.nature != .aware && request.nature != .batch && request.nature != .pendingSave
        perform(.claim(request, by: isShy && chance.isLucky(shyness) ? nil : party))
        if model.claims[request.claim]?.isHeld == false {
            if chance.isLucky(6) { schedule(.withdraw(request.claim), in: chance.milliseconds(0...1_500)) }
            if request.nature != .aware, request.nature != .batch, chance.isLucky(2) {
                tell(.forced(request.claim))
            } else if request.claim.rawValue % 64 == 63 {
                tell(.overdue(request.claim))
            }
        }
    }

    /// Carries out the changes of a claim, and ends the claim.
    mutating func finish(_ claim: ClaimID) {
        guard let entry = model.claims[claim] else { return }
        guard entry.isHeld else { return tell(.ended(claim)) }
        if entry.nature == .handle, !entry.isClosed, claim.rawValue % 16 == 7 {
            tell(.closed(claim))
            return schedule(.finish(claim), in: 20)
        }
        let plan = plans[claim]
        if case .vacate(let document) = plan { return vacate(document, claim) }
        carryOut(entry)
        if model.claims[claim] != nil { tell(.ended(claim)) }
        switch plan {
        case .answer(let question, let presenter):
            if chance.isLucky(85), model.presenterModels[presenter] != nil {
                schedule(.answer(question, presenter, chance.isLucky(90) ? .done : .failed), in: 0)
            }
        case .fill(let document, let pendingSave):
            if model.claims[pendingSave] != nil { tell(.ended(pendingSave)) }
            // The program sets the mode of the file after the save, without a claim.
            if chance.isLucky(50), let place = tree.nodes[document]?.names.first {
                let cause = Cause(makers[claim] ?? .nobody, .write(.updating))
                tell(.changed(document, at: place, cause, under: nil, stamp: 99))
            }
        default: break
        }
        (plans[claim], makers[claim], stamps[claim]) = (nil, nil, nil)
    }
}
