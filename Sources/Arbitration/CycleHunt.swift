// SPDX-License-Identifier: Apache-2.0
import Coordination

/// What a search for cycles leaves to the next one, if it could not look at all (D5).
struct CycleAgenda: Sendable {
    /// Where the next search begins: with which user, and of each user with which claim.
    struct Place: Sendable {
        fileprivate(set) var user: CycleHunt.User?
        fileprivate(set) var claims: [CycleHunt.User: ClaimID] = [:]
    }

    fileprivate(set) var small = Place()
    fileprivate(set) var large = Place()
    /// The claims that need more steps than each claim has at first.
    fileprivate(set) var needMore: Set<ClaimID> = []
}

/// Goes from one claim on which something hangs to the next (D5).
///
/// Each has so many steps at first, and a quarter of all steps is left to the claims that need more. Users take turns in both, so the
/// claims of one user do not keep another user's from being looked at. What is found is kept, though not all were looked at.
struct CycleHunt {
    /// -1 if the user is not known.
    typealias User = Int64

    private struct Turn {
        let user: User
        let claim: ClaimID
    }

    /// What was looked at before.
    private struct Surveys {
        var common: CycleSurvey
        /// Of users whose claims need more. What was left half-way counts as looked at, and must not for another user's claims.
        var own: [User: CycleSurvey] = [:]
    }

    private let ground: CycleGround
    private var found: [CycleSearch.Cycle] = []
    private(set) var agenda: CycleAgenda
    private(set) var isComplete = false

    init(on ground: CycleGround, after agenda: CycleAgenda) {
        self.ground = ground
        self.agenda = agenda
    }

    /// D2: of those that were found, the one through the lowest claim first.
    var cycles: [CycleSearch.Cycle] { found.sorted { $0[0].waiting < $1[0].waiting } }

    mutating func search(from roots: Set<ClaimID>) {
        guard ground.mayTake(roots.count / 16) else { return }
        agenda.needMore.formIntersection(roots)
        var small = inTurn(roots.subtracting(agenda.needMore), from: agenda.small)[...]
        var surveys = Surveys(common: CycleSurvey(on: ground))
        searchSmall(&small, &surveys, leaving: ground.left / 4)
        searchLarge()
        searchSmall(&small, &surveys, leaving: 0)
        agenda.small = place(before: small)
        isComplete = small.isEmpty && agenda.needMore.isEmpty
        if isComplete { agenda = CycleAgenda() }
    }

    /// Looks at claims in turn, until so many steps are left.
    private mutating func searchSmall(
        _ turns: inout ArraySlice<Turn>, _ surveys: inout Surveys, leaving reserve: Int
    ) {
        let most = ground.arbiter.crowd.stepsOfRoot
        while let turn = turns.first, ground.left > reserve {
            let before = ground.steps
            ground.allow(most)
            if !look(in: turn, &surveys) {
                // One that did not have all its steps is the first in the next search.
                if ground.steps - before < most { return }
                agenda.needMore.insert(turn.claim)
            }
            turns.removeFirst()
        }
    }

    private mutating func look(in turn: Turn, _ surveys: inout Surveys) -> Bool {
        guard var survey = surveys.own.removeValue(forKey: turn.user) else {
            if look(from: turn.claim, &surveys.common) { return true }
            surveys.own[turn.user] = surveys.common
            surveys.common = CycleSurvey(on: ground)
            return false
        }
        defer { surveys.own[turn.user] = survey }
        return look(from: turn.claim, &survey)
    }

    /// Each user but the last has half of what is left. In the next search another user is the first.
    private mutating func searchLarge() {
        let users = byUser(agenda.needMore, from: agenda.large)
        if users.isEmpty || ground.left <= 0 { return }
        var place = CycleAgenda.Place(user: users.dropFirst().first?.user)
        for (index, (user, claims)) in users.enumerated() {
            let share = index < users.count - 1 ? ground.left / 2 : ground.left
            place.claims[user] = share > 0 ? searchLarge(claims, taking: share) : claims.first
        }
        agenda.large = place
    }

    /// Returns with which of these the next search begins.
    private mutating func searchLarge(_ claims: [ClaimID], taking share: Int) -> ClaimID? {
        ground.allow(share)
        var survey = CycleSurvey(on: ground)
        for (index, claim) in claims.enumerated() {
            if look(from: claim, &survey) {
                agenda.needMore.remove(claim)
                continue
            }
            // One that was the first, and had no little share, has its next turn after the others.
            let isOver = index == 0 && share > ground.arbiter.crowd.stepsOfRoot
            return isOver ? claims.dropFirst().first : claim
        }
        return nil
    }

    /// Returns whether all was looked at that is reached from a claim.
    private mutating func look(from root: ClaimID, _ survey: inout CycleSurvey) -> Bool {
        let (sets, isComplete) = survey.entangled(from: root)
        for claims in sets {
            if let cycle = CycleSearch(among: claims, on: ground).first() { found.append(cycle) }
        }
        return isComplete && !ground.isSpent
    }

    /// The first claim of each user, then the second of each, and so on.
    private func inTurn(_ claims: Set<ClaimID>, from place: CycleAgenda.Place) -> [Turn] {
        var turns: [Turn] = []
        var (users, round) = (byUser(claims, from: place), 0)
        while !users.isEmpty {
            turns += users.map { Turn(user: $0.user, claim: $0.claims[round]) }
            round += 1
            users.removeAll { $0.claims.count == round }
        }
        return turns
    }

    private func place(before turns: ArraySlice<Turn>) -> CycleAgenda.Place {
        var place = CycleAgenda.Place(user: turns.first?.user)
        for turn in turns.reversed() { place.claims[turn.user] = turn.claim }
        return place
    }

    private func byUser(
        _ claims: Set<ClaimID>, from place: CycleAgenda.Place
    ) -> [(user: User, claims: [ClaimID])] {
        if claims.isEmpty { return [] }
        let sorted = Dictionary(grouping: claims.sorted()) { claim in
            ground.arbiter.parties[claim]?.user.map { User($0) } ?? -1
        }
        return sorted.keys.sorted().beginning(with: place.user).map { user in
            (user, (sorted[user] ?? []).beginning(with: place.claims[user]))
        }
    }
}

extension Array where Element: Comparable {
    /// Of a sorted array the elements from one on, and then those before it.
    fileprivate func beginning(with start: Element?) -> Self {
        let first = start.flatMap { start in firstIndex { $0 >= start } } ?? 0
        return Array(self[first...] + self[..<first])
    }
}
