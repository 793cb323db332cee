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

    package init() {}

    /// Adds a step. If the journal is full, returns the oldest step, which is removed. The caller must release the
    /// removed step under no lock, because the release can close a file.
    @discardableResult
    package func note(
        _ step: JournalEntry.Step, at moment: Instant, claim: ClaimID? = nil,
        by subject: (any JournalSubject)?,
        _ detail: String = ""
    ) -> JournalEntry? {
        state.withLock { state in
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
