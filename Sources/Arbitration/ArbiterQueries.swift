// SPDX-License-Identifier: Apache-2.0
public import Coordination

/// Queries of the state for the engine and for the status output; none of them changes anything.
extension Arbiter {
    /// Whether there is a presenter, or a claim over the control socket.
    public var hasAwareClients: Bool { !registry.isEmpty || !claims.aware.isEmpty }

    public func isPresented(_ item: ItemID) -> Bool { registry.presented[item] != nil }

    /// Whether a party works for a presenter of an item.
    public func isPresented(_ item: ItemID, by party: Party) -> Bool {
        (registry.presented[item] ?? []).contains { id in
            registry.records[id].map { party.works(for: $0.presenter.party) } ?? false
        }
    }

    /// Whether an item in a directory is presented.
    public func isAnythingPresented(in directory: ItemID) -> Bool { registry.byDirectory[directory] != nil }

    /// Whether an item was placed as a directory and not forgotten.
    public func isDirectory(_ item: ItemID) -> Bool { tree.isDirectory(item) }

    /// Whether an item was placed as a package and not forgotten.
    public func isPackage(_ item: ItemID) -> Bool { tree.isPackage(item) }

    /// Whether an item is a package or is in one (S2).
    public func isInPackage(_ item: ItemID, at place: Place) -> Bool {
        tree.outermostPackage(of: item, at: place) != nil
    }

    /// Whether a party works for a presenter of an item that has open questions (P6).
    public func owesAnswer(_ party: Party, about item: ItemID) -> Bool {
        guard registry.owesAnyAnswer(party) else { return false }
        return (registry.presented[item] ?? []).contains { id in
            guard let record = registry.records[id] else { return false }
            return registry.hasOpenQuestions(id) && party.works(for: record.presenter.party)
        }
    }

    /// The aware write to which an access of a party without a purpose belongs.
    ///
    /// The write is the party's own, or one of its ancestors'. Presenters take the event for part of that write (P5).
    ///
    /// The latest aware write of the item itself comes first. Otherwise it is the latest of all, if all have one purpose: a
    /// program may save through another file, made beside the first.
    public func enclosingWrite(
        of party: Party, on item: ItemID, at place: Place
    ) -> (claim: ClaimID, by: Party)? {
        if claims.aware.isEmpty || party.purpose != nil { return nil }
        var (writer, latest): ((claim: ClaimID, by: Party)?, (claim: ClaimID, by: Party)?)
        var isOnePurpose = true
        for id in claims.aware {
            guard let claim = claims[id], claim.isHeld, !claim.onlyReads, let owner = families.party(of: id),
                owner.includes(party)
            else { continue }
            if isWritten(item, at: place, by: claim) { writer = Self.later(writer, (id, owner)) }
            if let known = latest { isOnePurpose = isOnePurpose && known.by.purpose == owner.purpose }
            latest = Self.later(latest, (id, owner))
        }
        return writer ?? (isOnePurpose ? latest : nil)
    }

    /// P15: whether an aware access may still move an item that was deleted within it.
    public func mayMove(_ claim: ClaimID, _ item: ItemID) -> Bool {
        guard let access = claims[claim], access.nature == .aware, access.isHeld, !access.isFullySuspended
        else { return false }
        return access.firstOfParts { $0.item == item && $0.access.mayMove ? true : nil } ?? false
    }

    /// The open handles of an aware access's program or its children that were opened within that access.
    ///
    /// Presenters may reacquire only after these handles are closed, too (N3), or receive what was written through them
    /// (N1). The oldest handle comes first.
    public func handles(within claim: ClaimID) -> [ClaimID] {
        guard !registry.isEmpty, let access = claims[claim], access.nature == .aware,
            let owner = families.party(of: claim)
        else { return [] }
        var beside: Set<ClaimID> = []
        access.forEachPart { part in
            guard part.access.isWrite, let lockQueue = locks[.item(part.item)] else { return }
            beside.formUnion(lockQueue.held.writers)
        }
        for accessSession in registry.consultations[claim]?.accessSessions ?? [] {
            beside.formUnion(registry.accessSessions[accessSession]?.members ?? [])
        }
        return beside.filter { id in
            // A handle that was opened before the access is not part of it.
            guard id > claim, let other = claims[id], other.nature == .handle, other.isHeld,
                other.suspension == nil, let party = families.party(of: id)
            else { return false }
            return owner.includes(party)
        }.sorted()
    }

    private static func later(
        _ known: (claim: ClaimID, by: Party)?, _ other: (claim: ClaimID, by: Party)
    ) -> (claim: ClaimID, by: Party) {
        guard let known, known.claim > other.claim else { return other }
        return known
    }

    /// Whether a claim writes an item, anything in the same package, or a directory above it.
    private func isWritten(_ item: ItemID, at place: Place, by claim: Claim) -> Bool {
        claim.firstOfParts { part in
            guard part.access.isWrite else { return nil }
            if part.item == item { return true }
            if let outermostPackage = tree.outermostPackage(of: item, at: place),
                outermostPackage == tree.outermostPackage(of: part.item, at: part.place)
            {
                return true
            }
            let isAbove = part.access.isStructural && tree.ancestors(of: item, at: place).contains(part.item)
            return isAbove ? true : nil
        } ?? false
    }

    /// The oldest live claims on an item, held and waiting, in the order of their numbers.
    ///
    /// For a package, and for a directory that is to be deleted or moved, claims on items in it are included.
    public func claims(on item: ItemID, atMost limit: Int = .max) -> [ClaimID] {
        let lockQueues = [locks[.item(item)], locks[.contents(of: item)]].compactMap { $0 }
        let queues = lockQueues.flatMap { lockQueue in
            [lockQueue.held, lockQueue.waiting].flatMap { [$0.readers, $0.writers] }
        }
        return Array(Set(queues.flatMap { $0.prefix(limit) }).sorted().prefix(limit))
    }

    public func presenters(of item: ItemID) -> [PresenterID] { registry.presented[item] ?? [] }

    /// The open questions for which a waiting claim waits, the oldest first.
    public func openQuestions(for claim: ClaimID) -> [Question] {
        let accessSessions = registry.consultations[claim]?.accessSessions ?? []
        return accessSessions.compactMap {
            registry.accessSessions[$0]?.question.flatMap { registry.questions[$0] }
        }.sorted {
            $0.id < $1.id
        }
    }

    /// The open questions of a presenter, the oldest first.
    public func openQuestions(of presenter: PresenterID) -> [Question] {
        registry.records[presenter]?.questions.compactMap { registry.questions[$0] } ?? []
    }

    public func question(_ id: QuestionID) -> Question? { registry.questions[id] }

    /// The party of a claim; nil if it is not identified.
    public func party(of claim: ClaimID) -> Party? { families.party(of: claim) }

    /// Since when a holder is contended, and one claim that it blocks.
    public func contention(of holder: ClaimID) -> (since: Instant, blockedClaim: ClaimID)? {
        contentions[holder].flatMap { contention in contention.blockedClaim.map { (contention.since, $0) } }
    }

    /// Whether a claim waits for a holder, or a presenter that has relinquished to it.
    public func isContended(_ holder: ClaimID) -> Bool { contentions[holder] != nil }

    public func onlyReads(_ claim: ClaimID) -> Bool { claims[claim]?.onlyReads ?? false }

    public func isDemoted(_ presenter: PresenterID) -> Bool {
        registry.records[presenter]?.isDemoted ?? false
    }

    public func suspension(of claim: ClaimID) -> Suspension? { claims[claim]?.suspension }
}

extension Arbiter {
    /// Whether no record of a claim, question or access session is left, as it must be when all have ended.
    public var isAtRest: Bool {
        claims.isEmpty && locks.isEmpty && waits.isEmpty && contentions.isEmpty && families.isEmpty
            && registry.isAtRest
            && waits.countOfWatched == 0 && waitForGraph.isEmpty
    }

    /// The number of all records: 0 when all claims ended, all presenters are removed and all directories are forgotten.
    public var remembered: Int {
        let ofClaims =
            claims.count + locks.count + waits.count + waits.countOfWatched + contentions.count
            + families.count
        let indexes =
            families.countOfIndexes + waitForGraph.count + waits.countOfIndexes + claims.countOfIndexes
        let ofPresenters =
            registry.records.count + registry.presented.count + registry.byDirectory.count
            + registry.accessSessions.count
            + registry.records.values.reduce(0) {
                $0 + $1.unaskedWrites.count + $1.excused.count + $1.savesAsked.count
            }
            + registry.questions.count + registry.consultations.count + registry.openQuestionCounts.count
            + registry.agreeingToDeletions
            + registry.pauses.count + registry.mutes.count + registry.mutedRepresentatives.count
            + registry.guestWaiters.count
        return ofClaims + indexes + ofPresenters + clock.count + tree.count
    }

    /// The items of a live claim, in the order of its parts.
    public func items(of claim: ClaimID) -> [ItemID] {
        var items: [ItemID] = []
        claims[claim]?.forEachPart { items.append($0.item) }
        return items
    }
}

/// The resource on which two claims meet.
public enum ClaimConflict: Hashable, Sendable {
    case item(ItemID)
    /// An item in this package, or the package itself.
    case package(ItemID)
    /// An item below this directory.
    case contents(of: ItemID)
}

/// The claim or questions that a claim waited for when it was refused.
public struct LastWait: Sendable {
    public let blocker: ClaimID?
    /// The open questions, the oldest first.
    public let questions: [Question]
}

extension Arbiter {
    /// The first resource on which two claims meet; nil if they do not meet.
    public func conflict(of claim: ClaimID, with other: ClaimID) -> ClaimConflict? {
        guard let claim = claims[claim], let other = claims[other] else { return nil }
        return claim.firstOfRequiredLocks { lock -> ClaimConflict? in
            guard let isWriting = other.isWriting(lock.resource), isWriting || lock.isWrite else {
                return nil
            }
            let item = lock.resource.item
            if lock.resource.isContents { return .contents(of: item) }
            let isOfBoth = [claim, other].allSatisfy {
                $0.firstOfParts { $0.item == item ? true : nil } ?? false
            }
            return isOfBoth ? .item(item) : .package(item)
        }
    }

    /// The waiting claims that were made to answer a question (D1).
    public func answerers(of question: QuestionID) -> [ClaimID] {
        waitForGraph.claims(answering: question).filter { waits.contains($0) }.sorted()
    }

    /// What a claim waited for that the last event refused.
    public func lastWait(of claim: ClaimID) -> LastWait? { waits.lastWait(of: claim) }

    /// Whether an aware access is about to replace an item, held or waiting.
    ///
    /// Such an access is meant for the name and stays with the name (S6).
    public func awaitsReplacement(_ item: ItemID) -> Bool {
        if claims.aware.isEmpty { return false }
        return allClaims(on: item).contains { id in
            guard claims.aware.contains(id), let claim = claims[id] else { return false }
            return claim.firstOfParts { $0.item == item && $0.access == .write(.forReplacing) ? true : nil }
                != nil
        }
    }

    /// P18: whether a presenter of a directory above would be asked if a party deleted an item.
    public func mustAskPresentersAbove(aboutDeletionOf item: ItemID, at place: Place, by party: Party) -> Bool
    {
        guard registry.agreeingToDeletions > 0 else { return false }
        let name = NameKey(item, at: place)
        return tree.ancestors(of: item, at: place).contains { directory in
            (registry.presented[directory] ?? []).contains { id in
                guard let record = registry.records[id],
                    record.presenter.messages.contains(.accommodateSubitemDeletion)
                else { return false }
                let isConcerned =
                    !isOwn(party, record.presenter.party) && !isSpared(record.presenter.party, by: party)
                // P7, P8, P26.
                return isConcerned && !record.isLeftAlone && !isExcused(party, by: id)
                    && !registry.isUnreported(name, to: id)
            }
        }
    }

    /// Whether any presenter would receive an event of an item: a presenter of the item, above it or below it.
    public func hasInterestedPresenter(of item: ItemID, at place: Place) -> Bool {
        if registry.isEmpty { return false }
        if registry.presented[item] != nil || tree.presentersBelow(item) > 0 { return true }
        return tree.ancestors(of: item, at: place).contains { registry.presented[$0] != nil }
    }

    /// Whether a party works for a presenter that would receive an event of an item.
    public func hasInterestedPresenter(of item: ItemID, at place: Place, by party: Party) -> Bool {
        if registry.isEmpty { return false }
        let isPartys = { (id: PresenterID) in
            registry.records[id].map { party.works(for: $0.presenter.party) } ?? false
        }
        return (registry.presented[item] ?? []).contains(where: isPartys)
            || tree.ancestors(of: item, at: place).contains { directory in
                (registry.presented[directory] ?? []).contains(where: isPartys)
            }
    }
}

extension Access {
    /// P15.
    fileprivate var mayMove: Bool {
        self == .write(.updating) || self == .write(.forMerging) || self == .write(.forMoving)
    }
}
