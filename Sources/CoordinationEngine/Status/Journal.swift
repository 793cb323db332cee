// SPDX-License-Identifier: Apache-2.0
package import Coordination
import Synchronization

/// A step in the journal.
package struct JournalEntry: Sendable {
    package typealias Step = JournalStep.Kind

    package let sequence: UInt64
    package let moment: Instant
    package let step: Step
    package let claim: ClaimID?
    package let subject: (any JournalSubject)?
    package let detail: String
}

/// The last steps of a mount, such as waits, grants and questions.
package final class Journal: Sendable {
    /// The number of steps that the journal stores.
    package static let capacity = 2048

    private struct State {
        var entries: [JournalEntry] = []
        var next: UInt64 = 1
    }

    private let state = Mutex(State())
    private let observer = Mutex<(@Sendable (JournalEntry) -> Void)?>(nil)

    package init() {}

    /// Calls `call` for each later step that is a question to a presenter, or a forfeit. A second call of this function replaces
    /// the first observer.
    ///
    /// `call` comes on any thread, and can come under the engine's lock. So it must not call the engine or the journal.
    package func observeQuestions(_ call: @escaping @Sendable (JournalEntry) -> Void) {
        let former = observer.withLock { observer in
            defer { observer = call }
            return observer
        }
        withExtendedLifetime(former) {}
    }

    private func tell(_ entry: JournalEntry) {
        let call = observer.withLock { $0 }
        call?(entry)
    }

    /// Adds a step. If the journal is full, returns the oldest step, which is removed. The caller must release the
    /// removed step under no lock, because the release can close a file.
    @discardableResult
    package func note(
        _ step: JournalEntry.Step, at moment: Instant, claim: ClaimID? = nil,
        by subject: (any JournalSubject)?,
        _ detail: String = ""
    ) -> JournalEntry? {
        if step == .asked || step == .forfeited {
            tell(
                JournalEntry(
                    sequence: 0, moment: moment, step: step, claim: claim, subject: subject, detail: detail))
        }
        return state.withLock { state in
            let entry = JournalEntry(
                sequence: state.next, moment: moment, step: step, claim: claim, subject: subject,
                detail: detail)
            let index = Int(state.next % UInt64(Self.capacity))
            state.next += 1
            guard state.entries.count == Self.capacity else {
                state.entries.append(entry)
                return nil
            }
            var dropped = entry
            swap(&state.entries[index], &dropped)
            return dropped
        }
    }

    /// The stored steps, the oldest first.
    package var entries: [JournalEntry] {
        state.withLock { $0.entries }.sorted { $0.sequence < $1.sequence }
    }
}
