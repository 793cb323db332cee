// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Every presenter, with the access sessions, questions and consultations; empty in nearly all mounts.
///
/// A claim that concerns no presenter costs nothing here.
///
/// Invariants (I5):
///
/// - Each session is in its presenter's list, and in no other.
/// - Each member of a session has the session in its consultation, and the reverse.
/// - Each open question has a presenter, and is in its list.
/// - `openQuestionCounts` counts the open questions by process, and `guestWaiters` by share.
/// - Each presenter with an item is in the list of that item, and of its directory.
/// - `pauses` and `mutes` know each presenter that is paused or muted.
struct PresenterRegistry: Sendable {
    private(set) var records: [PresenterID: PresenterRecord] = [:]
    /// Presenters by item, sorted.
    private(set) var presented: [ItemID: [PresenterID]] = [:]
    /// Presenters by the directory of their item.
    private(set) var byDirectory: [ItemID: Set<PresenterID>] = [:]
    /// Presenters that are told of no names below their item (N14).
    private(set) var pauses = SuppressionIndex()
    /// Presenters that are neither asked nor told about their item (N15).
    private(set) var mutes = SuppressionIndex()
    /// The muted presenters for which unasked writes are noted (N15).
    private(set) var mutedRepresentatives = MutedRepresentatives()
    /// The number of presenters that accommodate deletions of subitems (P18).
    private(set) var agreeingToDeletions = 0
    private(set) var accessSessions: [AccessSessionID: AccessSession] = [:]
    private(set) var questions: [QuestionID: Question] = [:]
    private(set) var consultations: [ClaimID: Consultation] = [:]
    /// The number of answers that the presenters of each process owe.
    private(set) var openQuestionCounts: [ProcessID: Int] = [:]
    /// The same number by the share of the presenter, with the waiting claims.
    private(set) var guestWaiters: [UInt32: GuestWaiters] = [:]
    /// The events and questions of each share's presenters since the last reading.
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

    /// Whether no session, question or consultation is left.
    var isAtRest: Bool {
        accessSessions.isEmpty && questions.isEmpty && consultations.isEmpty && openQuestionCounts.isEmpty
            && guestWaiters.isEmpty
    }
}

/// Presenters and their places.
extension PresenterRegistry {
    mutating func insert(_ presenter: Presenter) {
        records[presenter.id] = PresenterRecord(presenter)
        if presenter.messages.contains(.accommodateSubitemDeletion) { agreeingToDeletions += 1 }
    }

    /// Removes a presenter after its sessions and questions; it must have left its item.
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

    /// Changes the record of a presenter in place, if there is one.
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

    /// Notes an event of an item for its muted presenters.
    mutating func noteMissed(of item: ItemID, by doer: Party) { mutes.noteHappening(below: item, by: doer) }

    /// Notes an event in a plain directory for its paused presenters.
    mutating func noteMissed(in directory: ItemID) { pauses.noteHappening(below: directory) }

    /// N14: whether events below a paused presenter's item were not told to it.
    func hasMissed(_ id: PresenterID) -> Bool {
        guard let record = records[id], let pause = record.pause else { return false }
        return pause.hasMissed || record.item.map { pauses.hasMissed($0, since: pause.began) } ?? false
    }

}

/// Access sessions and the consultations of their members.
extension PresenterRegistry {
    mutating func insert(_ accessSession: AccessSession) {
        accessSessions[accessSession.id] = accessSession
        records[accessSession.presenter]?.accessSessions.append(accessSession.id)
    }

    /// Removes a session; its members keep it in their consultations.
    mutating func removeAccessSession(_ id: AccessSessionID) -> AccessSession? {
        guard let removed = accessSessions.removeValue(forKey: id) else { return nil }
        records[removed.presenter]?.accessSessions.removeAll { $0 == id }
        return removed
    }

    /// Removes a session, also from the consultations of its members.
    mutating func dissolve(_ id: AccessSessionID) -> AccessSession? {
        guard let removed = accessSessions.removeValue(forKey: id) else { return nil }
        for member in removed.members { consultations[member]?.accessSessions.removeAll { $0 == id } }
        return removed
    }

    /// Changes a session in place, if there is one.
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

    /// Removes the consultation of a claim; the claim is still a member of its sessions.
    mutating func removeConsultation(of claim: ClaimID) -> Consultation? {
        consultations.removeValue(forKey: claim)
    }

    /// Changes the consultation of a claim in place, if there is one.
    @inline(__always)
    mutating func updateConsultation(of claim: ClaimID, _ body: (inout Consultation) -> Void) {
        guard let entry = consultations.index(forKey: claim) else { return }
        body(&consultations.values[entry])
    }

    /// Adds a claim that has a consultation to a session, which so does not end.
    mutating func addMember(_ claim: ClaimID, to id: AccessSessionID) {
        if let entry = accessSessions.index(forKey: id) {
            accessSessions.values[entry].members.append(claim)
            accessSessions.values[entry].end = nil
        }
        consultations[claim]?.accessSessions.append(id)
    }

    /// Removes a claim from a session, with its questions; returns whether the session has no members now.
    mutating func removeMember(_ claim: ClaimID, from id: AccessSessionID) -> Bool {
        guard let entry = accessSessions.index(forKey: id) else { return false }
        accessSessions.values[entry].members.removeAll { $0 == claim }
        accessSessions.values[entry].stopAsking(for: claim)
        return accessSessions.values[entry].members.isEmpty
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

    /// P4.
    mutating func setDeadline(of id: QuestionID, to deadline: Instant) { questions[id]?.deadline = deadline }

    /// Notes a claim that waits for an open question to a share's presenter.
    mutating func noteGuestWaiter(_ claim: ClaimID, of user: UInt32?, for guest: UInt32) {
        guestWaiters[guest]?.note(claim, of: user)
    }

    /// Takes the waiting claims of a share out, to change them in place.
    mutating func takeGuestWaiters(of guest: UInt32) -> GuestWaiters? {
        guestWaiters.removeValue(forKey: guest)
    }

    mutating func setGuestWaiters(_ waiters: GuestWaiters, of guest: UInt32) { guestWaiters[guest] = waiters }

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
