// SPDX-License-Identifier: Apache-2.0
package import Coordination
import Synchronization

/// The request to begin a run.
package struct RunRequest: Sendable {
    package var name: String
    /// The process `truce run`. The processes of the run are its descendants, and processes with the run's token.
    package var starter: ProcessID
    package var user: UInt32
    package var leases: [Lease]
    /// Whether the processes of the run pass all waits.
    package var isUncoordinated: Bool

    package init(
        name: String, starter: ProcessID, user: UInt32, leases: [Lease] = [], isUncoordinated: Bool = false
    ) {
        self.name = name
        self.starter = starter
        self.user = user
        self.leases = leases
        self.isUncoordinated = isUncoordinated
    }
}

/// Why the leases of a run are suspended: the other programs no longer wait for it.
package enum LeaseSuspension: String, Hashable, Sendable {
    /// Other programs have waited for the run for the time `hold-aware`.
    case holdExpired
    /// A program of the run and another program waited for each other.
    case deadlocked
    /// Other programs have met more documents of the leases than the daemon remembers.
    case tooMany
}

/// A run as `truce status` shows it.
package struct RunReport: Hashable, Sendable {
    package var run: RunID
    package var user: UInt32
    package var leases: [Lease]
    package var isUncoordinated: Bool
    /// Whether the run waits to begin, because its leases conflict with those of an earlier run.
    package var isWaiting: Bool
    package var suspension: LeaseSuspension?
    /// The number of documents that the run holds for its leases.
    package var documents: Int
}

/// The runs of a mount, in the order in which they were requested.
///
/// A lease is no entry of the arbiter. When another program meets a document that a lease covers, the registry names the run,
/// and the engine then makes a claim for it (D234).
package final class RunRegistry: Sendable {
    /// The most runs of a mount, and the most documents that one run holds for its leases.
    package static let mostRuns = 256
    package static let mostDocuments = 4096

    private enum Phase {
        case waiting(since: Instant, begin: @Sendable () -> Void)
        case active(since: Instant)
        case suspended(LeaseSuspension)
    }

    private struct Entry {
        let id: RunID
        let request: RunRequest
        let token: String
        let tellSuspension: @Sendable (RunID, LeaseSuspension) -> Void
        var phase: Phase
        /// The claims that were made for the leases, by their documents.
        var claims: [ItemID: ClaimID] = [:]
        /// Numbers for these claims. They were taken when the run was requested, so its leases come before later claims.
        var reserved: Range<UInt64>
        /// The documents of write leases that other programs have changed, or are about to change.
        var foreign: Set<ItemID> = []
        /// The first and the last moment of a series of meetings with other programs, each soon after the one before.
        var contention: (first: Instant, last: Instant)?
    }

    private struct State {
        var entries: [Entry] = []
        var last: UInt64 = 0
    }

    /// A claim that the engine must make for a run, because another program met one of its documents.
    struct DueClaim {
        let run: RunID
        let user: UInt32
        let claim: ClaimID
        let access: Access
    }

    /// Calls that are due after the lock is released.
    struct Calls: Sendable {
        fileprivate var bodies: [@Sendable () -> Void] = []
        func run() { for body in bodies { body() } }
    }

    private let state = Mutex(State())
    private let count = Atomic<Int>(0)
    private let leaseCount = Atomic<Int>(0)
    private let foreignCount = Atomic<Int>(0)
    /// The longest time between two meetings of one contention, and the longest contention.
    private let pause: TimeSpan
    private let hold: TimeSpan

    init(_ bounds: Bounds) {
        // A program waits for a lease for at most `wait`. So after a longer time without a meeting, no program waits. A
        // program can have a longer limit by a configuration file. Its wait then ends at this limit.
        pause = TimeSpan(nanoseconds: bounds.wait.nanoseconds + TimeSpan.seconds(1).nanoseconds)
        hold = bounds.holdAware
    }

    /// Whether there is no run. This does not take the lock.
    @inline(__always)
    package var isEmpty: Bool { count.load(ordering: .relaxed) == 0 }
    /// Whether a run has leases. This does not take the lock.
    @inline(__always)
    var hasLeases: Bool { leaseCount.load(ordering: .relaxed) != 0 }
    /// Whether a program has changed a document of a lease. This does not take the lock.
    @inline(__always)
    package var hasForeignChanges: Bool { foreignCount.load(ordering: .relaxed) != 0 }

    /// Adds a run. `begin` is called when the leases conflict with no earlier run, at the latest when those are suspended.
    /// Returns nil if there are too many runs.
    func add(
        _ request: RunRequest, token: String, reserving reserved: Range<UInt64>, at now: Instant,
        begin: @escaping @Sendable (RunID) -> Void,
        suspended: @escaping @Sendable (RunID, LeaseSuspension) -> Void
    ) -> (id: RunID, calls: Calls)? {
        state.withLock { state in
            guard state.entries.count < Self.mostRuns else { return nil }
            state.last += 1
            let id = RunID(number: state.last, name: request.name, pid: request.starter.number)
            state.entries.append(
                Entry(
                    id: id, request: request, token: token, tellSuspension: suspended,
                    phase: .waiting(since: now) { begin(id) }, reserved: reserved))
            return (id, settle(&state, at: now))
        }
    }

    /// Removes a run. Returns the claims of its leases, which the caller must end.
    func remove(_ run: RunID, at now: Instant) -> (claims: [ClaimID], calls: Calls) {
        state.withLock { state in
            guard let index = state.entries.firstIndex(where: { $0.id == run }) else { return ([], Calls()) }
            let entry = state.entries.remove(at: index)
            return (entry.claims.values.sorted(), settle(&state, at: now))
        }
    }

    /// Suspends the leases of a run. The claims of the leases stay.
    func suspend(_ run: RunID, because reason: LeaseSuspension, at now: Instant) -> Calls {
        state.withLock { state in
            guard let index = state.entries.firstIndex(where: { $0.id == run }) else { return Calls() }
            let call = suspend(&state.entries[index], because: reason)
            var calls = settle(&state, at: now)
            calls.bodies += call
            return calls
        }
    }

    /// Suspends the runs for which a waiting run has waited for the longest permitted time. Returns when the next look is
    /// due; nil if the run does not wait.
    func reviewWait(of run: RunID, at now: Instant) -> (next: Instant?, calls: Calls) {
        state.withLock { state in
            guard let index = state.entries.firstIndex(where: { $0.id == run }),
                case .waiting(let since, _) = state.entries[index].phase
            else { return (nil, Calls()) }
            var (calls, next) = (Calls(), Instant?.none)
            for earlier in state.entries.indices.prefix(index) {
                guard Self.isBlocked(state.entries[index], by: state.entries[earlier]),
                    case .active(let began) = state.entries[earlier].phase
                else { continue }
                let due = max(since, began) + hold
                if due <= now {
                    calls.bodies += suspend(&state.entries[earlier], because: .holdExpired)
                } else {
                    next = min(next ?? due, due)
                }
            }
            calls.bodies += settle(&state, at: now).bodies
            guard case .waiting = state.entries[index].phase else { return (nil, calls) }
            return (next ?? now + hold, calls)
        }
    }

    private func suspend(_ entry: inout Entry, because reason: LeaseSuspension) -> [@Sendable () -> Void] {
        guard case .active = entry.phase else { return [] }
        entry.phase = .suspended(reason)
        return [{ [tell = entry.tellSuspension, id = entry.id] in tell(id, reason) }]
    }

    /// Begins the runs that wait for no earlier run any more, and updates the counts.
    private func settle(_ state: inout State, at now: Instant) -> Calls {
        var calls = Calls()
        for index in state.entries.indices {
            guard case .waiting(_, let begin) = state.entries[index].phase,
                !state.entries.prefix(index).contains(where: { Self.isBlocked(state.entries[index], by: $0) })
            else { continue }
            state.entries[index].phase = .active(since: now)
            calls.bodies.append(begin)
        }
        count.store(state.entries.count, ordering: .relaxed)
        leaseCount.store(state.entries.count { !$0.request.leases.isEmpty }, ordering: .relaxed)
        foreignCount.store(state.entries.reduce(0) { $0 + $1.foreign.count }, ordering: .relaxed)
        return calls
    }

    private static func isBlocked(_ entry: Entry, by earlier: Entry) -> Bool {
        if case .suspended = earlier.phase { return false }
        return entry.request.leases.contains { lease in
            earlier.request.leases.contains { lease.conflicts(with: $0) }
        }
    }
}

// The processes of the runs.
extension RunRegistry {
    /// The runs to which a process belongs, the innermost first.
    ///
    /// A process belongs to a run if `truce run` is one of its ancestors, or if it has the run's token. The token is only
    /// valid for processes of the run's user, or of root (D236).
    package func runs(
        ofAncestors ancestors: [ProcessID], user: UInt32, tokens: () -> [Substring]
    ) -> [RunID] {
        let entries: [(id: RunID, starter: ProcessID, user: UInt32, token: String)] = state.withLock {
            state in
            state.entries.map { ($0.id, $0.request.starter, $0.request.user, $0.token) }
        }
        if entries.isEmpty { return [] }
        var found: [RunID] = []
        for ancestor in ancestors {
            found += entries.filter { $0.starter == ancestor }.map(\.id).reversed()
        }
        guard found.count < entries.count else { return found }
        for token in tokens() {
            let run = entries.first { $0.token == token && $0.user == user }
            if let run, !found.contains(run.id) { found.append(run.id) }
        }
        return found
    }

    /// Whether any of these runs passes all waits.
    package func passesWaits(_ party: Party) -> Bool {
        if isEmpty { return false }
        let numbers = party.runNumbers
        return !numbers.isEmpty
            && state.withLock { state in
                state.entries.contains { $0.request.isUncoordinated && numbers.contains($0.id.number) }
            }
    }

    package var reports: [RunReport] {
        state.withLock { $0.entries }.map { entry in
            var report = RunReport(
                run: entry.id, user: entry.request.user, leases: entry.request.leases,
                isUncoordinated: entry.request.isUncoordinated, isWaiting: false, suspension: nil,
                documents: entry.claims.count)
            switch entry.phase {
            case .waiting: report.isWaiting = true
            case .active: break
            case .suspended(let reason): report.suspension = reason
            }
            return report
        }
    }
}

// The documents of the leases.
extension RunRegistry {
    /// Whether a lease covers an access to a path.
    func isCovered(_ path: [UInt8], _ access: Access) -> Bool {
        state.withLock { state in
            state.entries.contains { entry in entry.request.leases.contains { $0.covers(path, access) } }
        }
    }

    /// Notes that a program is about to make a claim on a document. Returns the claims that must be made before it for runs
    /// to which the program does not belong.
    func meet(
        _ part: ClaimRequest.Part, at path: [UInt8], by party: Party, now: Instant,
        makeClaim: () -> ClaimID
    ) -> (due: [DueClaim], calls: Calls) {
        let own = party.runNumbers
        return state.withLock { state in
            var (due, calls) = ([DueClaim](), Calls())
            for index in state.entries.indices where !own.contains(state.entries[index].id.number) {
                let covering = state.entries[index].request.leases.filter { $0.covers(path, part.access) }
                guard !covering.isEmpty else { continue }
                let isWrite = covering.contains(where: \.isWrite)
                if isWrite, part.access.isWrite { noteForeign(part.item, in: &state.entries[index]) }
                guard case .active = state.entries[index].phase else { continue }
                if let reason = contend(&state.entries[index], at: now) {
                    calls.bodies += suspend(&state.entries[index], because: reason)
                    continue
                }
                guard state.entries[index].claims[part.item] == nil else { continue }
                let claim = state.entries[index].reserved.popFirst().map { ClaimID($0) } ?? makeClaim()
                state.entries[index].claims[part.item] = claim
                // This access changes no contents: the lease itself changes nothing, but its lock keeps all others out.
                let access: Access =
                    isWrite ? .write(.contentIndependentMetadataOnly) : .read(.withoutChanges)
                due.append(
                    DueClaim(
                        run: state.entries[index].id, user: state.entries[index].request.user, claim: claim,
                        access: access))
            }
            calls.bodies += settle(&state, at: now).bodies
            return (due, calls)
        }
    }

    /// Notes a meeting. Returns why the leases must be suspended, if they must.
    private func contend(_ entry: inout Entry, at now: Instant) -> LeaseSuspension? {
        if let contention = entry.contention, now.since(contention.last) < pause {
            entry.contention = (contention.first, now)
            if now.since(contention.first) >= hold { return .holdExpired }
        } else {
            entry.contention = (now, now)
        }
        return entry.claims.count < Self.mostDocuments ? nil : .tooMany
    }

    /// Notes a change by a program outside of the run. If there are too many, the oldest notes are of no more use than new
    /// ones, so any is dropped.
    private func noteForeign(_ item: ItemID, in entry: inout Entry) {
        if entry.foreign.count >= Self.mostDocuments, !entry.foreign.contains(item) {
            entry.foreign.removeFirst()
        }
        entry.foreign.insert(item)
    }

    /// Whether a claim of a lease is still wanted: its run has not ended.
    func isWanted(_ claim: ClaimID, of run: RunID) -> Bool {
        state.withLock { state in
            state.entries.contains { $0.id == run && $0.claims.values.contains(claim) }
        }
    }

    /// Drops a claim that was refused, so that the next meeting makes a new one.
    func forget(_ claim: ClaimID, of run: RunID) {
        state.withLock { state in
            guard let index = state.entries.firstIndex(where: { $0.id == run }),
                let item = state.entries[index].claims.first(where: { $0.value == claim })?.key
            else { return }
            state.entries[index].claims[item] = nil
        }
    }

    /// Notes that a claim of a lease is on another item now.
    func retarget(_ run: RunID, from former: ItemID, to item: ItemID) {
        state.withLock { state in
            guard let index = state.entries.firstIndex(where: { $0.id == run }),
                let claim = state.entries[index].claims.removeValue(forKey: former)
            else { return }
            state.entries[index].claims[item] = claim
        }
    }

    /// Whether programs outside of a party's runs have changed a document of the runs' leases since the runs last wrote it.
    package func hasForeignChange(of item: ItemID, for party: () -> Party) -> Bool {
        guard hasForeignChanges, state.withLock({ $0.entries.contains { $0.foreign.contains(item) } }) else {
            return false
        }
        let own = party().runNumbers
        return state.withLock { state in
            state.entries.contains { own.contains($0.id.number) && $0.foreign.contains(item) }
        }
    }

    /// Notes that a program of a run replaces the contents of a document, after they were preserved.
    package func noteOwnChange(of item: ItemID, by party: () -> Party) {
        guard hasForeignChanges else { return }
        let own = party().runNumbers
        state.withLock { state in
            for index in state.entries.indices where own.contains(state.entries[index].id.number) {
                state.entries[index].foreign.remove(item)
            }
            foreignCount.store(state.entries.reduce(0) { $0 + $1.foreign.count }, ordering: .relaxed)
        }
    }
}

extension Party {
    /// The numbers of the runs to which the party or its partner belongs.
    fileprivate var runNumbers: Set<UInt64> {
        var numbers: Set<UInt64> = []
        _ = anyIdentity { party in
            for process in [party.process].compactMap({ $0 }) + party.ancestors where process.isRun {
                numbers.insert(process.started)
            }
            return false
        }
        return numbers
    }
}
