// SPDX-License-Identifier: Apache-2.0

/// The claims and presenters of an item or of the whole mount: the reply to `why` and `ps`.
package struct CoordinationSnapshotForm: Hashable, Sendable, Codable {
    /// The claims, the oldest first.
    package var claims: [ClaimForm]
    package var presenters: [PresenterForm]
    /// Whether entries are missing, because there are more than ``ProtocolLimits/listEntries`` or they are too long together.
    /// The oldest entries are listed.
    package var isTruncated: Bool
    /// How long guests have delayed other users. It contains only guests and users that have claims or presenters in this
    /// reply.
    ///
    /// It is nil for the whole mount, and if no guest is involved.
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
    /// The access of the first intent: `read`, or the write option.
    package var access: String
    package var path: String
    package var pathBytes: String?
    /// The intents of the claim after the first; nil if the claim has only one intent.
    package var others: [IntentForm]?
    /// The state of the claim: `held`, `suspended` or `waiting`.
    package var state: String
    /// The reason why the claim is suspended; nil if it is not.
    package var suspension: String?
    /// The delay that the claim's user has caused to another user. It is nil unless the claim is suspended because of this
    /// delay.
    package var exceeded: DelayForm?
    /// How long the claim has been waiting, in milliseconds. For a granted claim, the time since the grant.
    package var age: UInt64
    /// The reasons why a waiting claim waits, one sentence each. The first says which claim it waits for, the second says why
    /// that claim does not end, and so on.
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
    /// The messages that the presenter implements.
    package var messages: [String]
    /// The questions that the presenter has not answered yet.
    package var owed: [UnansweredQuestionForm]
    /// Whether the presenter has left too many questions without an answer. The daemon sends it no further question until it
    /// answers one of them.
    package var isDemoted: Bool
    /// Whether the presenter has reported unsaved changes; nil in a reply of an older daemon, which does not send this.
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
    /// The milliseconds since the question was sent.
    package var age: UInt64
    /// The milliseconds until the deadline of the question.
    package var left: UInt64
    /// The process with the claim that caused the question.
    package var actor: ProcessDescriptionForm

    package init(request: String, age: UInt64, left: UInt64, actor: ProcessDescriptionForm) {
        self.request = request
        self.age = age
        self.left = left
        self.actor = actor
    }
}
