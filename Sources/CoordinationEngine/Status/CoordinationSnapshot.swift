// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// The claims and presenters of an item, or of the whole mount, at one moment.
package struct CoordinationSnapshot: Hashable, Sendable {
    /// The claims, the oldest first.
    package var claims: [ClaimReport]
    package var presenters: [PresenterReport]
    /// The delays that users of these claims and presenters cause each other. Nil for a whole mount, and for a mount
    /// without guests.
    package var delays: [DelayReport]?

    package init(
        claims: [ClaimReport] = [], presenters: [PresenterReport] = [], delays: [DelayReport]? = nil
    ) {
        self.delays = delays
        self.claims = claims
        self.presenters = presenters
    }
}

package struct ClaimReport: Hashable, Sendable {
    package enum ReportedClaimState: Hashable, Sendable {
        case held
        case suspended(Suspension)
        case waiting
    }

    package var claim: ClaimID
    package var actor: ProcessDescription
    /// The accesses of the claim, one for each part; at least one.
    package var intents: [IntentReport]
    package var state: ReportedClaimState
    /// The moment at which the claim began to wait or was granted.
    package var since: Instant
    /// The reasons why the claim waits, one clause for each blocker in the chain; empty if the claim does not wait.
    /// Example: `cat (712) waits for nvim (640) to save notes.md, asked 1.2 s ago, 8.8 s left`.
    package var reasons: [String]
    /// The delay that the user of the claim has caused. Nil unless the claim is suspended because of this delay.
    package var exceeded: DelayReport?

    package init(
        claim: ClaimID, actor: ProcessDescription, intents: [IntentReport], state: ReportedClaimState,
        since: Instant,
        reasons: [String] = [], exceeded: DelayReport? = nil
    ) {
        self.exceeded = exceeded
        self.claim = claim
        self.actor = actor
        self.intents = intents
        self.state = state
        self.since = since
        self.reasons = reasons
    }
}

/// One access of a claim, with the path of its item.
package struct IntentReport: Hashable, Sendable {
    package var access: Access
    /// The path below the root of the mount, without a leading slash.
    package var path: [UInt8]

    package init(_ access: Access, _ path: [UInt8]) {
        self.access = access
        self.path = path
    }
}

package struct PresenterReport: Hashable, Sendable {
    /// A question that the presenter has not answered yet.
    package struct UnansweredQuestion: Hashable, Sendable {
        package var request: PresenterRequest
        package var asked: Instant
        package var deadline: Instant
        /// The process that caused the question.
        package var actor: ProcessDescription

        package init(request: PresenterRequest, asked: Instant, deadline: Instant, actor: ProcessDescription)
        {
            self.request = request
            self.asked = asked
            self.deadline = deadline
            self.actor = actor
        }
    }

    package var presenter: PresenterID
    package var actor: ProcessDescription
    package var path: [UInt8]
    package var messages: PresenterMessages
    package var unansweredQuestions: [UnansweredQuestion]
    /// Whether the presenter did not answer three questions in a row. Until it answers, such a presenter receives only
    /// notices.
    package var isDemoted: Bool
    /// Whether the presenter has reported unsaved changes.
    package var isUnsaved: Bool

    package init(
        presenter: PresenterID, actor: ProcessDescription, path: [UInt8], messages: PresenterMessages,
        unansweredQuestions: [UnansweredQuestion] = [],
        isDemoted: Bool = false, isUnsaved: Bool = false
    ) {
        self.isUnsaved = isUnsaved
        self.presenter = presenter
        self.actor = actor
        self.path = path
        self.messages = messages
        self.unansweredQuestions = unansweredQuestions
        self.isDemoted = isDemoted
    }
}
