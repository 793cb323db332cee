// SPDX-License-Identifier: Apache-2.0

/// Who has, wants and shows what: the answer to `why` and `ps`.
package struct CoordinationSnapshotForm: Hashable, Sendable, Codable {
    /// The oldest first.
    package var claims: [ClaimForm]
    package var presenters: [PresenterForm]
    /// There were more than ``ProtocolLimits/listEntries`` of either, or too long ones; the oldest are here.
    package var isTruncated: Bool
    /// What guests among those have made others among those wait; nil for a whole mount, and where there are no guests.
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
    /// What is claimed together with that; nil for nothing.
    package var others: [IntentForm]?
    /// `held`, `suspended` or `waiting`.
    package var state: String
    /// How a suspended claim came to let others pass.
    package var suspension: String?
    /// What its user has made another one wait, if it lets others pass because that is enough.
    package var exceeded: DelayForm?
    /// Milliseconds since it began to wait or, if it waits no longer, was granted.
    package var age: UInt64
    /// Whom a waiting claim waits for, one sentence each, chained to the end.
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
    /// What it implements.
    package var messages: [String]
    /// What it was asked and has not answered.
    package var owed: [UnansweredQuestionForm]
    /// It let too many requests go unanswered, and is not asked until it answers.
    package var isDemoted: Bool
    /// It says that it shows changes that are not on the disk; not told by daemons that know of no such thing.
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
    /// Milliseconds until it counts as silent.
    package var left: UInt64
    /// On whose account it was asked.
    package var actor: ProcessDescriptionForm

    package init(request: String, age: UInt64, left: UInt64, actor: ProcessDescriptionForm) {
        self.request = request
        self.age = age
        self.left = left
        self.actor = actor
    }
}
