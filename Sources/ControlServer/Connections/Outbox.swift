// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import NIOCore

/// The messages that wait to be sent to a client, in order. Used only on the event loop.
///
/// Each message is written by a separate `write(2)`. Some clients lose messages that they read in one piece: if a request and a
/// reply arrive in one read, Emacs' `jsonrpc.el` loses the second.
final class Outbox {
    private struct OutgoingMessage {
        let bytes: [UInt8]
        var isPushed = false
        /// The subscription that receives the message, if the message is an event. If too many events wait, one event of the
        /// kind `gap` replaces them.
        var subscription: UInt64?
        /// Called when all messages before this message are written. If it returns false, this message is not written.
        var isWanted: (() -> Bool)?
        /// Encodes an event of the kind `gap`. Called if a gap replaces several events and this message is the first of them.
        var gap: (() throws -> [UInt8])?
        var isGap = false
    }

    private let channel: any Channel
    /// Called when the daemon may again begin requests of the client, or read from the client. Never called while another
    /// method of this object runs.
    private let hasRoom: () -> Void
    private var queue: CircularBuffer<OutgoingMessage> = []
    private var isWriting = false
    /// Whether `writeAll()` is running. If a write completes before the call that began it returns, the loop must not begin a
    /// second time.
    private var isLooping = false
    private var whenEmpty: (() -> Void)?

    private var bytes = 0
    private var reserved = 0
    // The bytes and the number of waiting messages that are not replies, such as questions, notices and events.
    private var pushedBytes = 0
    private var pushedMessages = 0
    /// The subscriptions for which the queue contains an event of the kind `gap`. The gap tells the client that events are
    /// missing.
    private var gaps: Set<UInt64> = []

    init(to channel: any Channel, hasRoom: @escaping () -> Void) {
        self.channel = channel
        self.hasRoom = hasRoom
    }

    /// Whether work for one more reply may begin: the waiting bytes plus the bytes that are reserved for replies are below the
    /// limit.
    var isOpen: Bool { bytes + reserved < ProtocolLimits.outboxBytes }

    /// Whether the client reads its messages fast enough. Only then does the daemon read further messages of the client.
    var isRead: Bool { bytes < ProtocolLimits.outboxBytes }

    /// Whether so many messages to presenters wait that the connection must be closed, because the client does not read.
    ///
    /// One event can cause a message to each presenter before the first message is written. So the limit grows with the number
    /// of presenters.
    func isOverrun(telling presenters: Int) -> Bool {
        pushedBytes > ProtocolLimits.outboxBytes + presenters * ProtocolLimits.outboxBytesOfPresenter
            || pushedMessages
                > ProtocolLimits.outboxMessages + presenters * ProtocolLimits.outboxMessagesOfPresenter
    }

    /// Whether so many messages wait that notices and events about names are not sent to the client for now.
    func isCrowded(telling presenters: Int) -> Bool {
        pushedBytes > (ProtocolLimits.outboxBytes + presenters * ProtocolLimits.outboxBytesOfPresenter) / 2
            || pushedMessages
                > (ProtocolLimits.outboxMessages + presenters * ProtocolLimits.outboxMessagesOfPresenter) / 2
    }

    /// Whether the queue contains an event of the kind `gap` for this subscription. Later events then need not be sent, because
    /// the gap tells the client that events are missing.
    func hasGap(for subscription: UInt64) -> Bool { gaps.contains(subscription) }

    /// Calls `body` when all messages that are in the queue now have been written.
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

    /// Queues a message that is not a reply. When it is the next message to be written, `isWanted` is called. If that returns
    /// false, the message is dropped.
    func send(_ message: [UInt8], ifStill isWanted: @escaping () -> Bool) {
        append(OutgoingMessage(bytes: message, isPushed: true, isWanted: isWanted))
        writeAll()
    }

    /// Reserves room for a reply that is not encoded yet.
    func reserve(_ bytes: Int) { reserved += bytes }
    func release(_ bytes: Int) { reserved -= bytes }

    /// Sends a message in the framing of the connection. `isPushed` says that the message is not a reply.
    func send(_ message: [UInt8], isPushed: Bool = false) {
        append(OutgoingMessage(bytes: message, isPushed: isPushed))
        writeAll()
    }

    /// Sends an event to a subscription. If a gap later replaces the event, `gap` encodes that gap.
    func send(_ message: [UInt8], about subscription: UInt64, orGap gap: @escaping () throws -> [UInt8]) {
        append(OutgoingMessage(bytes: message, isPushed: true, subscription: subscription, gap: gap))
        writeAll()
    }

    /// Drops the waiting events of a subscription, and puts an event of the kind `gap` where the first of them was.
    ///
    /// The gap has the number of that first event. If no event waits, `gap` encodes the gap.
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

    /// Calls `body` when all messages are written, or when writing has failed.
    ///
    /// If ``clear()`` is called before that, `body` is not called.
    func finish(_ body: @escaping () -> Void) {
        whenEmpty = body
        writeAll()
    }

    /// Drops all messages that were not written yet.
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
        // The connection is told of two changes: there is room for replies again, or the client's messages may be read
        // again. Each change can happen without the other.
        if (isOpen && !wasOpen) || (isRead && !wasRead) {
            channel.eventLoop.assumeIsolated().execute { self.hasRoom() }
        }
        writeAll()
    }
}
