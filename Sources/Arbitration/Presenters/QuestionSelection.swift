// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Which questions a presenter is asked for a claim, and which questions are left out.
extension Arbiter {
    /// P15: The questions that are left out because the claim is made within an aware access.
    ///
    /// If they were asked, the presenter would wait for the aware access, and the aware access for the presenter.
    func spared(
        by claim: Claim, _ record: PresenterRecord
    ) -> Set<PresenterRequest> {
        var spared: Set<PresenterRequest> = []
        for id in accesses(around: claim, on: record) {
            spared.insert(.save)
            // An aware claim always asks presenters to relinquish to it.
            if claim.isAware { continue }
            for accessSession in accessSessions(of: id, with: record) where accessSession.isRelinquished {
                spared.insert(.relinquishToReader)
                if accessSession.isWrite { spared.insert(.relinquishToWriter) }
            }
        }
        return spared
    }

    /// P12: Whether a claim is made within an aware access for which the presenter was asked and has not consented.
    ///
    /// By P15 the presenter is not asked again for the claim. The contents must then be preserved, because the
    /// presenter has not consented.
    func hasNotConsented(_ claim: Claim, _ part: ClaimRequest.Part, _ record: PresenterRecord) -> Bool {
        let isCreation = claim.nature == .handle && part.access == .write(.forReplacing)
        guard !claims.aware.isEmpty, !claim.isAware, !isCreation else { return false }
        return accesses(around: claim, on: record).contains { id in
            accessSessions(of: id, with: record).contains {
                $0.isWrite && ($0.lacksConsent || $0.question != nil)
            }
        }
    }

    /// P15: The aware accesses within which a claim is made. Only accesses that would make a writer of the presenter's
    /// item wait are returned.
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

    /// P15: Whether a claim deletes an item within an aware access that can still announce the item's move.
    ///
    /// A program that moves a file without `rename(2)` deletes the file at the old name, and then announces the move.
    private func isMovedInstead(_ part: ClaimRequest.Part, of claim: Claim) -> Bool {
        guard part.access == .write(.forDeleting), !claim.isAware else { return false }
        return claims.aware.contains { id in
            guard let outer = claims[id], areExempt(outer, claim) else { return false }
            return mayMove(id, part.item)
        }
    }

    /// P5: Whether a presenter is not asked about a party's accesses, because the party works for it.
    func isSpared(_ presenter: Party, by party: Party) -> Bool {
        // An access with a purpose asks even presenters of its own process, because two parts of one program may need
        // to wait for each other.
        if party.purpose != nil, party.isSameProcess(as: presenter) { return false }
        return party.works(for: presenter)
    }

    /// P5: Whether an access is the presenter's own, so that the presenter receives no question and no notice.
    func isOwn(_ party: Party, _ presenter: Party) -> Bool { party.isOwn(of: presenter) }

    /// P6: Whether a party acts for a presenter that has not answered a question. If so, the access is treated as the
    /// presenter's own.
    ///
    /// A party with a purpose states which of its accesses are made to answer a question. Only these accesses are
    /// treated as the presenter's own.
    func isOnItsBehalf(_ party: Party, answering question: QuestionID?, _ record: PresenterRecord) -> Bool {
        guard party.works(for: record.presenter.party) else { return false }
        if party.purpose == nil { return registry.hasOpenQuestions(record.id) }
        return question.flatMap { registry.questions[$0] }?.presenter == record.id
    }

    /// P2, P16 to P18, B2: The questions to a presenter for one part of a claim.
    func questionKinds(
        of claim: Claim, _ part: ClaimRequest.Part, _ relation: PresenterRelation, _ party: Party,
        on id: PresenterID
    ) -> [QuestionKind] {
        guard let record = registry.records[id] else { return [] }
        let isCreation = claim.nature == .handle && part.access == .write(.forReplacing)
        var requests: [PresenterRequest] = []
        switch relation {
        case .item, .package:
            // A new file gets a free name. The presenters of an item that had the name were asked when that item was
            // removed.
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
        // P26: A presenter is not asked about the deletion of an item that it was not told of.
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

    /// P2: The questions to the presenters of the item itself.
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

    /// P7: Whether a process does not wait for a presenter at present, because the presenter forfeited a question for
    /// that process.
    func isExcused(_ party: Party, by id: PresenterID) -> Bool {
        guard let process = party.process, let until = registry.records[id]?.excused[process] else {
            return false
        }
        return now <= until
    }

    /// P7: Returns whether a party does not wait for a presenter, because the presenter has forfeited a question. If
    /// the party does not wait, extends the time in which it need not wait.
    mutating func goesOnExcused(_ party: Party, by id: PresenterID) -> Bool {
        guard isExcused(party, by: id) else { return false }
        excuse(party, by: id)
        return true
    }

    /// P25: Whether a program that works for the presenter waits for an answer of the given party.
    ///
    /// False if the party itself works for the presenter.
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

    /// P9, P10, P25: Whether a presenter may be asked to save because of a reader.
    func mayAskToSave(_ party: Party, _ record: PresenterRecord) -> Bool {
        // P25: The presenter's program waits for this party, so the presenter could not save.
        if holdsUp(party, record) { return false }
        if party.purpose != nil { return true }
        guard party.programClass == .ordinary else { return false }
        // If the presenter has not yet answered a question to save, this reader waits for the same answer.
        if registry.openSave(of: record.id) != nil { return true }
        if let saved = record.saved, isRecent(saved) { return false }
        return !(record.savesAsked[party.session].map(isRecent) ?? false)
    }

    /// P9: Whether a moment is less than `askAgain` ago.
    private func isRecent(_ moment: Instant) -> Bool { now < moment + bounds.askAgain }

    mutating func noteSaveAsked(of id: PresenterID, for session: Int32) {
        guard var asked = registry.records[id]?.savesAsked else { return }
        asked = asked.filter { isRecent($0.value) }
        // A process with an unknown POSIX session shares its session with no other process.
        if session != 0 { asked[session] = now }
        let now = now
        registry.updateRecord(id) { ($0.savesAsked, $0.saveAsked) = (asked, now) }
    }

    /// P12: The presenters that have not consented to a write: they have refused, have not answered, or were not asked.
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

    /// P12: The presenters that were not asked about a write, because of earlier forfeits or because they are muted.
    ///
    /// A presenter is left out if the item is in its `unaskedWrites`.
    func unaskedWrites(byGranted claim: Claim) -> [PresenterID] {
        if claim.onlyReads { return [] }
        let writes = registry.consultations[claim.id]?.unaskedWrites ?? unaskedWrites(by: claim)
        return writes.filter { !(registry.records[$0.presenter]?.unaskedWrites.contains($0.item) ?? true) }
            .map(\.presenter)
    }

    /// P12: Called when an item was written: notes this for the presenters that the grant has listed, so that the next
    /// grant does not list them.
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

    /// The presenters that were not asked for a claim, because the claim was granted while other claims still blocked
    /// it.
    private func presentersNotAsked(by claim: Claim) -> [PresenterID] {
        guard concernsPresenters(claim) else { return [] }
        let questionPlans = questionPlans(of: claim, families.party(of: claim.id) ?? .nobody)
        return questionPlans.filter { !$0.value.questionKinds.isEmpty }.keys.sorted()
    }
}
