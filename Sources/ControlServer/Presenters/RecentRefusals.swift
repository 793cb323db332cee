// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import Synchronization

/// The last refusal of each presenter, with the message that the presenter's program sent. The program that is stopped by the
/// refusal gets this message.
///
/// The arbiter needs only the fact of the refusal, so it does not store the messages.
final class RecentRefusals: Sendable {
    struct PresenterRefusal: Hashable, Sendable {
        let presenter: PresenterID
        let moment: Instant
        let words: String
        let origin: OriginForm?
    }

    private let refusals = Mutex<[PresenterID: PresenterRefusal]>([:])

    /// Records a refusal. This is called before the engine is told of the refusal.
    func note(_ words: String, _ origin: OriginForm?, of presenter: PresenterID, at moment: Instant) {
        let refusal = PresenterRefusal(presenter: presenter, moment: moment, words: words, origin: origin)
        refusals.withLock { $0[presenter] = refusal }
    }

    /// Returns the last refusals of these presenters that came since `moment`, the latest first.
    func since(_ moment: Instant, of presenters: [PresenterID]) -> [PresenterRefusal] {
        refusals.withLock { refusals in presenters.compactMap { refusals[$0] } }
            .filter { $0.moment >= moment }
            .sorted { $0.moment > $1.moment }
    }

    /// Removes the refusal of a presenter that was removed.
    func forget(_ presenter: PresenterID) { refusals.withLock { _ = $0.removeValue(forKey: presenter) } }
}
