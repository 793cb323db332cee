// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Chooses the presenters that a claim concerns, and the questions that the claim must ask them.
extension NaiveArbiter {
    private enum NaiveRelation { case same, packageAbove, directoryAbove, below }

    /// P1: whether the arbiter must know the party of a claim before the grant, because the claim concerns a presenter.
    func isPresented(_ claim: Int) -> Bool {
        if claims[claim].nature == .pendingSave { return false }
        if let party = claims[claim].party, !unaskedWritesOfMuted(by: claim, party).isEmpty { return true }
        return presenters.contains { presenter in
            if let party = claims[claim].party, presenter.isOwn(party) { return false }
            return claims[claim].parts.contains { asks($0, of: presenter, in: claims[claim]) != nil }
        }
    }

    /// P12, N15: the presenters that a write lists although they are muted (they get no questions, and no notices of the item).
    /// Of several muted presenters of an item, the first is listed.
    func unaskedWritesOfMuted(by index: Int, _ party: Party) -> [(PresenterID, ItemID)] {
        let claim = claims[index]
        return claim.parts.filter(\.access.isWrite).flatMap { part in
            let isCreation = claim.nature == .handle && part.access == .write(.forReplacing)
            let muted = presenters.filter { presenter in
                let position = place(of: presenter, for: part)
                let isMeant = position == .packageAbove || position == .same && !isCreation
                return presenter.isMuted && isMeant && presenter.answersWriters && !presenter.isSpared(party)
            }
            let items = Set(muted.compactMap(\.item))
            return items.compactMap { item in muted.first { $0.item == item } }.map { ($0.id, part.item) }
        }
    }

    /// P16 to P19, P21: the position of a presenter relative to a part's item: the same item, above or below. Nil if the part
    /// does not concern the presenter.
    private func position(of presenter: NaivePresenter, for part: ClaimRequest.Part) -> NaiveRelation? {
        let position = place(of: presenter, for: part)
        // N15: if several presenters of an item are muted (they get no questions and no notices), only the first of them is
        // considered.
        guard presenter.isMuted else { return position }
        let isConcerned = position == .same || position == .packageAbove
        let first = presenters.first {
            $0.isMuted && $0.item == presenter.item && place(of: $0, for: part) != nil
        }
        return isConcerned && first?.id == presenter.id ? position : nil
    }

    private func place(of presenter: NaivePresenter, for part: ClaimRequest.Part) -> NaiveRelation? {
        guard let item = presenter.item else { return nil }
        if item == part.item {
            if part.access.isStructural, !presenter.place.isSameName(as: part.place) { return nil }
            return .same
        }
        if ancestors(of: part.item, at: part.place).contains(item) {
            return isPackage(item) ? .packageAbove : .directoryAbove
        }
        if directories[part.item] != nil, ancestors(of: item, at: presenter.place).contains(part.item) {
            return .below
        }
        return nil
    }

    /// Returns the questions that a part of a claim needs from a presenter; nil if the part does not concern the presenter.
    private func asks(_ part: ClaimRequest.Part, of presenter: NaivePresenter, in claim: NaiveClaim)
        -> [NaiveQuestionKind]?
    {
        let isCreation = claim.nature == .handle && part.access == .write(.forReplacing)
        switch position(of: presenter, for: part) {
        case nil: return nil
        case .same: return isCreation ? [] : itemAsks(part.access, nil)
        case .packageAbove:
            // P16: a presenter of a package above the item gets the same questions as a presenter of the item. Only a deletion
            // is asked as the deletion of a subitem.
            return isCreation ? itemAsks(.write(.updating), nil) : itemAsks(part.access, part.item)
        case .directoryAbove:
            // P18: a presenter of a plain directory above is asked only to agree to the deletion of a subitem.
            guard part.access.isDeletion, !isCreation, presenter.implements(.accommodateSubitemDeletion)
            else {
                return nil
            }
            return [NaiveQuestionKind(request: .accommodateSubitemDeletion, subitem: part.item)]
        case .below:
            // B2, P17: a presenter of an item below a directory is asked for a batch, which only asks presenters. It is also
            // asked if the directory is deleted, moved or replaced. For packages, and for directories in packages, it is asked
            // about every access.
            if claim.nature == .batch { return itemAsks(part.access, nil) }
            let isInPackage = outermostPackage(of: part.item, at: part.place) != nil
            guard part.access.isStructural || isInPackage else { return nil }
            let asks = itemAsks(part.access, nil)
            return asks.filter { $0.request != .save }
        }
    }

    /// P2: the questions that follow from the kind of access.
    private func itemAsks(_ access: Access, _ subitem: ItemID?) -> [NaiveQuestionKind] {
        let reader = NaiveQuestionKind(request: .relinquishToReader, subitem: nil)
        let writer = NaiveQuestionKind(request: .relinquishToWriter, subitem: nil)
        let save = NaiveQuestionKind(request: .save, subitem: nil)
        switch access {
        case .read(let options): return options.contains(.withoutChanges) ? [reader] : [reader, save]
        case .write(.forMerging): return [writer, save]
        case .write(.forDeleting), .write(.forReplacing):
            let request: PresenterRequest =
                subitem == nil ? .accommodateDeletion : .accommodateSubitemDeletion
            return [writer, NaiveQuestionKind(request: request, subitem: subitem)]
        case .write: return [writer]
        }
    }

    /// Whether a presenter shows an item of a claim, or a package that contains the item.
    func isNotified(_ presenter: NaivePresenter, _ claim: Int) -> Bool {
        claims[claim].parts.contains { part in
            let position = position(of: presenter, for: part)
            return position == .same || position == .packageAbove
        }
    }

    /// The parts of a claim that concern a presenter.
    func parts(of claim: Int, concerning presenter: NaivePresenter) -> [ClaimRequest.Part] {
        claims[claim].parts.filter { asks($0, of: presenter, in: claims[claim]) != nil }
    }

    /// P20: whether any part of the claim that concerns the presenter is a write; nil if no part concerns the presenter.
    func writes(_ claim: Int, to presenter: NaivePresenter) -> Bool? {
        let parts = parts(of: claim, concerning: presenter)
        return parts.isEmpty ? nil : parts.contains { $0.access.isWrite }
    }

    /// The questions that a claim needs from a presenter, each with the access that needs it. Questions to relinquish come
    /// first.
    func wanted(by index: Int, of presenter: NaivePresenter, for party: Party) -> [(
        NaiveQuestionKind, Access
    )] {
        let claim = claims[index]
        // A presenter is not asked about accesses of its own program (P5), after three forfeits (P8), or while it is muted
        // (N15).
        if presenter.isSpared(party) || presenter.isDemoted || presenter.isMuted { return [] }
        return wanted(by: claim.parts, of: claim, of: presenter, for: party)
    }

    /// P12: the presented items that a claim writes without a question to the presenter, because the presenter forfeited
    /// questions before (P7, P8).
    ///
    /// If an item was not asked about because of P15, it is included if the presenter did not agree to the access around the
    /// claim.
    func unaskedWrites(
        by index: Int, _ presenter: NaivePresenter, _ party: Party
    ) -> [(PresenterID, ItemID)] {
        if presenter.isOwn(party) || presenter.isSpared(party) || presenter.isMuted { return [] }
        let claim = claims[index]
        let isLeftAlone = presenter.isDemoted || isExcused(party, presenter)
        let written = claim.parts.filter { part in
            guard part.access.isWrite, position(of: presenter, for: part) != .directoryAbove,
                asks(part, of: presenter, in: claim) != nil
            else { return false }
            if isLeftAlone, !wanted(by: [part], of: claim, of: presenter, for: party).isEmpty { return true }
            return hasNotConsented(claim, part, presenter, party)
        }
        return written.map { (presenter.id, $0.item) }
    }

    private func hasNotConsented(
        _ claim: NaiveClaim, _ part: ClaimRequest.Part, _ presenter: NaivePresenter, _ party: Party
    ) -> Bool {
        let isCreation = claim.nature == .handle && part.access == .write(.forReplacing)
        if claim.isOfSocket || isCreation { return false }
        let outer = accesses(around: claim, presenter, party)
        return accessSessions.contains { accessSession in
            accessSession.presenter == presenter.id && accessSession.isWriting
                && (accessSession.isRefused || accessSession.isForfeited || isOpen(accessSession))
                && outer.contains { $0.accessSessions.contains(accessSession.id) }
        }
    }

    private func wanted(
        by parts: [ClaimRequest.Part], of claim: NaiveClaim, of presenter: NaivePresenter, for party: Party
    ) -> [(NaiveQuestionKind, Access)] {
        var wanted: [(NaiveQuestionKind, Access)] = []
        for part in parts {
            for ask in asks(part, of: presenter, in: claim) ?? [] {
                // P10: a read by a background program or a watcher without the socket does not make a presenter save.
                let isQuiet =
                    !part.access.isWrite && party.programClass != .ordinary && !claim.isOfSocket
                if isQuiet, ask.request == .save { continue }
                // P25: the presenter's own program waits for this reader. So the reader does not make the presenter save.
                if ask.request == .save, !part.access.isWrite, holdsUp(party, presenter) { continue }
                if isSettled(ask, of: presenter, party, claim) { continue }
                if ask.request.isDeletion, isMovedInstead(part, party, claim) { continue }
                // P26: a presenter of a directory is not asked about a name in it before it was told of this name.
                let name = NaiveName(part.place, part.item)
                if ask.subitem != nil, isUnreported(name, to: presenter.id) { continue }
                if presenter.implements(ask.request), !wanted.contains(where: { $0.0 == ask }) {
                    wanted.append((ask, part.access))
                }
            }
        }
        // P20: if a claim needs both questions to relinquish, the presenter is asked only to relinquish to a writer.
        if wanted.contains(where: { $0.0.request == .relinquishToWriter }) {
            wanted.removeAll { $0.0.request == .relinquishToReader }
        }
        // P3: questions to relinquish come first, then questions to save, then questions about a deletion.
        return wanted.filter { $0.0.request.isRelinquishment } + wanted.filter { $0.0.request == .save }
            + wanted.filter { $0.0.request.isDeletion }
    }

    /// P15: whether a question is omitted, because the claim was made within an aware access that its program holds.
    private func isSettled(
        _ ask: NaiveQuestionKind, of presenter: NaivePresenter, _ party: Party, _ claim: NaiveClaim
    ) -> Bool {
        let outer = accesses(around: claim, presenter, party)
        if ask.request == .save { return !outer.isEmpty }
        guard ask.request.isRelinquishment, !claim.isOfSocket else { return false }
        return accessSessions.contains { accessSession in
            accessSession.presenter == presenter.id
                && outer.contains { $0.accessSessions.contains(accessSession.id) }
                && (accessSession.asked.contains(ask) || isCovered(ask, in: accessSession))
        }
    }

    /// P15: the aware accesses that the same program holds, and that would keep a write of the presented item waiting.
    private func accesses(
        around claim: NaiveClaim, _ presenter: NaivePresenter, _ party: Party
    ) -> [NaiveClaim] {
        guard let item = presenter.item else { return [] }
        return claims.filter { other in
            other.nature == .aware && other.isHeld && other.id != claim.id
                && (other.party?.isExempt(from: party) ?? false)
                && wouldMeet(item, presenter.place, other)
        }
    }

    /// P15: whether the question about a deletion is omitted, because the same program holds an aware access that can still
    /// move the item.
    private func isMovedInstead(_ part: ClaimRequest.Part, _ party: Party, _ claim: NaiveClaim) -> Bool {
        if claim.isOfSocket || part.access != .write(.forDeleting) { return false }
        let moving: [Access] = [.write(.updating), .write(.forMerging), .write(.forMoving)]
        return claims.contains { other in
            other.nature == .aware && other.isHeld && !other.isFullySuspended
                && (other.party?.isExempt(from: party) ?? false)
                && other.parts.contains { $0.item == part.item && moving.contains($0.access) }
        }
    }

    /// P12: the presenters that a claim would have asked if its time to wait had not ended before.
    func wouldBeAsked(by index: Int) -> [PresenterID] {
        let party = claims[index].party ?? .nobody
        return presenters.filter { presenter in
            !wanted(by: index, of: presenter, for: party).isEmpty && !isExcused(party, presenter)
        }
        .map(\.id)
    }

    /// P7: whether a process's claims ask the presenter nothing, because it forfeited a question of this process a short time
    /// ago.
    func isExcused(_ party: Party, _ presenter: NaivePresenter) -> Bool {
        guard let process = party.process, let last = presenter.excused[process] else { return false }
        return now.since(last) <= bounds.excused
    }
}
