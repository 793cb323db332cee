// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import NIOCore

/// What a client has still to be sent, in order; each message in a `write(2)` of its own.
///
/// A request and a reply that arrive in one piece are more than some clients expect: Emacs' `jsonrpc.el` loses
/// the second. On the event loop only.
final class Outbox {
    private struct OutgoingMessage {
        let bytes: [UInt8]
        var isPushed = false
        /// The subscription that is told of something, and whose client can see for itself if it must.
        var subscription: UInt64?
        /// Called when all before it has been written; returns whether it is to be written, too.
        var isWanted: (() -> Bool)?
        /// What says that there was more, to be sent instead if this is the first that is left out.
        var gap: (() throws -> [UInt8])?
        var isGap = false
    }

    private let channel: any Channel
    /// Called when there is room again, never in the middle of something else.
    private let hasRoom: () -> Void
    private var queue: CircularBuffer<OutgoingMessage> = []
    private var isWriting = false
    /// A write may be done before the call that began it returns.
    private var isLooping = false
    private var whenEmpty: (() -> Void)?

    private var bytes = 0
    private var reserved = 0
    // Of what the client did not ask for.
    private var pushedBytes = 0
    private var pushedMessages = 0
    /// Subscriptions that will be told that there was more than they are told of.
    private var gaps: Set<UInt64> = []

    init(to channel: any Channel, hasRoom: @escaping () -> Void) {
        self.channel = channel
        self.hasRoom = hasRoom
    }

    /// Whether work for another reply may begin: the client reads, and replies in the making will fit.
    var isOpen: Bool { bytes + reserved < ProtocolLimits.outboxBytes }

    /// Whether the client reads what it is sent, so that it may say more.
    var isRead: Bool { bytes < ProtocolLimits.outboxBytes }

    /// Whether presenters' messages pile up because the client does not read.
    ///
    /// Nothing more is written to a full socket before the loop comes round to it, and until then one event may be told to
    /// each of so many presenters: that says nothing about whether the client reads.
    func isOverrun(telling presenters: Int) -> Bool {
        pushedBytes > ProtocolLimits.outboxBytes + presenters * ProtocolLimits.outboxBytesOfPresenter
            || pushedMessages
                > ProtocolLimits.outboxMessages + presenters * ProtocolLimits.outboxMessagesOfPresenter
    }

    /// Whether so much waits that what can be left out should be.
    func isCrowded(telling presenters: Int) -> Bool {
        pushedBytes > (ProtocolLimits.outboxBytes + presenters * ProtocolLimits.outboxBytesOfPresenter) / 2
            || pushedMessages
                > (ProtocolLimits.outboxMessages + presenters * ProtocolLimits.outboxMessagesOfPresenter) / 2
    }

    /// Whether a subscription will be told that there was more, and so has seen nothing yet of what happens now.
    func hasGap(for subscription: UInt64) -> Bool { gaps.contains(subscription) }

    /// Runs `body` when all that waits now has been written.
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

    /// Sends what the client did not ask for if it is still wanted when its turn comes.
    func send(_ message: [UInt8], ifStill isWanted: @escaping () -> Bool) {
        append(OutgoingMessage(bytes: message, isPushed: true, isWanted: isWanted))
        writeAll()
    }

    /// Keeps room for a reply in the making.
    func reserve(_ bytes: Int) { reserved += bytes }
    func release(_ bytes: Int) { reserved -= bytes }

    /// Sends bytes that are framed already. `isPushed`: the client did not ask for them.
    func send(_ message: [UInt8], isPushed: Bool = false) {
        append(OutgoingMessage(bytes: message, isPushed: isPushed))
        writeAll()
    }

    /// Sends what a subscription is told, or what `gap` makes of it if it must be left out.
    func send(_ message: [UInt8], about subscription: UInt64, orGap gap: @escaping () throws -> [UInt8]) {
        append(OutgoingMessage(bytes: message, isPushed: true, subscription: subscription, gap: gap))
        writeAll()
    }

    /// Leaves out what a subscription has not been sent, and sends a gap in the place of the first of it, under the number of
    /// that.
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

    /// Runs `body` when everything has been sent, or can no longer be.
    func finish(_ body: @escaping () -> Void) {
        whenEmpty = body
        writeAll()
    }

    /// Forgets what was not sent.
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
        // It may be read again while there is no room yet for what it asks for.
        if (isOpen && !wasOpen) || (isRead && !wasRead) {
            channel.eventLoop.assumeIsolated().execute { self.hasRoom() }
        }
        writeAll()
    }
}
