// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import Synchronization

/// The words with which presenters refused questions, for the programs that they stopped.
///
/// The arbiter decides by the answers and does not need the words.
final class RecentRefusals: Sendable {
    struct PresenterRefusal: Hashable, Sendable {
        let presenter: PresenterID
        let moment: Instant
        let words: String
        let origin: OriginForm?
    }

    private let refusals = Mutex<[PresenterID: PresenterRefusal]>([:])

    /// To be called before the engine receives the refusal.
    func note(_ words: String, _ origin: OriginForm?, of presenter: PresenterID, at moment: Instant) {
        let refusal = PresenterRefusal(presenter: presenter, moment: moment, words: words, origin: origin)
        refusals.withLock { $0[presenter] = refusal }
    }

    /// The last refusals of some presenters since a moment, the latest first.
    func since(_ moment: Instant, of presenters: [PresenterID]) -> [PresenterRefusal] {
        refusals.withLock { refusals in presenters.compactMap { refusals[$0] } }
            .filter { $0.moment >= moment }
            .sorted { $0.moment > $1.moment }
    }

    /// Forgets a presenter that was removed.
    func forget(_ presenter: PresenterID) { refusals.withLock { _ = $0.removeValue(forKey: presenter) } }
}
