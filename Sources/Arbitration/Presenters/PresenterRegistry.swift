// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Every presenter, with the access sessions, questions and consultations.
///
/// Invariants, together with the arbiter's (I5):
///
/// - Each session is in its presenter's list.
/// - Each member of a session has the session in its consultation, and the reverse.
/// - Each open question has a presenter.
/// - `openQuestionCounts` counts the open questions by process.
struct PresenterRegistry: Sendable {
    var records: [PresenterID: PresenterRecord] = [:]
    /// Presenters by item, sorted.
    var presented: [ItemID: [PresenterID]] = [:]
    /// Presenters by the directory of their item.
    var byDirectory: [ItemID: Set<PresenterID>] = [:]
    /// Presenters that are told of no names below their item (N14).
    var pauses = SuppressionIndex()
    /// Presenters that are neither asked nor told about their item (N15).
    var mutes = SuppressionIndex()
    /// The muted presenters for which unasked writes are noted (N15).
    var mutedRepresentatives = MutedRepresentatives()
    /// The number of presenters that accommodate deletions of subitems (P18).
    var agreeingToDeletions = 0
    var accessSessions: [AccessSessionID: AccessSession] = [:]
    var questions: [QuestionID: Question] = [:]
    var consultations: [ClaimID: Consultation] = [:]
    /// The number of answers that the presenters of each process owe.
    var openQuestionCounts: [ProcessID: Int] = [:]
    /// The same number by the share of the presenter, with the waiting claims.
    var guestWaiters: [UInt32: GuestWaiters] = [:]
    private var nextTurn: UInt64 = 1
    private var nextQuestion: UInt64 = 1

    var isEmpty: Bool { records.isEmpty }

    mutating func makeAccessSessionID() -> AccessSessionID {
        defer { nextTurn += 1 }
        return AccessSessionID(nextTurn)
    }

    mutating func makeQuestionID() -> QuestionID {
        defer { nextQuestion += 1 }
        return QuestionID(nextQuestion)
    }

    mutating func insert(_ presenter: Presenter) {
        records[presenter.id] = PresenterRecord(presenter)
        if presenter.messages.contains(.accommodateSubitemDeletion) { agreeingToDeletions += 1 }
    }

    /// Releases the memory of removed presenters.
    mutating func shrink() {
        records.shrinkIfSparse()
        presented.shrinkIfSparse()
        byDirectory.shrinkIfSparse()
        accessSessions.shrinkIfSparse()
        questions.shrinkIfSparse()
    }

    mutating func enter(_ id: PresenterID, at item: ItemID) {
        records[id]?.item = item
        presented[item, default: []].insertSorted(id)
        let isPaused = records[id]?.pause != nil
        if isPaused { records[id]?.pause?.began = pauses.clock }
        pauses.entered(id, at: item, among: presented[item] ?? [], isPaused: isPaused)
        let isMuted = records[id]?.mute != nil
        if isMuted { records[id]?.mute?.began = mutes.clock }
        mutes.entered(id, at: item, among: presented[item] ?? [], isPaused: isMuted)
        if isMuted, let record = records[id] { mutedRepresentatives.enter(record, at: item) }
    }

    mutating func leave(_ id: PresenterID) {
        guard let record = records[id], let item = record.item else { return }
        if hasMissed(id) { records[id]?.pause?.hasMissed = true }
        if hasMissedOwn(id) { records[id]?.mute?.hasMissed = true }
        presented[item]?.removeSorted(id)
        if presented[item]?.isEmpty ?? false { presented[item] = nil }
        pauses.left(id, item, among: presented[item] ?? [])
        mutes.left(id, item, among: presented[item] ?? [])
        mutedRepresentatives.leave(record, item)
    }

    /// N14: whether events below a paused presenter's item were not told to it.
    func hasMissed(_ id: PresenterID) -> Bool {
        guard let record = records[id], let pause = record.pause else { return false }
        return pause.hasMissed || record.item.map { pauses.hasMissed($0, since: pause.began) } ?? false
    }

    /// The session to which an access of a party belongs, out of those that accept new claims.
    func accessSession(
        of party: Party, isWrite: Bool, at record: PresenterRecord,
        where isOpen: (AccessSession) -> Bool = { _ in true }
    ) -> AccessSessionID? {
        let own = record.accessSessions.compactMap { accessSessions[$0] }.filter {
            $0.party.isOneProgram(with: party)
        }
        let alike = own.filter { $0.isWrite == isWrite && isOpen($0) }
        guard let purpose = party.purpose else { return alike.last?.id }
        // B3.
        let isOfPurpose = { (accessSession: AccessSession) in accessSession.party.purpose == purpose }
        if let accessSession = alike.last(where: isOfPurpose) ?? alike.last { return accessSession.id }
        // P22.
        guard !isWrite, own.allSatisfy(\.isWrite) else { return nil }
        return own.last { isOpen($0) && isOfPurpose($0) }?.id
    }

    /// P26: whether a presenter was not told yet that an item has a name.
    func isUnreported(_ name: NameKey, to presenter: PresenterID) -> Bool {
        records[presenter]?.accessSessions.contains {
            accessSessions[$0]?.nameEvents.isUnreported(name) ?? false
        } ?? false
    }

    /// P23: Notes in the sessions of a claim that a write was granted.
    mutating func noteEntry(of claim: ClaimID) {
        for accessSession in consultations[claim]?.accessSessions ?? [] {
            accessSessions[accessSession]?.isEntered = true
        }
    }

    /// Whether all presenters of a claim have answered, or none had to be asked.
    func isSettled(_ claim: ClaimID) -> Bool {
        consultations[claim].map { firstUnsettled($0) == nil } ?? false
    }

    /// Returns the same; remembers the session that is waited for, so that each answer costs one check.
    mutating func settles(_ claim: ClaimID) -> Bool {
        guard let consultation = consultations[claim] else { return false }
        guard let first = firstUnsettled(consultation) else { return true }
        consultations[claim]?.awaited = first
        return false
    }

    /// The index of the first session with an outstanding answer, from the one that was waited for last.
    private func firstUnsettled(_ consultation: Consultation) -> Int? {
        let all = consultation.accessSessions.indices
        let start = min(consultation.awaited, all.endIndex)
        let isUnsettled = { (index: Int) in
            !(accessSessions[consultation.accessSessions[index]]?.isSettled ?? true)
        }
        return (start..<all.endIndex).first(where: isUnsettled) ?? (0..<start).first(where: isUnsettled)
    }

    /// Whether a presenter has relinquished to a claim (Y1).
    func isRelinquished(to claim: ClaimID) -> Bool {
        consultations[claim].map {
            $0.accessSessions.contains { accessSessions[$0]?.isRelinquished ?? false }
        } ?? false
    }

    mutating func open(_ question: Question) {
        questions[question.id] = question
        records[question.presenter]?.questions.append(question.id)
        for process in processes(of: question.presenter) { openQuestionCounts[process, default: 0] += 1 }
        if let guest = records[question.presenter]?.presenter.guest {
            guestWaiters[guest, default: GuestWaiters()].open += 1
        }
    }

    mutating func close(_ id: QuestionID) -> Question? {
        guard let question = questions.removeValue(forKey: id) else { return nil }
        records[question.presenter]?.questions.removeAll { $0 == id }
        for process in processes(of: question.presenter) {
            let left = openQuestionCounts[process, default: 1] - 1
            openQuestionCounts[process] = left > 0 ? left : nil
        }
        if let guest = records[question.presenter]?.presenter.guest {
            guestWaiters[guest]?.open -= 1
            if guestWaiters[guest]?.open == 0 { guestWaiters[guest] = nil }
        }
        return question
    }

    /// The presenter's own process and that of its server.
    func processes(of id: PresenterID) -> [ProcessID] {
        guard let party = records[id]?.presenter.party else { return [] }
        return [party.process, party.partner?.process].compactMap { $0 }
    }

    /// P6: whether a party works for a presenter that owes an answer for this claim.
    func owes(_ party: Party, to claim: ClaimID) -> Bool {
        guard let consultation = consultations[claim] else { return false }
        return consultation.accessSessions.contains { id in
            guard let accessSession = accessSessions[id], accessSession.question != nil,
                let record = records[accessSession.presenter]
            else {
                return false
            }
            return party.works(for: record.presenter.party)
        }
    }

    /// Whether a party works for a presenter with open questions.
    func owesAnyAnswer(_ party: Party) -> Bool {
        if openQuestionCounts.isEmpty { return false }
        return party.anyIdentity { one in
            one.process.map { openQuestionCounts[$0] != nil } ?? false
                || one.ancestors.contains { openQuestionCounts[$0] != nil }
        }
    }

    /// The open save question of a presenter, which is not asked twice at once (P9).
    func openSave(of presenter: PresenterID) -> QuestionID? {
        records[presenter]?.questions.first { questions[$0]?.request == .save }
    }

    /// Whether a presenter has open questions.
    func hasOpenQuestions(_ presenter: PresenterID) -> Bool {
        !(records[presenter]?.questions.isEmpty ?? true)
    }
}

extension Party {
    /// P5: whether the accesses of this party are a presenter's own.
    func isOwn(of presenter: Party) -> Bool {
        if let purpose { return purpose == presenter.purpose }
        return isSameProcess(as: presenter)
    }

    /// Whether accesses of both parties belong to one session.
    ///
    /// They do for one process and its ancestors; between two purposes, if these are equal. All unknown parties count as one
    /// program, which matters only to notices: no presenter is asked twice about them.
    func isOneProgram(with other: Party) -> Bool {
        if let purpose, let otherPurpose = other.purpose { return purpose == otherPurpose }
        if process == nil, other.process == nil { return true }
        return isRelated(to: other)
    }
}

extension [PresenterID] {
    /// The index of a presenter in a sorted list, or where it belongs.
    private func place(of id: PresenterID) -> Int {
        var (low, high) = (0, count)
        // A new presenter has the highest number.
        if let last, last < id { return count }
        while low < high {
            let middle = (low + high) / 2
            if self[middle] < id { low = middle + 1 } else { high = middle }
        }
        return low
    }

    mutating func insertSorted(_ id: PresenterID) { insert(id, at: place(of: id)) }

    mutating func removeSorted(_ id: PresenterID) {
        let place = place(of: id)
        if place < count, self[place] == id { remove(at: place) }
    }
}
