// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import Synchronization

/// What presenters said when they could not do what they were asked, for those whom it stopped.
///
/// The arbiter decides with answers, and has no use for words.
final class RecentRefusals: Sendable {
    struct PresenterRefusal: Hashable, Sendable {
        let presenter: PresenterID
        let moment: Instant
        let words: String
        let origin: OriginForm?
    }

    private let refusals = Mutex<[PresenterID: PresenterRefusal]>([:])

    /// Before the engine hears of the refusal.
    func note(_ words: String, _ origin: OriginForm?, of presenter: PresenterID, at moment: Instant) {
        let refusal = PresenterRefusal(presenter: presenter, moment: moment, words: words, origin: origin)
        refusals.withLock { $0[presenter] = refusal }
    }

    /// The last ones of some presenters since a moment, the latest first.
    func since(_ moment: Instant, of presenters: [PresenterID]) -> [PresenterRefusal] {
        refusals.withLock { refusals in presenters.compactMap { refusals[$0] } }
            .filter { $0.moment >= moment }
            .sorted { $0.moment > $1.moment }
    }

    /// The presenter is gone.
    func forget(_ presenter: PresenterID) { refusals.withLock { _ = $0.removeValue(forKey: presenter) } }
}
