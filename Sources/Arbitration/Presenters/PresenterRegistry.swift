// SPDX-License-Identifier: Apache-2.0
import Coordination

/// All presenters, with their access sessions and questions. Empty in nearly all mounts.
///
/// A claim that concerns no presenter has no record here.
///
/// Invariants (I5):
///
/// - Each access session is in the list of its presenter, and in no other list.
/// - A claim is a member of a session exactly if the claim's ``Consultation`` lists the session.
/// - Each open question has a presenter, and is in the presenter's list.
/// - `openQuestionCounts` counts the open questions by process, and `guestWaiters` counts them by guest.
/// - Each presenter with an item is in the list of the item, and in the list of the item's directory.
/// - `pauses` and `mutes` have each presenter that is paused or muted.
struct PresenterRegistry: Sendable {
    private(set) var records: [PresenterID: PresenterRecord] = [:]
    /// The presenters of each item, in the order of their numbers.
    private(set) var presented: [ItemID: [PresenterID]] = [:]
    /// For each directory, the presenters of items directly in the directory.
    private(set) var byDirectory: [ItemID: Set<PresenterID>] = [:]
    /// N14: The paused presenters, which receive no notices about names below their directory.
    private(set) var pauses = SuppressionIndex()
    /// N15: The muted presenters, which receive no questions and no notices about their item.
    private(set) var mutes = SuppressionIndex()
    /// N15: The muted presenters that may have unsaved work. A grant lists some of these presenters as not asked.
    private(set) var mutedRepresentatives = MutedRepresentatives()
    /// P18: The number of presenters that are asked about the deletion of items in their directory.
    private(set) var agreeingToDeletions = 0
    private(set) var accessSessions: [AccessSessionID: AccessSession] = [:]
    private(set) var questions: [QuestionID: Question] = [:]
    private(set) var consultations: [ClaimID: Consultation] = [:]
    /// For each process, the number of questions that its presenters have not answered.
    private(set) var openQuestionCounts: [ProcessID: Int] = [:]
    /// For each guest, the number of questions that the guest's presenters have not answered, and the claims that wait
    /// for the answers.
    private(set) var guestWaiters: [UInt32: GuestWaiters] = [:]
    /// The numbers of events and questions that the presenters of each guest have received.
    var eventCounts = PresenterEventCounts()
    private var nextAccessSession: UInt64 = 1
    private var nextQuestion: UInt64 = 1

    var isEmpty: Bool { records.isEmpty }

    mutating func makeAccessSessionID() -> AccessSessionID {
        defer { nextAccessSession += 1 }
        return AccessSessionID(nextAccessSession)
    }

    mutating func makeQuestionID() -> QuestionID {
        defer { nextQuestion += 1 }
        return QuestionID(nextQuestion)
    }

    /// Whether no access session, no question and no record of a claim's presenters is left.
    var isAtRest: Bool {
        accessSessions.isEmpty && questions.isEmpty && consultations.isEmpty && openQuestionCounts.isEmpty
            && guestWaiters.isEmpty
    }
}

/// Presenters and the places of their items.
extension PresenterRegistry {
    mutating func insert(_ presenter: Presenter) {
        records[presenter.id] = PresenterRecord(presenter)
        if presenter.messages.contains(.accommodateSubitemDeletion) { agreeingToDeletions += 1 }
    }

    /// Removes a presenter. Its access sessions and questions must be gone, and it must have left its item.
    mutating func remove(_ id: PresenterID) {
        let former = records.removeValue(forKey: id)
        if former?.presenter.messages.contains(.accommodateSubitemDeletion) ?? false {
            agreeingToDeletions -= 1
        }
        records.shrinkIfSparse()
        presented.shrinkIfSparse()
        byDirectory.shrinkIfSparse()
        accessSessions.shrinkIfSparse()
        questions.shrinkIfSparse()
    }

    /// Changes the record of a presenter without copying it. Does nothing if there is no record.
    @inline(__always)
    mutating func updateRecord(_ id: PresenterID, _ body: (inout PresenterRecord) -> Void) {
        guard let entry = records.index(forKey: id) else { return }
        body(&records.values[entry])
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

    /// Sets the directory of a presenter's item.
    mutating func enterDirectory(_ directory: ItemID?, _ id: PresenterID) {
        records[id]?.place.directory = directory
        if let directory { byDirectory[directory, default: []].insert(id) }
    }

    mutating func leaveDirectory(_ directory: ItemID, _ id: PresenterID) {
        byDirectory[directory]?.remove(id)
        if byDirectory[directory]?.isEmpty ?? false { byDirectory[directory] = nil }
    }
}

/// Paused and muted presenters.
extension PresenterRegistry {
    mutating func beginPause(of id: PresenterID) {
        records[id]?.pause = Suppression(began: pauses.clock)
    }

    mutating func pause(_ ids: Set<PresenterID>, at item: ItemID) {
        pauses.pause(ids, at: item, among: presented[item] ?? [])
    }

    mutating func resume(_ ids: Set<PresenterID>, at item: ItemID) {
        pauses.resume(ids, at: item, among: presented[item] ?? [])
    }

    mutating func beginMute(of record: PresenterRecord) {
        records[record.id]?.mute = Suppression(began: mutes.clock)
        if let item = record.item { mutedRepresentatives.enter(record, at: item) }
    }

    mutating func mute(_ ids: Set<PresenterID>, at item: ItemID) {
        mutes.pause(ids, at: item, among: presented[item] ?? [])
    }

    mutating func endMute(of record: PresenterRecord) {
        records[record.id]?.mute = nil
        if let item = record.item { mutedRepresentatives.leave(record, item) }
    }

    mutating func unmute(_ ids: Set<PresenterID>, at item: ItemID) {
        mutes.resume(ids, at: item, among: presented[item] ?? [])
    }

    /// Notes an event of an item, so that the muted presenters of the item can be told later that they missed it.
    mutating func noteMissed(of item: ItemID, by doer: Party) { mutes.noteHappening(below: item, by: doer) }

    /// Notes an event in a plain directory, so that the paused presenters of the directory can be told later that they
    /// missed it.
    mutating func noteMissed(in directory: ItemID) { pauses.noteHappening(below: directory) }

    /// N14: Whether a paused presenter was not told of an event below its directory.
    func hasMissed(_ id: PresenterID) -> Bool {
        guard let record = records[id], let pause = record.pause else { return false }
        return pause.hasMissed || record.item.map { pauses.hasMissed($0, since: pause.began) } ?? false
    }

}

/// Access sessions, and a ``Consultation`` for each claim: the record of the claim's presenters.
extension PresenterRegistry {
    mutating func insert(_ accessSession: AccessSession) {
        accessSessions[accessSession.id] = accessSession
        records[accessSession.presenter]?.accessSessions.append(accessSession.id)
    }

    /// Removes an access session, but leaves it in the records of its claims.
    mutating func removeAccessSession(_ id: AccessSessionID) -> AccessSession? {
        guard let removed = accessSessions.removeValue(forKey: id) else { return nil }
        records[removed.presenter]?.accessSessions.removeAll { $0 == id }
        return removed
    }

    /// Removes an access session, and removes it from the records of its claims.
    mutating func dissolve(_ id: AccessSessionID) -> AccessSession? {
        guard let removed = accessSessions.removeValue(forKey: id) else { return nil }
        for member in removed.members { consultations[member]?.accessSessions.removeAll { $0 == id } }
        return removed
    }

    /// Changes an access session without copying it. Returns nil if the session does not exist.
    @inline(__always)
    @discardableResult
    mutating func updateAccessSession<Result>(
        _ id: AccessSessionID, _ body: (inout AccessSession) -> Result
    ) -> Result? {
        guard let entry = accessSessions.index(forKey: id) else { return nil }
        return body(&accessSessions.values[entry])
    }

    mutating func beginConsultation(
        of claim: ClaimID, _ consultation: Consultation = Consultation()
    ) { consultations[claim] = consultation }

    /// Removes and returns the record of a claim's presenters. The claim stays a member of its access sessions.
    mutating func removeConsultation(of claim: ClaimID) -> Consultation? {
        consultations.removeValue(forKey: claim)
    }

    /// Changes the record of a claim's presenters. Does nothing if there is no record.
    @inline(__always)
    mutating func updateConsultation(of claim: ClaimID, _ body: (inout Consultation) -> Void) {
        guard let entry = consultations.index(forKey: claim) else { return }
        body(&consultations.values[entry])
    }

    /// Adds a claim to an access session. The claim must have a record of its presenters. The access session does not
    /// end while it has members.
    mutating func addMember(_ claim: ClaimID, to id: AccessSessionID) {
        if let entry = accessSessions.index(forKey: id) {
            accessSessions.values[entry].members.append(claim)
            accessSessions.values[entry].end = nil
        }
        consultations[claim]?.accessSessions.append(id)
    }

    /// Removes a claim and its questions from an access session. Returns whether the session has no members now.
    mutating func removeMember(_ claim: ClaimID, from id: AccessSessionID) -> Bool {
        guard let entry = accessSessions.index(forKey: id) else { return false }
        accessSessions.values[entry].members.removeAll { $0 == claim }
        accessSessions.values[entry].stopAsking(for: claim)
        return accessSessions.values[entry].members.isEmpty
    }

    /// The access session to which an access of a party is added; nil if no session accepts the access.
    func accessSession(
        of party: Party, isWrite: Bool, at record: PresenterRecord,
        where isOpen: (AccessSession) -> Bool = { _ in true }
    ) -> AccessSessionID? {
        let own = record.accessSessions.compactMap { accessSessions[$0] }.filter {
            $0.party.isOneProgram(with: party)
        }
        let alike = own.filter { $0.isWrite == isWrite && isOpen($0) }
        guard let purpose = party.purpose else { return alike.last?.id }
        // B3: An access session of the same purpose is preferred.
        let isOfPurpose = { (accessSession: AccessSession) in accessSession.party.purpose == purpose }
        if let accessSession = alike.last(where: isOfPurpose) ?? alike.last { return accessSession.id }
        // P22: A read is added to a write session of the same purpose. A presenter that has relinquished to the writer
        // need not relinquish to the reader.
        guard !isWrite, own.allSatisfy(\.isWrite) else { return nil }
        return own.last { isOpen($0) && isOfPurpose($0) }?.id
    }

    /// P26: Whether a presenter was not told yet that an item has this name.
    func isUnreported(_ name: NameKey, to presenter: PresenterID) -> Bool {
        records[presenter]?.accessSessions.contains {
            accessSessions[$0]?.nameEvents.isUnreported(name) ?? false
        } ?? false
    }

    /// P23: Notes in all access sessions of a claim that a write was granted.
    mutating func noteEntry(of claim: ClaimID) {
        for accessSession in consultations[claim]?.accessSessions ?? [] {
            accessSessions[accessSession]?.isEntered = true
        }
    }

    /// Whether all presenters of a claim have answered, or none had to be asked.
    func isSettled(_ claim: ClaimID) -> Bool {
        consultations[claim].map { firstUnsettled($0) == nil } ?? false
    }

    /// Returns whether all presenters of a claim have answered. If not, stores one access session that waits for an
    /// answer, so that the next call checks this session first.
    mutating func settles(_ claim: ClaimID) -> Bool {
        guard let consultation = consultations[claim] else { return false }
        guard let first = firstUnsettled(consultation) else { return true }
        consultations[claim]?.awaited = first
        return false
    }

    /// The index of an access session of a claim that still waits for an answer. The search begins at the session that
    /// was last found to wait.
    private func firstUnsettled(_ consultation: Consultation) -> Int? {
        let all = consultation.accessSessions.indices
        let start = min(consultation.awaited, all.endIndex)
        let isUnsettled = { (index: Int) in
            !(accessSessions[consultation.accessSessions[index]]?.isSettled ?? true)
        }
        return (start..<all.endIndex).first(where: isUnsettled) ?? (0..<start).first(where: isUnsettled)
    }

    /// Y1: Whether a presenter was asked to relinquish its item to a claim.
    func isRelinquished(to claim: ClaimID) -> Bool {
        consultations[claim].map {
            $0.accessSessions.contains { accessSessions[$0]?.isRelinquished ?? false }
        } ?? false
    }

}

/// Questions.
extension PresenterRegistry {
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

    /// P4: Sets the deadline of a question.
    mutating func setDeadline(of id: QuestionID, to deadline: Instant) { questions[id]?.deadline = deadline }

    /// Notes that a claim waits for an open question to a presenter of a guest.
    mutating func noteGuestWaiter(_ claim: ClaimID, of user: UInt32?, for guest: UInt32) {
        guestWaiters[guest]?.note(claim, of: user)
    }

    /// Removes and returns the claims that wait for a guest, so that a change does not copy them.
    mutating func takeGuestWaiters(of guest: UInt32) -> GuestWaiters? {
        guestWaiters.removeValue(forKey: guest)
    }

    mutating func setGuestWaiters(_ waiters: GuestWaiters, of guest: UInt32) { guestWaiters[guest] = waiters }

    /// The process of a presenter, and the process of its partner: a second process that counts as the presenter.
    func processes(of id: PresenterID) -> [ProcessID] {
        guard let party = records[id]?.presenter.party else { return [] }
        return [party.process, party.partner?.process].compactMap { $0 }
    }

    /// P6: Whether a party works for a presenter, and this claim waits for an answer of that presenter.
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

    /// Whether a party works for any presenter with an open question.
    func owesAnyAnswer(_ party: Party) -> Bool {
        if openQuestionCounts.isEmpty { return false }
        return party.anyIdentity { one in
            one.process.map { openQuestionCounts[$0] != nil } ?? false
                || one.ancestors.contains { openQuestionCounts[$0] != nil }
        }
    }

    /// P9: The question to save that a presenter has not answered yet. While there is one, the presenter is not asked
    /// to save again.
    func openSave(of presenter: PresenterID) -> QuestionID? {
        records[presenter]?.questions.first { questions[$0]?.request == .save }
    }

    /// Whether a presenter has a question that it has not answered.
    func hasOpenQuestions(_ presenter: PresenterID) -> Bool {
        !(records[presenter]?.questions.isEmpty ?? true)
    }
}
