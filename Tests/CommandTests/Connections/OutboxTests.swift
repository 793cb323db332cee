// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Glibc
import LinuxSystem
import NIOCore
import NIOPosix
import Testing

import func TestSupport.eventually

@testable import ControlServer

/// Checks the outbox, which stores the messages that the server must still send to a client.
@Suite("The outbox of a connection")
struct OutboxTests {
    @Test("a client that reads its replies may send requests before the outbox has room for their replies")
    func aClientThatReadsMaySendMoreRequests() throws {
        var ends: [CInt] = [0, 0]
        try #require(socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0, &ends) == 0)
        let client = OwnedDescriptor(adopting: ends[1])
        var limit = timeval(tv_sec: 10, tv_usec: 0)
        setsockopt(ends[1], SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        let channel = try ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .withConnectedSocket(ends[0]).wait()
        let loop = channel.eventLoop
        let (rooms, size) = (CallTally(), ProtocolLimits.outboxBytes * 3 / 4)
        let outbox = try loop.submit {
            let outbox = Outbox(to: channel) { rooms.add() }
            outbox.reserve(ProtocolLimits.outboxBytes)
            for _ in 0..<2 { outbox.send([UInt8](repeating: 0x61, count: size)) }
            return NIOLoopBound(outbox, eventLoop: loop)
        }.wait()
        #expect(try loop.submit { outbox.value.isRead }.wait() == false)
        var left = 2 * size
        while left > 0 {
            let piece = try client.receive()
            try #require(!piece.isEmpty, "the server hung up")
            left -= piece.count
        }
        try eventually(within: .seconds(10), "the room to be told of") { rooms.count > 0 }
        #expect(try loop.submit { outbox.value.isRead && !outbox.value.isOpen }.wait())
        try channel.close().wait()
    }
}
