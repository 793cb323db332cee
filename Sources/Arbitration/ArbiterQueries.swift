// SPDX-License-Identifier: Apache-2.0
public import Coordination

/// Queries for the engine and for the status output. No query changes the state.
extension Arbiter {
    /// Whether a presenter is registered, or an access over the control socket exists.
    public var hasAwareClients: Bool { !registry.isEmpty || !claims.aware.isEmpty }

    public func isPresented(_ item: ItemID) -> Bool { registry.presented[item] != nil }

    /// Whether a party works for a presenter of the item, for example as a child process of the presenter.
    public func isPresented(_ item: ItemID, by party: Party) -> Bool {
        (registry.presented[item] ?? []).contains { id in
            registry.records[id].map { party.works(for: $0.presenter.party) } ?? false
        }
    }

    /// Whether any item that is directly in the directory is presented.
    public func isAnythingPresented(in directory: ItemID) -> Bool { registry.byDirectory[directory] != nil }

    /// Whether the arbiter was told that the item is a directory, and not yet that the directory is gone.
    public func isDirectory(_ item: ItemID) -> Bool { tree.isDirectory(item) }

    /// Whether the arbiter was told that the item is a package, and not yet that the package is gone.
    public func isPackage(_ item: ItemID) -> Bool { tree.isPackage(item) }

    /// S2: Whether an item is a package or is inside a package.
    public func isInPackage(_ item: ItemID, at place: Place) -> Bool {
        tree.outermostPackage(of: item, at: place) != nil
    }

    /// Y6, Y10: How long a held claim may make other claims wait.
    public func longestHold(of id: ClaimID) -> TimeSpan { claims[id].map(longestHold) ?? bounds.hold }

    /// P6: Whether a party works for a presenter of the item that has not answered all its questions.
    public func owesAnswer(_ party: Party, about item: ItemID) -> Bool {
        guard registry.owesAnyAnswer(party) else { return false }
        return (registry.presented[item] ?? []).contains { id in
            guard let record = registry.records[id] else { return false }
            return registry.hasOpenQuestions(id) && party.works(for: record.presenter.party)
        }
    }

    /// P5: The aware write that an access by a party without a purpose belongs to; nil if there is none.
    ///
    /// The party, or an ancestor of the party, holds the aware write. Presenters are told of the party's access as a
    /// part of that write.
    ///
    /// The latest aware write of the item itself is preferred. If there is none, and all aware writes of the party have
    /// the same purpose, the latest of these writes is returned.
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

    /// P15: Whether the program of an aware access can still announce the move of an item that the program has deleted
    /// within the access.
    public func mayMove(_ claim: ClaimID, _ item: ItemID) -> Bool {
        guard let access = claims[claim], access.nature == .aware, access.isHeld, !access.isFullySuspended
        else { return false }
        return access.firstOfParts { $0.item == item && $0.access.mayMove ? true : nil } ?? false
    }

    /// The handles that the program of an aware access, or a child of the program, opened within the access and has
    /// not closed.
    ///
    /// Presenters receive the reacquire only after these handles are closed (N3), because the program can still write
    /// through the handles. The oldest handle comes first.
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
            // A handle that was opened before the access began is not part of the access.
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

    /// Whether a claim writes the item, an item in the item's package, or the whole of a directory above the item.
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

    /// The oldest claims on an item, held and waiting, in the order of their numbers.
    ///
    /// If the item is a package, or a directory that a claim is about to delete or move, claims on items in it are
    /// included.
    public func claims(on item: ItemID, atMost limit: Int = .max) -> [ClaimID] {
        let lockQueues = [locks[.item(item)], locks[.contents(of: item)]].compactMap { $0 }
        let queues = lockQueues.flatMap { lockQueue in
            [lockQueue.held, lockQueue.waiting].flatMap { [$0.readers, $0.writers] }
        }
        return Array(Set(queues.flatMap { $0.prefix(limit) }).sorted().prefix(limit))
    }

    public func presenters(of item: ItemID) -> [PresenterID] { registry.presented[item] ?? [] }

    /// The unanswered questions for which a claim waits, the oldest first.
    public func openQuestions(for claim: ClaimID) -> [Question] {
        let accessSessions = registry.consultations[claim]?.accessSessions ?? []
        return accessSessions.compactMap {
            registry.accessSessions[$0]?.question.flatMap { registry.questions[$0] }
        }.sorted {
            $0.id < $1.id
        }
    }

    /// The unanswered questions to a presenter, the oldest first.
    public func openQuestions(of presenter: PresenterID) -> [Question] {
        registry.records[presenter]?.questions.compactMap { registry.questions[$0] } ?? []
    }

    public func question(_ id: QuestionID) -> Question? { registry.questions[id] }

    /// The party of a claim; nil if the claim is not identified.
    public func party(of claim: ClaimID) -> Party? { families.party(of: claim) }

    /// The start of a holder's contention, and one claim that waits for the holder. Nil if no claim waits for the
    /// holder.
    public func contention(of holder: ClaimID) -> (since: Instant, blockedClaim: ClaimID)? {
        contentions[holder].flatMap { contention in contention.blockedClaim.map { (contention.since, $0) } }
    }

    /// Whether a claim waits for a holder, or a presenter has relinquished its item to the holder.
    public func isContended(_ holder: ClaimID) -> Bool { contentions[holder] != nil }

    public func onlyReads(_ claim: ClaimID) -> Bool { claims[claim]?.onlyReads ?? false }

    public func isDemoted(_ presenter: PresenterID) -> Bool {
        registry.records[presenter]?.isDemoted ?? false
    }

    public func suspension(of claim: ClaimID) -> Suspension? { claims[claim]?.suspension }
}

extension Arbiter {
    /// Whether no record of a claim, question or access session is left. This must be so when all of them have ended.
    public var isAtRest: Bool {
        claims.isEmpty && locks.isEmpty && waits.isEmpty && contentions.isEmpty && families.isEmpty
            && registry.isAtRest
            && waits.countOfWatched == 0 && waitForGraph.isEmpty
    }

    /// The number of all records in the arbiter. It is 0 when all claims have ended, all presenters are removed and
    /// all directories are forgotten.
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

    /// The items of a claim, in the order of the claim's parts.
    public func items(of claim: ClaimID) -> [ItemID] {
        var items: [ItemID] = []
        claims[claim]?.forEachPart { items.append($0.item) }
        return items
    }
}

/// The resource for which two claims compete, because they are incompatible there.
public enum ClaimConflict: Hashable, Sendable {
    case item(ItemID)
    /// Both claims access this package, or items in this package.
    case package(ItemID)
    /// One claim deletes, moves or replaces this directory, and the other accesses an item below the directory.
    case contents(of: ItemID)
}

/// The claim, or the questions, for which a refused claim waited until its refusal.
public struct LastWait: Sendable {
    public let blocker: ClaimID?
    /// The unanswered questions, the oldest first.
    public let questions: [Question]
}

extension Arbiter {
    /// The first resource for which two claims compete; nil if they do not compete.
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

    /// D1: The waiting claims that presenters made in order to answer a question.
    public func answerers(of question: QuestionID) -> [ClaimID] {
        waitForGraph.claims(answering: question).filter { waits.contains($0) }.sorted()
    }

    /// The blocker or the questions for which a claim waited; nil if the last event has not refused the claim.
    public func lastWait(of claim: ClaimID) -> LastWait? { waits.lastWait(of: claim) }

    /// S6: Whether a held or waiting aware access is about to replace an item.
    ///
    /// Such an access stays with the name if the item is moved away, because it replaces any item that has the name.
    public func awaitsReplacement(_ item: ItemID) -> Bool {
        if claims.aware.isEmpty { return false }
        return allClaims(on: item).contains { id in
            guard claims.aware.contains(id), let claim = claims[id] else { return false }
            return claim.firstOfParts { $0.item == item && $0.access == .write(.forReplacing) ? true : nil }
                != nil
        }
    }

    /// P18: Whether any presenter of a directory above an item must be asked before a party deletes the item.
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
                // P7, P8, P26: A presenter is not asked soon after it forfeited a question for this party, after three
                // forfeits in a row, or about an unknown name.
                return isConcerned && !record.isLeftAlone && !isExcused(party, by: id)
                    && !registry.isUnreported(name, to: id)
            }
        }
    }

    /// Whether any presenter would be told of an event of an item: a presenter of the item, or of an item above or
    /// below.
    public func hasInterestedPresenter(of item: ItemID, at place: Place) -> Bool {
        if registry.isEmpty { return false }
        if registry.presented[item] != nil || tree.presentersBelow(item) > 0 { return true }
        return tree.ancestors(of: item, at: place).contains { registry.presented[$0] != nil }
    }

    /// Whether a party works for a presenter that would be told of an event of an item.
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
    /// P15: Whether a program is allowed to move an item within this access.
    fileprivate var mayMove: Bool {
        self == .write(.updating) || self == .write(.forMerging) || self == .write(.forMoving)
    }
}
