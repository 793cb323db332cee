// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// A second, naive implementation of the rules of the arbiter.
///
/// Each query examines all claims. The naive arbiter stores no value that can be computed from other values. The naive arbiter
/// is slow and simple, and both arbiters must agree. It was written from the Rules document alone, without the arbiter's code.
package struct NaiveArbiter: Sendable {
    package let bounds: Bounds
    package let limits: WorkLimits
    /// D5: the moment of the next search for cycles, if so many programs wait that cycles are searched only at whole seconds.
    var searchDue: Instant?
    /// All claims, in the order of their numbers.
    package internal(set) var claims: [NaiveClaim] = []
    /// All presenters, in the order of their numbers.
    package internal(set) var presenters: [NaivePresenter] = []
    package internal(set) var accessSessions: [NaiveAccessSession] = []
    /// The questions that are neither answered nor forfeited.
    package internal(set) var questions: [Question] = []
    /// Q5: the resources with an overlong lock queue, that is, a queue in which too many claims wait.
    var overlongQueues: Set<NaiveResource> = []
    /// Y11: the resources for which the number of holders in contention has reached the limit `limits.holders`. Each is stored
    /// with the moment at which its earliest contention began.
    var fullSince: [NaiveResource: Instant] = [:]
    var directories: [ItemID: DirectoryInfo] = [:]
    var now = Instant(nanoseconds: 0)
    var effects: [Effect] = []
    private var turnsMade: UInt64 = 0
    private var questionsMade: UInt64 = 0

    package init(bounds: Bounds, limits: WorkLimits = WorkLimits()) {
        self.bounds = bounds
        self.limits = limits
    }

    package mutating func handle(_ event: ArbiterEvent, at moment: Instant) -> [Effect] {
        now = max(now, moment)
        effects = []
        if case .tick = event {
            tick()
        } else {
            take(event)
            enter()
            processPendingWork()
        }
        return effects
    }

    private mutating func take(_ event: ArbiterEvent) {
        switch event {
        case .claimed, .identified, .observed, .locked, .closed, .ended, .withdrawn, .forced, .overdue:
            takeOfClaim(event)
        case .presented, .shown, .removed, .paused, .resumed, .muted, .unmuted, .answered, .progressed,
            .hurried:
            takeOfPresenter(event)
        case .vacated(let document, let orphan): moveHandles(document, orphan)
        case .replaced(let document, let incoming, let orphan): replace(document, incoming, orphan)
        case .placed(let item, let directory): directories[item] = directory
        case .forgotten(let item): directories[item] = nil
        case .relinked(let link, let item, let place): relink(link, item, place)
        case .changed(let item, let place, let cause, let claim, let stamp):
            noteChange(item, place, cause, claim, stamp)
        case .written(let item, let place, let cause, let claim, let stamp):
            noteWriting(item, place, cause, claim, stamp)
        case .created(let item, let place, let party, let claim): noteCreation(item, place, party, claim)
        case .moved(let item, let move, let party, let claim): noteMove(item, move, party, claim)
        case .deleted(let item, let place, let party, let claim): noteDeletion(item, place, party, claim)
        case .lost(let item, let place, let party): lose(item, place, party)
        case .versioned(let item, let place, let change, let cause):
            noteVersion(change, item, place, cause)
        case .tick: break
        }
    }

    private mutating func takeOfClaim(_ event: ArbiterEvent) {
        switch event {
        case .claimed(let request):
            claims.append(
                NaiveClaim(
                    request: request, arrival: now, deadline: now + (request.bounds.wait ?? bounds.wait)))
            // G2: the basis of the grant is `free` only if no claim blocks the new claim and no presenter must be asked.
            enter()
            let index = claims.count - 1
            if isFree(index), !isPresented(index) { grant(index, .free) }
        case .identified(let id, let party):
            if let index = index(of: id), claims[index].party == nil { claims[index].party = party }
        case .observed(let id, let observation): observe(id, observation)
        case .locked(let id):
            if let index = index(of: id), claims[index].nature == .handle {
                claims[index].accessPattern.insert(.locks)
            }
        case .closed(let id): if let index = index(of: id) { claims[index].isClosed = true }
        case .ended(let id):
            guard let index = index(of: id) else { return }
            if claims[index].isHeld { remove(index) } else { refuse(index, .withdrawn) }
        case .withdrawn(let id):
            if let index = index(of: id), !claims[index].isHeld { refuse(index, .withdrawn) }
        case .forced(let id): if let index = index(of: id), !claims[index].isHeld { grant(index, .proceeded) }
        case .overdue(let id): if let index = index(of: id), !claims[index].isHeld { runOut(index) }
        default: break
        }
    }

    private mutating func takeOfPresenter(_ event: ArbiterEvent) {
        switch event {
        case .presented(let presenter):
            presenters.append(NaivePresenter(presenter: presenter))
            presenters.sort { $0.id < $1.id }
        case .shown(let id, let item, let place):
            guard let index = presenters.firstIndex(where: { $0.id == id }) else { return }
            presenters[index].item = item
            presenters[index].place = place
        case .removed(let id):
            // P14: the removal counts as an agreement to all open questions of the presenter. No notices are sent to it any
            // more.
            presenters.removeAll { $0.id == id }
            questions.removeAll { $0.presenter == id }
            for accessSession in accessSessions where accessSession.presenter == id { drop(accessSession.id) }
        case .paused(let ids): pause(ids)
        case .resumed(let ids, let behind, let told): resume(ids, behind, told)
        case .muted(let ids): mute(ids)
        case .unmuted(let ids): unmute(ids)
        case .answered(let question, let presenter, let answer): take(answer, to: question, by: presenter)
        case .progressed(let question): extend(question)
        case .hurried(let question, let span): hurry(question, span)
        default: break
        }
    }

    func index(of id: ClaimID) -> Int? { claims.firstIndex { $0.id == id } }

    mutating func remove(_ index: Int) {
        leaveAccessSessions(index)
        claims.remove(at: index)
        enter()
        noteOverlongQueues()
    }

    mutating func refuse(_ index: Int, _ refusal: Refusal) {
        effects.append(.refuse(claims[index].id, refusal))
        remove(index)
    }

    mutating func newTurn() -> AccessSessionID {
        turnsMade += 1
        return AccessSessionID(turnsMade)
    }

    mutating func newQuestion() -> QuestionID {
        questionsMade += 1
        return QuestionID(questionsMade)
    }
}
