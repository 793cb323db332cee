// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import NIOCore

/// What a client has still to be sent, in order; each message in a `write(2)` of its own.
///
/// A request and a reply that arrive in one piece are more than some clients expect: Emacs' `jsonrpc.el` loses
/// the second. On the event loop only.
final class Outbox {
    private struct Message {
        let bytes: [UInt8]
        let isPushed: Bool
    }

    private let channel: any Channel
    /// Called when there is room again, never in the middle of something else.
    private let hasRoom: () -> Void
    private var queue: CircularBuffer<Message> = []
    private var isWriting = false
    /// A write may be done before the call that began it returns.
    private var isLooping = false
    private var whenEmpty: (() -> Void)?

    private var bytes = 0
    private var reserved = 0
    // Of what the client did not ask for.
    private var pushedBytes = 0
    private var pushedMessages = 0

    init(to channel: any Channel, hasRoom: @escaping () -> Void) {
        self.channel = channel
        self.hasRoom = hasRoom
    }

    /// Whether work for another reply may begin: the client reads, and replies in the making will fit.
    var isOpen: Bool { bytes + reserved < ProtocolLimits.outboxBytes }

    /// Whether the client reads what it is sent, so that it may say more.
    var isRead: Bool { bytes < ProtocolLimits.outboxBytes }

    /// Whether presenters' messages pile up because the client does not read.
    var isOverrun: Bool {
        pushedBytes > ProtocolLimits.outboxBytes || pushedMessages > ProtocolLimits.outboxMessages
    }

    /// Keeps room for a reply in the making.
    func reserve(_ bytes: Int) { reserved += bytes }
    func release(_ bytes: Int) { reserved -= bytes }

    /// Sends bytes that are framed already. `isPushed`: the client did not ask for them.
    func send(_ message: [UInt8], isPushed: Bool = false) {
        queue.append(Message(bytes: message, isPushed: isPushed))
        bytes += message.count
        if isPushed {
            pushedBytes += message.count
            pushedMessages += 1
        }
        writeAll()
    }

    /// Runs `body` when everything has been sent, or can no longer be.
    func finish(_ body: @escaping () -> Void) {
        whenEmpty = body
        writeAll()
    }

    /// Forgets what was not sent.
    func clear() {
        queue.removeAll()
        whenEmpty = nil
    }

    private func writeAll() {
        guard !isLooping else { return }
        isLooping = true
        while !isWriting, let message = queue.popFirst() {
            isWriting = true
            channel.writeAndFlush(channel.allocator.buffer(bytes: message.bytes)).assumeIsolated()
                .whenComplete { _ in self.finish(message) }
        }
        isLooping = false
        guard !isWriting, let body = whenEmpty else { return }
        whenEmpty = nil
        body()
    }

    private func finish(_ message: Message) {
        let hadRoom = isOpen
        isWriting = false
        bytes -= message.bytes.count
        if message.isPushed {
            pushedBytes -= message.bytes.count
            pushedMessages -= 1
        }
        if isOpen, !hadRoom { channel.eventLoop.assumeIsolated().execute { self.hasRoom() } }
        writeAll()
    }
}
