// SPDX-License-Identifier: Apache-2.0
import Arbitration
package import Coordination
import LinuxSystem
import Synchronization

/// Counts the events that were sent lately to all presenters of each guest.
///
/// An event in a directory goes to the presenters of all directories above, and its program waits until all are
/// queued. Beyond the allowance, a guest's presenters receive no notices of subitems until the period ends. Then they
/// receive one notice that there were changes. Events of the presented items themselves are counted the same way, but
/// separately.
struct DeliveryQuota {
    /// The number of events in a period; by measurement, the program waits 2 to 3 µs for each.
    static let allowance = 8192
    static let period = TimeSpan.seconds(4)

    private struct QuotaUsage {
        var began: Instant
        var heard = 0
        var isSpent = false
    }

    private var shares: [UInt32: QuotaUsage] = [:]
    /// Presenters with a spent quota that missed a message.
    private var behind: Set<PresenterID> = []

    func isSpent(_ guest: UInt32?) -> Bool { guest.flatMap { shares[$0]?.isSpent } ?? false }

    /// Counts events. Returns when the quota is renewed, if this call has spent it.
    mutating func charge(_ guest: UInt32, _ count: Int, at now: Instant) -> Instant? {
        var entry = shares[guest] ?? QuotaUsage(began: now)
        if !entry.isSpent, now >= entry.began + Self.period { entry = QuotaUsage(began: now) }
        entry.heard += count
        let isSpentNow = !entry.isSpent && entry.heard > Self.allowance
        if isSpentNow { entry.isSpent = true }
        shares[guest] = entry
        return isSpentNow ? max(entry.began + Self.period, now) : nil
    }

    mutating func renew(_ guest: UInt32) { shares[guest] = nil }

    mutating func addBehind(_ presenters: Set<PresenterID>) { behind.formUnion(presenters) }

    mutating func takeBehind(_ presenters: [PresenterID]) -> Set<PresenterID> {
        if behind.isEmpty { return [] }
        let some = behind.intersection(presenters)
        behind.subtract(some)
        return some
    }

    mutating func forget(_ presenter: PresenterID) { if !behind.isEmpty { behind.remove(presenter) } }
}

// Presenters without notices of subitems for a while (N14).
extension Engine {
    /// Pauses the presenters of a mailbox, because the connection cannot send its messages. They receive no notices
    /// of subitems.
    package func pause(_ mailbox: Mailbox) {
        state.withLock { state in pause(mailbox, at: Self.now, in: &state) }
        dispatch(nil)
    }

    /// Resumes the presenters of a mailbox.
    ///
    /// Those in `behind`, and those that missed notices, are told that there were changes; those in `told` know that
    /// already.
    package func resume(
        _ mailbox: Mailbox, behind: Set<PresenterID> = [], told: Set<PresenterID> = []
    ) {
        state.withLock { state in
            guard mailbox.isPaused else { return }
            mailbox.setPaused(false)
            let spent = state.presenters(where: {
                $0.mailbox === mailbox && state.subitemQuota.isSpent($0.guest)
            })
            state.subitemQuota.addBehind(behind.intersection(spent))
            let ids = state.presenters(where: {
                $0.mailbox === mailbox && !state.subitemQuota.isSpent($0.guest)
            })
            // The mailbox may have been paused again before the quota of some was renewed.
            let all = behind.union(state.subitemQuota.takeBehind(ids))
            state.arbiter.handle(.resumed(ids, behind: all, told: told), at: Self.now, into: &state.effects)
        }
        dispatch(nil)
    }

    private func pause(_ mailbox: Mailbox, at now: Instant, in state: inout State) {
        if mailbox.isPaused { return }
        mailbox.setPaused(true)
        let ids = state.presenters { $0.mailbox === mailbox }
        state.arbiter.handle(.paused(ids), at: now, into: &state.effects)
    }

    /// Applies the guest's pauses to a new presenter. This happens under one lock, as the others may be resumed at
    /// the same time.
    func pauseIfQuotaSpent(_ presenter: PresenterID) {
        state.withLock { state in
            guard let entry = state.presenters[presenter] else { return }
            if entry.mailbox.isPaused || state.subitemQuota.isSpent(entry.guest) {
                state.arbiter.handle(.paused([presenter]), at: Self.now, into: &state.effects)
            }
            if state.itemQuota.isSpent(entry.guest) {
                state.arbiter.handle(.muted([presenter]), at: Self.now, into: &state.effects)
            }
        }
        dispatch(nil)
    }

    /// After an event, pauses presenters with too full mailboxes or spent quotas.
    func pauseOverQuota(at now: Instant, in state: inout State) -> [DeferredEffect] {
        for mailbox in state.messageBatch.overfull { pause(mailbox, at: now, in: &state) }
        state.messageBatch.overfull = []
        let pauses: [DeferredEffect] = state.arbiter.takeSubitemEventCounts().compactMap { guest, count in
            guard let end = state.subitemQuota.charge(guest, count, at: now) else { return nil }
            let ids = state.presenters { $0.guest == guest }
            state.arbiter.handle(.paused(ids), at: now, into: &state.effects)
            return .call { [self] in timers.schedule(at: end.nanoseconds) { [self] in renew(guest) } }
        }
        let mutes: [DeferredEffect] = state.arbiter.takeOwnEventCounts().compactMap { guest, count in
            guard let end = state.itemQuota.charge(guest, count, at: now) else { return nil }
            let ids = state.presenters { $0.guest == guest }
            state.arbiter.handle(.muted(ids), at: now, into: &state.effects)
            return .call { [self] in timers.schedule(at: end.nanoseconds) { [self] in unmute(guest) } }
        }
        return pauses + mutes
    }

    private func unmute(_ guest: UInt32) {
        state.withLock { state in
            state.itemQuota.renew(guest)
            let ids = state.presenters { $0.guest == guest }
            state.arbiter.handle(.unmuted(ids), at: Self.now, into: &state.effects)
        }
        dispatch(nil)
    }

    private func renew(_ guest: UInt32) {
        state.withLock { state in
            state.subitemQuota.renew(guest)
            let ids = state.presenters { $0.guest == guest && !$0.mailbox.isPaused }
            let behind = state.subitemQuota.takeBehind(ids)
            state.arbiter.handle(
                .resumed(ids, behind: behind, told: []), at: Self.now, into: &state.effects)
        }
        dispatch(nil)
    }
}

extension Engine.State {
    fileprivate func presenters(where matches: (PresenterEntry) -> Bool) -> [PresenterID] {
        presenters.compactMap { matches($0.value) ? $0.key : nil }
    }
}
