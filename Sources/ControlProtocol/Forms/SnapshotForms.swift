// SPDX-License-Identifier: Apache-2.0

/// The claims and presenters of an item or a mount: the answer to `why` and `ps`.
package struct CoordinationSnapshotForm: Hashable, Sendable, Codable {
    /// The oldest first.
    package var claims: [ClaimForm]
    package var presenters: [PresenterForm]
    /// Whether only the oldest entries are here: of more than ``ProtocolLimits/listEntries``, or of too long ones.
    package var isTruncated: Bool
    /// How long guests in the snapshot have delayed other users in it.
    ///
    /// Nil for a whole mount, and without guests.
    package var delays: [DelayForm]?

    package init(
        claims: [ClaimForm], presenters: [PresenterForm], isTruncated: Bool = false,
        delays: [DelayForm]? = nil
    ) {
        self.delays = delays
        self.claims = claims
        self.presenters = presenters
        self.isTruncated = isTruncated
    }
}

package struct ClaimForm: Hashable, Sendable, Codable {
    package var claim: UInt64
    package var actor: ProcessDescriptionForm
    /// `read`, or the write option.
    package var access: String
    package var path: String
    package var pathBytes: String?
    /// The further intents of the claim; nil if there are none.
    package var others: [IntentForm]?
    /// `held`, `suspended` or `waiting`.
    package var state: String
    /// Why a claim is suspended.
    package var suspension: String?
    /// The delay of another user by the claim's user, if that delay is why the claim is suspended.
    package var exceeded: DelayForm?
    /// Milliseconds since it began to wait or, if it no longer waits, since it was granted.
    package var age: UInt64
    /// The blockers of a waiting claim, in one sentence each, up to the end of the chain.
    package var reasons: [String]

    package init(
        claim: UInt64, actor: ProcessDescriptionForm, intents: [IntentForm], state: String,
        suspension: String? = nil, exceeded: DelayForm? = nil, age: UInt64, reasons: [String] = []
    ) {
        self.exceeded = exceeded
        self.claim = claim
        self.actor = actor
        access = intents.first?.access.name ?? ""
        (path, pathBytes) = (intents.first?.path.path ?? "", intents.first?.path.pathBytes)
        others = intents.count > 1 ? Array(intents.dropFirst()) : nil
        self.state = state
        self.suspension = suspension
        self.age = age
        self.reasons = reasons
    }
}

package struct PresenterForm: Hashable, Sendable, Codable {
    package var presenter: UInt64
    package var actor: ProcessDescriptionForm
    package var path: String
    package var pathBytes: String?
    /// The messages that it implements.
    package var messages: [String]
    /// The questions that it has not answered.
    package var owed: [UnansweredQuestionForm]
    /// Whether it left too many questions unanswered, and is not asked until it answers.
    package var isDemoted: Bool
    /// Whether it reported unsaved changes; missing from older daemons.
    package var isUnsaved: Bool?

    package init(
        presenter: UInt64, actor: ProcessDescriptionForm, path: [UInt8], messages: [String],
        owed: [UnansweredQuestionForm] = [],
        isDemoted: Bool = false, isUnsaved: Bool? = nil
    ) {
        self.isUnsaved = isUnsaved
        self.presenter = presenter
        self.actor = actor
        (self.path, self.pathBytes) = PathForm(path).parts
        self.messages = messages
        self.owed = owed
        self.isDemoted = isDemoted
    }
}

package struct UnansweredQuestionForm: Hashable, Sendable, Codable {
    package var request: String
    /// Milliseconds since it was asked.
    package var age: UInt64
    /// Milliseconds until its deadline.
    package var left: UInt64
    /// The process that caused the question.
    package var actor: ProcessDescriptionForm

    package init(request: String, age: UInt64, left: UInt64, actor: ProcessDescriptionForm) {
        self.request = request
        self.age = age
        self.left = left
        self.actor = actor
    }
}
