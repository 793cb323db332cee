// SPDX-License-Identifier: Apache-2.0
import Coordination

/// D5: The part of a search for cycles that is left to the next search, because all steps of this search were used up.
struct CycleSearchBacklog: Sendable {
    /// The start of the next search: the first user, and the first claim of each user.
    struct StartingPoint: Sendable {
        fileprivate(set) var user: CycleScheduler.User?
        fileprivate(set) var claims: [CycleScheduler.User: ClaimID] = [:]
    }

    fileprivate(set) var small = StartingPoint()
    fileprivate(set) var large = StartingPoint()
    /// The claims for which a search needs more steps than each claim gets at first.
    fileprivate(set) var unfinished: Set<ClaimID> = []
}

/// D5: Searches for cycles from one claim after another.
///
/// Each claim gets a limited number of steps. A quarter of all steps is reserved for claims that need more than this
/// number. The users take turns, so that the claims of one user do not use up all steps. An incomplete search also
/// returns the cycles that it has found.
struct CycleScheduler {
    /// A user id, or -1 if the user is not known.
    typealias User = Int64

    private struct SearchTask {
        let user: User
        let claim: ClaimID
    }

    /// The searches of one run. Each search stores which claims it has visited.
    private struct Surveys {
        var common: CycleCandidateSearch
        /// A separate search for each user with a claim that needs more steps.
        ///
        /// A search that runs out of steps has marked claims as visited, but has not visited all claims that they lead
        /// to. A shared search would then miss cycles of other users.
        var own: [User: CycleCandidateSearch] = [:]
    }

    private let graph: WaitForGraphView
    private var found: [CycleFinder.Cycle] = []
    private(set) var backlog: CycleSearchBacklog
    private(set) var isComplete = false

    init(on graph: WaitForGraphView, after backlog: CycleSearchBacklog) {
        self.graph = graph
        self.backlog = backlog
    }

    /// D2: The cycles that were found, in the order of the lowest claims in them.
    var cycles: [CycleFinder.Cycle] { found.sorted { $0[0].waiting < $1[0].waiting } }

    mutating func search(from roots: Set<ClaimID>) {
        guard graph.mayTake(roots.count / 16) else { return }
        backlog.unfinished.formIntersection(roots)
        var small = inTurn(roots.subtracting(backlog.unfinished), from: backlog.small)[...]
        var surveys = Surveys(common: CycleCandidateSearch(on: graph))
        searchSmall(&small, &surveys, leaving: graph.left / 4)
        searchLarge()
        searchSmall(&small, &surveys, leaving: 0)
        backlog.small = place(before: small)
        isComplete = small.isEmpty && backlog.unfinished.isEmpty
        if isComplete { backlog = CycleSearchBacklog() }
    }

    /// Searches from one claim after another until only `reserve` steps are left.
    private mutating func searchSmall(
        _ tasks: inout ArraySlice<SearchTask>, _ surveys: inout Surveys, leaving reserve: Int
    ) {
        let most = graph.arbiter.limits.stepsPerRoot
        while let task = tasks.first, graph.left > reserve {
            let before = graph.steps
            graph.allow(most)
            if !explore(in: task, &surveys) {
                // If fewer steps were left than each claim gets, the next search begins with this claim.
                if graph.steps - before < most { return }
                backlog.unfinished.insert(task.claim)
            }
            tasks.removeFirst()
        }
    }

    private mutating func explore(in task: SearchTask, _ surveys: inout Surveys) -> Bool {
        guard var candidateSearch = surveys.own.removeValue(forKey: task.user) else {
            if explore(from: task.claim, &surveys.common) { return true }
            surveys.own[task.user] = surveys.common
            surveys.common = CycleCandidateSearch(on: graph)
            return false
        }
        defer { surveys.own[task.user] = candidateSearch }
        return explore(from: task.claim, &candidateSearch)
    }

    /// Searches from the claims that need more steps. Each user gets half of the steps that are left at the user's
    /// turn, and the last user gets all steps that are left.
    ///
    /// The next search begins with another user.
    private mutating func searchLarge() {
        let users = byUser(backlog.unfinished, from: backlog.large)
        if users.isEmpty || graph.left <= 0 { return }
        var place = CycleSearchBacklog.StartingPoint(user: users.dropFirst().first?.user)
        for (index, (user, claims)) in users.enumerated() {
            let share = index < users.count - 1 ? graph.left / 2 : graph.left
            place.claims[user] = share > 0 ? searchLarge(claims, taking: share) : claims.first
        }
        backlog.large = place
    }

    /// Searches from the claims of one user. Returns the claim with which this user's next search begins.
    private mutating func searchLarge(_ claims: [ClaimID], taking share: Int) -> ClaimID? {
        graph.allow(share)
        var candidateSearch = CycleCandidateSearch(on: graph)
        for (index, claim) in claims.enumerated() {
            if explore(from: claim, &candidateSearch) {
                backlog.unfinished.remove(claim)
                continue
            }
            // If the first claim of the list has used a large share of the steps in vain, the next search begins with
            // the second claim.
            let isOver = index == 0 && share > graph.arbiter.limits.stepsPerRoot
            return isOver ? claims.dropFirst().first : claim
        }
        return nil
    }

    /// Searches from one claim. Returns whether all claims that it leads to were visited.
    private mutating func explore(from root: ClaimID, _ candidateSearch: inout CycleCandidateSearch) -> Bool {
        let (sets, isComplete) = candidateSearch.candidates(from: root)
        for claims in sets {
            if let cycle = CycleFinder(among: claims, on: graph).first() { found.append(cycle) }
        }
        return isComplete && !graph.isSpent
    }

    /// Orders the claims so that users take turns: the first claim of each user, then the second of each user, and so
    /// on.
    private func inTurn(_ claims: Set<ClaimID>, from place: CycleSearchBacklog.StartingPoint) -> [SearchTask]
    {
        var tasks: [SearchTask] = []
        var (users, round) = (byUser(claims, from: place), 0)
        while !users.isEmpty {
            tasks += users.map { SearchTask(user: $0.user, claim: $0.claims[round]) }
            round += 1
            users.removeAll { $0.claims.count == round }
        }
        return tasks
    }

    private func place(before tasks: ArraySlice<SearchTask>) -> CycleSearchBacklog.StartingPoint {
        var place = CycleSearchBacklog.StartingPoint(user: tasks.first?.user)
        for task in tasks.reversed() { place.claims[task.user] = task.claim }
        return place
    }

    private func byUser(
        _ claims: Set<ClaimID>, from place: CycleSearchBacklog.StartingPoint
    ) -> [(user: User, claims: [ClaimID])] {
        if claims.isEmpty { return [] }
        let sorted = Dictionary(grouping: claims.sorted()) { claim in
            graph.arbiter.families.party(of: claim)?.user.map { User($0) } ?? -1
        }
        return sorted.keys.sorted().beginning(with: place.user).map { user in
            (user, (sorted[user] ?? []).beginning(with: place.claims[user]))
        }
    }
}

extension Array where Element: Comparable {
    /// Rotates a sorted array: the elements from `start` on, followed by the elements before `start`.
    fileprivate func beginning(with start: Element?) -> Self {
        let first = start.flatMap { start in firstIndex { $0 >= start } } ?? 0
        return Array(self[first...] + self[..<first])
    }
}
