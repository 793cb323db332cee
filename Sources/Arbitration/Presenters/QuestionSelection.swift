// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Which questions presenters are asked for a claim, and which they are spared.
extension Arbiter {
    /// P15: the questions that a presenter is spared because of aware accesses around a claim.
    func spared(
        by claim: Claim, _ record: PresenterRecord
    ) -> Set<PresenterRequest> {
        var spared: Set<PresenterRequest> = []
        for id in accesses(around: claim, on: record) {
            spared.insert(.save)
            // Each aware access makes a presenter relinquish to itself.
            if claim.isAware { continue }
            for accessSession in accessSessions(of: id, with: record) where accessSession.isRelinquished {
                spared.insert(.relinquishToReader)
                if accessSession.isWrite { spared.insert(.relinquishToWriter) }
            }
        }
        return spared
    }

    /// P12: whether a presenter was asked for an aware access around a claim, and has not consented.
    ///
    /// P15 spares the presenter this claim's questions, to which it did not agree then. And the client of an aware access
    /// preserves nothing.
    func hasNotConsented(_ claim: Claim, _ part: ClaimRequest.Part, _ record: PresenterRecord) -> Bool {
        let isCreation = claim.nature == .handle && part.access == .write(.forReplacing)
        guard !claims.aware.isEmpty, !claim.isAware, !isCreation else { return false }
        return accesses(around: claim, on: record).contains { id in
            accessSessions(of: id, with: record).contains {
                $0.isWrite && ($0.lacksConsent || $0.question != nil)
            }
        }
    }

    /// P15: the aware accesses around a claim that would block a writer of a presenter's item.
    private func accesses(around claim: Claim, on record: PresenterRecord) -> [ClaimID] {
        guard !claims.aware.isEmpty, let item = record.item else { return [] }
        let outermostPackage = tree.outermostPackage(of: item, at: record.place)
        let above = tree.ancestors(of: item, at: record.place).filter { locks.subtreeLock(of: $0) != nil }
        let resources: Set<Resource> = [.item(item), .item(outermostPackage ?? item)]
        return claims.aware.filter { id in
            guard id != claim.id, let outer = claims[id], outer.isHeld, areExempt(outer, claim) else {
                return false
            }
            return resources.contains { outer.isWriting($0) != nil }
                || above.contains { outer.isWriting(.contents(of: $0)) ?? false }
        }
    }

    private func accessSessions(of id: ClaimID, with record: PresenterRecord) -> [AccessSession] {
        (registry.consultations[id]?.accessSessions ?? []).compactMap { registry.accessSessions[$0] }.filter {
            $0.presenter == record.id
        }
    }

    /// P15: whether an aware access around a claim may still move an item that the claim deletes.
    ///
    /// A program that moves a file without `rename(2)` deletes the former file and announces the move.
    private func isMovedInstead(_ part: ClaimRequest.Part, of claim: Claim) -> Bool {
        guard part.access == .write(.forDeleting), !claim.isAware else { return false }
        return claims.aware.contains { id in
            guard let outer = claims[id], areExempt(outer, claim) else { return false }
            return mayMove(id, part.item)
        }
    }

    /// P5: whether a presenter need not be asked about a party's accesses.
    func isSpared(_ presenter: Party, by party: Party) -> Bool {
        // Two coordinators of one program may need to exclude each other.
        if party.purpose != nil, party.isSameProcess(as: presenter) { return false }
        return party.works(for: presenter)
    }

    /// P5: whether an access is the presenter's own, of which it is neither asked nor told.
    func isOwn(_ party: Party, _ presenter: Party) -> Bool { party.isOwn(of: presenter) }

    /// P6: whether a party acts for a presenter that owes an answer, so that the access is its own.
    ///
    /// A party with a purpose states which accesses answer a question. Its program may do other work meanwhile, which the
    /// presenter must be told of.
    func isOnItsBehalf(_ party: Party, answering question: QuestionID?, _ record: PresenterRecord) -> Bool {
        guard party.works(for: record.presenter.party) else { return false }
        if party.purpose == nil { return registry.hasOpenQuestions(record.id) }
        return question.flatMap { registry.questions[$0] }?.presenter == record.id
    }

    /// P2, P16 to P18, B2: the questions to a presenter for a part.
    func questionKinds(
        of claim: Claim, _ part: ClaimRequest.Part, _ relation: PresenterRelation, _ party: Party,
        on id: PresenterID
    ) -> [QuestionKind] {
        guard let record = registry.records[id] else { return [] }
        let isCreation = claim.nature == .handle && part.access == .write(.forReplacing)
        var requests: [PresenterRequest] = []
        switch relation {
        case .item, .package:
            // A new file takes a free name: presenters of the former item were asked before.
            if isCreation {
                requests = relation == .package ? [.relinquishToWriter] : []
            } else {
                requests = self.requests(for: claim, part.access, party, record)
            }
        case .below where claim.nature == .batch:
            requests = self.requests(for: claim, part.access, party, record)
        case .below where part.access.isDeletion: requests = [.relinquishToWriter, .accommodateDeletion]
        case .below: requests = [part.access.isWrite ? .relinquishToWriter : .relinquishToReader]
        case .directory: requests = [.accommodateDeletion]
        }
        let isAbove = relation == .package || relation == .directory
        var spared = spared(by: claim, record)
        if isMovedInstead(part, of: claim) {
            spared.formUnion([.accommodateDeletion, .accommodateSubitemDeletion])
        }
        // P26.
        if isAbove, registry.isUnreported(NameKey(part.item, at: part.place), to: id) {
            spared.insert(.accommodateSubitemDeletion)
        }
        return requests.map { request in
            request == .accommodateDeletion && isAbove
                ? QuestionKind(request: .accommodateSubitemDeletion, subitem: part.item)
                : QuestionKind(request: request)
        }.filter { questionKind in
            record.presenter.messages.contains(PresenterMessages(questionKind.request))
                && !spared.contains(questionKind.request)
        }
    }

    /// P2: the questions to presenters of the item.
    private func requests(
        for claim: Claim, _ access: Access, _ party: Party, _ record: PresenterRecord
    ) -> [PresenterRequest] {
        switch access {
        case .read(let options):
            return !options.contains(.withoutChanges) && mayAskToSave(party, record)
                ? [.relinquishToReader, .save] : [.relinquishToReader]
        case .write(.updating), .write(.contentIndependentMetadataOnly), .write(.forMoving):
            return [.relinquishToWriter]
        case .write(.forMerging): return [.relinquishToWriter, .save]
        case .write(.forDeleting), .write(.forReplacing): return [.relinquishToWriter, .accommodateDeletion]
        }
    }

    /// P7.
    func isExcused(_ party: Party, by id: PresenterID) -> Bool {
        guard let process = party.process, let until = registry.records[id]?.excused[process] else {
            return false
        }
        return now <= until
    }

    /// P7: Returns whether a party need not wait for a presenter, and extends its excuse.
    mutating func goesOnExcused(_ party: Party, by id: PresenterID) -> Bool {
        guard isExcused(party, by: id) else { return false }
        excuse(party, by: id)
        return true
    }

    /// P25: whether an access that works for a presenter waits for an answer that the party owes.
    ///
    /// The party itself must not work for it.
    private func holdsUp(_ party: Party, _ record: PresenterRecord) -> Bool {
        let presenter = record.presenter.party
        guard registry.owesAnyAnswer(party), !party.works(for: presenter) else { return false }
        var isHeldUp = false
        // Only the waiting claims of the presenter's programs are visited.
        families.waiters.forEachClaim(ofOrBelow: presenter) { id in
            if !isHeldUp, families.party(of: id)?.works(for: presenter) ?? false, registry.owes(party, to: id)
            {
                isHeldUp = true
            }
        }
        return isHeldUp
    }

    /// P9, P10, P25: whether a presenter may be asked to save for a reader.
    func mayAskToSave(_ party: Party, _ record: PresenterRecord) -> Bool {
        // P25.
        if holdsUp(party, record) { return false }
        if party.purpose != nil { return true }
        guard party.programClass == .ordinary else { return false }
        // A reader that comes during a save waits for that save.
        if registry.openSave(of: record.id) != nil { return true }
        if let saved = record.saved, isRecent(saved) { return false }
        return !(record.savesAsked[party.session].map(isRecent) ?? false)
    }

    /// P9.
    private func isRecent(_ moment: Instant) -> Bool { now < moment + bounds.askAgain }

    mutating func noteSaveAsked(of id: PresenterID, for session: Int32) {
        guard var asked = registry.records[id]?.savesAsked else { return }
        asked = asked.filter { isRecent($0.value) }
        // A process without a known POSIX session shares none with others.
        if session != 0 { asked[session] = now }
        let now = now
        registry.updateRecord(id) { ($0.savesAsked, $0.saveAsked) = (asked, now) }
    }

    /// P12: the presenters that a write overrides because they refused, did not answer or were not asked.
    func unanswered(by claim: Claim) -> [PresenterID] {
        guard !claim.onlyReads || claim.isAware else { return [] }
        guard let consultation = registry.consultations[claim.id] else {
            return presentersNotAsked(by: claim)
        }
        return consultation.accessSessions.compactMap { registry.accessSessions[$0] }
            .filter { accessSession in
                (accessSession.lacksConsent || accessSession.question != nil)
                    && (claim.isAware || !consultation.skippedPresenters.contains(accessSession.presenter))
            }
            .map(\.presenter).sorted()
    }

    /// P12: the presenters that a write overrides because they are not asked any more.
    ///
    /// A presenter is left out if the item is in its `unaskedWrites` already.
    func unaskedWrites(byGranted claim: Claim) -> [PresenterID] {
        if claim.onlyReads { return [] }
        let writes = registry.consultations[claim.id]?.unaskedWrites ?? unaskedWrites(by: claim)
        return writes.filter { !(registry.records[$0.presenter]?.unaskedWrites.contains($0.item) ?? true) }
            .map(\.presenter)
    }

    /// P12: Notes for the presenters that a grant listed that the item was written, so it is not listed again.
    mutating func noteUnaskedWrites(_ item: ItemID, under id: ClaimID?) {
        guard let id, let claim = claims[id], !claim.isAware, let consultation = registry.consultations[id]
        else { return }
        for presenter in consultation.overriddenPresenters {
            registry.updateRecord(presenter) { $0.noteUnaskedWrite(item) }
        }
    }

    private func unaskedWrites(by claim: Claim) -> [(presenter: PresenterID, item: ItemID)] {
        guard concernsPresenters(claim) else { return [] }
        let party = families.party(of: claim.id) ?? .nobody
        let questionPlans = questionPlans(of: claim, party).sorted { $0.key < $1.key }
        return questionPlans.flatMap { id, questionPlan in questionPlan.unaskedWrites.map { (id, $0) } }
            + unaskedWritesOfMuted(by: claim, party)
    }

    /// The presenters that a claim would have asked if it had not gone ahead before its turn.
    private func presentersNotAsked(by claim: Claim) -> [PresenterID] {
        guard concernsPresenters(claim) else { return [] }
        let questionPlans = questionPlans(of: claim, families.party(of: claim.id) ?? .nobody)
        return questionPlans.filter { !$0.value.questionKinds.isEmpty }.keys.sorted()
    }
}
