// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import NIOCore

/// The messages that wait to be sent to a client, in order. On the event loop only.
///
/// Each message has a `write(2)` of its own. Some clients cannot read two messages in a single piece: Emacs' `jsonrpc.el` loses
/// the second of a request and a reply.
final class Outbox {
    private struct OutgoingMessage {
        let bytes: [UInt8]
        var isPushed = false
        /// The subscription that the message is for; such messages may be replaced by a gap.
        var subscription: UInt64?
        /// Called when all earlier messages are written; returns whether this message is still to be written.
        var isWanted: (() -> Bool)?
        /// Encodes the gap that replaces this message, if it is the first that is left out.
        var gap: (() throws -> [UInt8])?
        var isGap = false
    }

    private let channel: any Channel
    /// Called when there is room again, never within another call.
    private let hasRoom: () -> Void
    private var queue: CircularBuffer<OutgoingMessage> = []
    private var isWriting = false
    /// Whether `writeAll()` runs; a write may complete before the call that began it returns.
    private var isLooping = false
    private var whenEmpty: (() -> Void)?

    private var bytes = 0
    private var reserved = 0
    // Of messages that the client did not ask for.
    private var pushedBytes = 0
    private var pushedMessages = 0
    /// Subscriptions for which a gap waits to be sent.
    private var gaps: Set<UInt64> = []

    init(to channel: any Channel, hasRoom: @escaping () -> Void) {
        self.channel = channel
        self.hasRoom = hasRoom
    }

    /// Whether work for another reply may begin: the waiting and the reserved bytes are below the limit.
    var isOpen: Bool { bytes + reserved < ProtocolLimits.outboxBytes }

    /// Whether the client reads its messages, so that it may send more.
    var isRead: Bool { bytes < ProtocolLimits.outboxBytes }

    /// Whether presenters' messages pile up because the client does not read.
    ///
    /// The loop polls a full socket only later, and until then an event may be sent to each presenter. So the limit grows with
    /// the number of presenters.
    func isOverrun(telling presenters: Int) -> Bool {
        pushedBytes > ProtocolLimits.outboxBytes + presenters * ProtocolLimits.outboxBytesOfPresenter
            || pushedMessages
                > ProtocolLimits.outboxMessages + presenters * ProtocolLimits.outboxMessagesOfPresenter
    }

    /// Whether so many messages wait that dispensable ones should be left out.
    func isCrowded(telling presenters: Int) -> Bool {
        pushedBytes > (ProtocolLimits.outboxBytes + presenters * ProtocolLimits.outboxBytesOfPresenter) / 2
            || pushedMessages
                > (ProtocolLimits.outboxMessages + presenters * ProtocolLimits.outboxMessagesOfPresenter) / 2
    }

    /// Whether a gap for this subscription waits to be sent; it covers what happens now.
    func hasGap(for subscription: UInt64) -> Bool { gaps.contains(subscription) }

    /// Runs `body` when all messages that wait now have been written.
    func whenWritten(_ body: @escaping () -> Void) {
        append(
            OutgoingMessage(
                bytes: [],
                isWanted: {
                    body()
                    return false
                }))
        writeAll()
    }

    /// Sends a pushed message if `isWanted` returns true when the message is next to be written.
    func send(_ message: [UInt8], ifStill isWanted: @escaping () -> Bool) {
        append(OutgoingMessage(bytes: message, isPushed: true, isWanted: isWanted))
        writeAll()
    }

    /// Reserves room for a reply that is being made.
    func reserve(_ bytes: Int) { reserved += bytes }
    func release(_ bytes: Int) { reserved -= bytes }

    /// Sends a framed message; `isPushed` says that the client did not ask for it.
    func send(_ message: [UInt8], isPushed: Bool = false) {
        append(OutgoingMessage(bytes: message, isPushed: isPushed))
        writeAll()
    }

    /// Sends an event to a subscription; `gap` encodes the gap that replaces the event if it is left out.
    func send(_ message: [UInt8], about subscription: UInt64, orGap gap: @escaping () throws -> [UInt8]) {
        append(OutgoingMessage(bytes: message, isPushed: true, subscription: subscription, gap: gap))
        writeAll()
    }

    /// Drops the waiting events of a subscription, and sends a gap in place of the first of them.
    ///
    /// The gap has the number of that event.
    func leaveGap(for subscription: UInt64, orElse gap: () throws -> [UInt8]) throws {
        let first = queue.first { $0.subscription == subscription }
        let bytes = try first?.gap?() ?? gap()
        let message = OutgoingMessage(bytes: bytes, isPushed: true, subscription: subscription, isGap: true)
        let waiting = queue
        queue.removeAll(keepingCapacity: true)
        gaps.insert(subscription)
        var isPlaced = false
        for other in waiting {
            guard other.subscription == subscription else {
                queue.append(other)
                continue
            }
            count(other, -1)
            if !isPlaced { append(message) }
            isPlaced = true
        }
        if !isPlaced { append(message) }
        writeAll()
    }

    private func append(_ message: OutgoingMessage) {
        queue.append(message)
        count(message, 1)
    }

    private func count(_ message: OutgoingMessage, _ sign: Int) {
        bytes += sign * message.bytes.count
        guard message.isPushed else { return }
        pushedBytes += sign * message.bytes.count
        pushedMessages += sign
    }

    /// Runs `body` when all messages are written, or when writing has failed.
    ///
    /// ``clear()`` drops `body`.
    func finish(_ body: @escaping () -> Void) {
        whenEmpty = body
        writeAll()
    }

    /// Drops the messages that were not sent.
    func clear() {
        queue.removeAll()
        gaps = []
        whenEmpty = nil
    }

    private func writeAll() {
        guard !isLooping else { return }
        isLooping = true
        while !isWriting, let message = queue.popFirst() {
            guard message.isWanted?() ?? true else {
                count(message, -1)
                continue
            }
            isWriting = true
            if message.isGap, let subscription = message.subscription { gaps.remove(subscription) }
            channel.writeAndFlush(channel.allocator.buffer(bytes: message.bytes)).assumeIsolated()
                .whenComplete { _ in self.finish(message) }
        }
        isLooping = false
        guard !isWriting, let body = whenEmpty else { return }
        whenEmpty = nil
        body()
    }

    private func finish(_ message: OutgoingMessage) {
        let (wasOpen, wasRead) = (isOpen, isRead)
        isWriting = false
        count(message, -1)
        // The client may be read again before there is room for further replies.
        if (isOpen && !wasOpen) || (isRead && !wasRead) {
            channel.eventLoop.assumeIsolated().execute { self.hasRoom() }
        }
        writeAll()
    }
}
