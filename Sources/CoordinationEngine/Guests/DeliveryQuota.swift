// SPDX-License-Identifier: Apache-2.0
import Arbitration
package import Coordination
import LinuxSystem
import Synchronization

/// Counts the events that were sent to the presenters of each guest in the present period.
///
/// The program that causes an event waits until the messages to all presenters are queued. If a guest has used up its
/// allowance, its presenters receive no notices about items in their directories until the period ends. Then each
/// presenter receives a single notice that there were changes. A second value of this type counts events of the
/// presented items themselves.
struct DeliveryQuota {
    /// The number of events that a guest's presenters can receive in a period. By measurement, the program that causes
    /// an event waits 2 to 3 µs for each message to a presenter.
    static let allowance = 8192
    static let period = TimeSpan.seconds(4)

    private struct QuotaUsage {
        var began: Instant
        var heard = 0
        var isSpent = false
    }

    private var shares: [UInt32: QuotaUsage] = [:]
    /// Presenters that have missed messages, and are told of this only when the quota of their guest is renewed.
    private var behind: Set<PresenterID> = []

    func isSpent(_ guest: UInt32?) -> Bool { guest.flatMap { shares[$0]?.isSpent } ?? false }

    /// Counts events for a guest. If these events have used up the quota, returns the moment at which it is renewed.
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

// N14: Presenters that receive no notices about items in their directory for a time.
extension Engine {
    /// Pauses the presenters of a mailbox, because the connection cannot send the messages fast enough. Paused
    /// presenters receive no notices about items in their directories.
    package func pause(_ mailbox: Mailbox) {
        withState { $0.pause(mailbox, at: Self.now) }
        dispatch(nil)
    }

    /// Resumes the presenters of a mailbox.
    ///
    /// Presenters in `behind`, and presenters that missed notices during the pause, are told that there were changes.
    /// Presenters in `told` know this already, and are not told.
    package func resume(
        _ mailbox: Mailbox, behind: Set<PresenterID> = [], told: Set<PresenterID> = []
    ) {
        withState { $0.resume(mailbox, behind: behind, told: told, at: Self.now) }
        dispatch(nil)
    }

    /// Pauses or mutes a new presenter if the other presenters of its guest are paused or muted.
    func pauseIfQuotaSpent(_ presenter: PresenterID) {
        withState { $0.pauseIfQuotaSpent(presenter, at: Self.now) }
        dispatch(nil)
    }

    /// Pauses presenters after an event, if their mailbox is too full or the quota of their guest is used up.
    func pauseOverQuota(at now: Instant, in state: inout State) -> [DeferredEffect] {
        for mailbox in state.messageBatch.overfull { state.pause(mailbox, at: now) }
        state.messageBatch.overfull = []
        let pauses: [DeferredEffect] = state.arbiter.takeSubitemEventCounts().compactMap { guest, count in
            guard let end = state.subitemQuota.charge(guest, count, at: now) else { return nil }
            state.pausePresenters(of: guest, at: now)
            return .call { [self] in timers.schedule(at: end.nanoseconds) { [self] in renew(guest) } }
        }
        let mutes: [DeferredEffect] = state.arbiter.takeOwnEventCounts().compactMap { guest, count in
            guard let end = state.itemQuota.charge(guest, count, at: now) else { return nil }
            state.mutePresenters(of: guest, at: now)
            return .call { [self] in timers.schedule(at: end.nanoseconds) { [self] in unmute(guest) } }
        }
        return pauses + mutes
    }

    private func unmute(_ guest: UInt32) {
        withState { $0.unmutePresenters(of: guest, at: Self.now) }
        dispatch(nil)
    }

    private func renew(_ guest: UInt32) {
        withState { $0.resumePresenters(of: guest, at: Self.now) }
        dispatch(nil)
    }
}

// Presenters are paused for two reasons: their mailbox is too full, or the quota of their guest is used up. The arbiter
// is told when a pause begins or ends.
extension Engine.State {
    fileprivate mutating func pause(_ mailbox: Mailbox, at now: Instant) {
        if mailbox.isPaused { return }
        mailbox.setPaused(true)
        let ids = presenters { $0.mailbox === mailbox }
        arbiter.handle(.paused(ids), at: now, into: &effects)
    }

    fileprivate mutating func resume(
        _ mailbox: Mailbox, behind: Set<PresenterID>, told: Set<PresenterID>, at now: Instant
    ) {
        guard mailbox.isPaused else { return }
        mailbox.setPaused(false)
        let spent = presenters(where: { $0.mailbox === mailbox && subitemQuota.isSpent($0.guest) })
        subitemQuota.addBehind(behind.intersection(spent))
        let ids = presenters(where: { $0.mailbox === mailbox && !subitemQuota.isSpent($0.guest) })
        // Some presenters in `behind` were not told when the quota of their guest was renewed, because the mailbox was
        // paused.
        let all = behind.union(subitemQuota.takeBehind(ids))
        arbiter.handle(.resumed(ids, behind: all, told: told), at: now, into: &effects)
    }

    fileprivate mutating func pauseIfQuotaSpent(_ presenter: PresenterID, at now: Instant) {
        guard let entry = presenters[presenter] else { return }
        if entry.mailbox.isPaused || subitemQuota.isSpent(entry.guest) {
            arbiter.handle(.paused([presenter]), at: now, into: &effects)
        }
        if itemQuota.isSpent(entry.guest) { arbiter.handle(.muted([presenter]), at: now, into: &effects) }
    }

    fileprivate mutating func pausePresenters(of guest: UInt32, at now: Instant) {
        arbiter.handle(.paused(presenters { $0.guest == guest }), at: now, into: &effects)
    }

    fileprivate mutating func resumePresenters(of guest: UInt32, at now: Instant) {
        subitemQuota.renew(guest)
        let ids = presenters { $0.guest == guest && !$0.mailbox.isPaused }
        let behind = subitemQuota.takeBehind(ids)
        arbiter.handle(.resumed(ids, behind: behind, told: []), at: now, into: &effects)
    }

    fileprivate mutating func mutePresenters(of guest: UInt32, at now: Instant) {
        arbiter.handle(.muted(presenters { $0.guest == guest }), at: now, into: &effects)
    }

    fileprivate mutating func unmutePresenters(of guest: UInt32, at now: Instant) {
        itemQuota.renew(guest)
        arbiter.handle(.unmuted(presenters { $0.guest == guest }), at: now, into: &effects)
    }

    private func presenters(where matches: (PresenterEntry) -> Bool) -> [PresenterID] {
        presenters.compactMap { matches($0.value) ? $0.key : nil }
    }
}
