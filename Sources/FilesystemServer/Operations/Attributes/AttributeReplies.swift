// SPDX-License-Identifier: Apache-2.0
import FuseBridge

/// Answers GETATTR requests, and decides how long the kernel may cache attributes.
final class AttributeReplies: Sendable {
    private let context: MountContext
    private let shownAttributes: ShownAttributes
    private let coordinator: RetryCoordinator
    private let saves: SaveTracker
    private let rightsWatcher: RightsWatcher?
    private let expectedRetries: ExpectedRetries<PendingOpen>
    private let retries: RetryTable

    init(
        _ context: MountContext, _ shownAttributes: ShownAttributes, _ saves: SaveTracker,
        _ rightsWatcher: RightsWatcher?, _ coordinator: RetryCoordinator
    ) {
        self.context = context
        self.shownAttributes = shownAttributes
        self.coordinator = coordinator
        self.saves = saves
        self.rightsWatcher = rightsWatcher
        expectedRetries = coordinator.expectedRetries
        retries = coordinator.retries
    }

    func attributesNow(of node: Node, reply: consuming Reply) {
        let id = node.id
        let validity = attributeValidity(of: node)
        if !expectedRetries.expectsNone, !saves.hasNoPendingSaves {
            coordinator.awaitSave(forRetryOf: reply.caller.thread, to: id)
        }
        if retries.isEmpty { return shownAttributes.answerAttributes(of: id, valid: validity, reply: reply) }
        let thread = reply.caller.thread
        let valid = retries.validity(validity, to: thread, about: id)
        guard let reply = coordinator.parkGetattr(reply, about: id) else { return }
        shownAttributes.answerAttributes(of: id, valid: valid, reply: reply)
    }

    /// Returns how long the kernel may cache the attributes of a node that are sent to this thread.
    func validity(of node: Node, to thread: Int32) -> Validity {
        if coordinator.mustAskForAttributes(of: node, thread) { return .none }
        return shownAttributes.cappedValidity(
            node, retries.validity(attributeValidity(of: node), to: thread, about: node.id))
    }

    /// Returns how long the kernel may cache the attributes of a node. The kernel decides by them whether a user has
    /// access.
    func attributeValidity(of node: Node) -> Validity {
        let valid = context.validity(of: node)
        guard context.configuration.isInPlace, context.configuration.allowOther,
            valid.seconds > Validity.brief.seconds
        else {
            return valid
        }
        let isNoticed = !node.isOnSubmount && rightsWatcher?.isAtWork ?? false
        return isNoticed ? valid : .brief
    }
}
