// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import ControlServer
import Coordination
import CoordinationEngine
import Glibc
import LinuxSystem
import Testing

/// Checks the server of the control socket, on a real socket with stand-ins for the mount and the version store.
///
/// The tests run one after another, because they count the connections of one user.
@Suite(.serialized)
struct ControlServerTests {
    @Test("after initialize, a client gets the status and reads a version's bytes")
    func aClientGetsTheStatusAndReadsAVersion() throws {
        try withServer { server in
            let client = try server.connect()
            try client.initialize()
            #expect(
                try client.ask(#"{"jsonrpc":"2.0","id":"s","method":"status"}"#).contains(#""granted":7"#))
            let read = try client.ask(
                RawClient.read("0123456789abcdef", at: 1, count: 3)
            )
            let result = try ResponseMessage<VersionReadResult>(decoding: Array(read.utf8)).outcome.get()
            #expect(result.bytes == Array("ept".utf8))
            #expect(!result.isAtEnd)
            let denied = try client.ask(
                RawClient.read("ffffffffffffffff", at: 1, count: 3)
            )
            #expect(denied.contains("-32004"))
        }
    }

    @Test("requests before initialize, a second initialize and another protocol version are refused")
    func initializeMustBeTheFirstRequestAndOccurOnce() throws {
        try withServer { server in
            let client = try server.connect()
            for method in ["status", "present"] {
                let request = #"{"jsonrpc":"2.0","id":1,"method":"\#(method)"}"#
                #expect(try client.ask(request).contains("-32002"))
            }
            let future =
                #"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocol":{"min":2,"max":3}}}"#
            #expect(try client.ask(future).contains("-32003"))
            try client.initialize()
            #expect(try client.ask(#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#).contains("-32600"))
            #expect(try client.ask(#"{"jsonrpc":"2.0","id":1,"method":"present"}"#).contains("-32601"))
        }
    }

    @Test(
        "invalid text gets an error; notifications and unknown answers get no reply; the connection stays open"
    )
    func invalidTextDoesNotCloseTheConnection() throws {
        try withServer { server in
            let client = try server.connect()
            #expect(try client.ask("nonsense").contains("-32700"))
            #expect(try client.ask(String(repeating: "[", count: 100_000)).contains("-32700"))
            #expect(try client.ask("[]").contains("-32600"))
            try client.send(#"{"jsonrpc":"2.0","method":"status"}"# + "\n")
            try client.send(#"{"jsonrpc":"2.0","id":9,"result":{}}"# + "\n")
            try client.initialize()
        }
    }

    @Test("a request in Content-Length framing gets its reply in Content-Length framing")
    func aReplyUsesTheRequestsFraming() throws {
        try withServer { server in
            let client = try server.connect()
            let message = #"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#
            try client.send("Content-Length: \(message.utf8.count)\r\n\r\n\(message)")
            let answer = String(decoding: try client.socket.receive(), as: UTF8.self)
            #expect(answer.hasPrefix("Content-Length: "))
            #expect(answer.contains("\r\n\r\n{"))
        }
    }

    @Test("a message above 1 MiB gets an error, and the connection is closed with a line in the log")
    func aMessageAbove1MiBClosesTheConnection() throws {
        let log = try withServer { server in
            let client = try server.connect()
            // The server may close the connection before the whole message is sent.
            do { try client.send(String(repeating: "x", count: (1 << 20) + 1)) } catch {}
            let answer = String(decoding: try client.receiveToEnd(), as: UTF8.self)
            #expect(answer.contains("-32600"))
            #expect(answer.contains("1048576"))
        }
        #expect(log.contains { $0.contains("1048576") })
    }

    @Test("a client that shuts down its sending side after its requests still gets every reply")
    func aClientThatSendsNoMoreGetsAllReplies() throws {
        try withServer { server in
            let client = try server.connect()
            let read =
                RawClient.read("0123456789abcdef", at: 0, count: 9)
            try client.send(#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"# + "\n" + read + "\n")
            #expect(shutdown(client.socket.rawValue, CInt(SHUT_WR)) == 0)
            let lines = String(decoding: try client.receiveToEnd(), as: UTF8.self).split(separator: "\n")
            #expect(lines.count == 2)
        }
    }

    @Test(
        "an incomplete last message gets an error, and the log names the reason",
        arguments: [
            "{", #"{"jsonrpc":"2.0","id":1,"method":"status"}"#, "Content-Le", "Content-Length: 9\r\n\r\n{}",
        ])
    func anIncompleteLastMessageGetsAnError(text: String) throws {
        let log = try withServer { server in
            let client = try server.connect()
            try client.send(text)
            #expect(shutdown(client.socket.rawValue, CInt(SHUT_WR)) == 0)
            let answer = String(decoding: try client.receiveToEnd(), as: UTF8.self)
            #expect(answer.contains("-32600"))
            #expect(answer.contains("cut off"))
        }
        #expect(log.contains { $0.contains("closed: the last message is cut off") })
    }

    @Test("requests above the limit of outstanding requests all get their replies")
    func requestsAboveTheOutstandingLimitAreAnswered() throws {
        try withServer { server in
            let client = try server.connect()
            let count = ProtocolLimits.outstandingRequests * 5
            var text = #"{"jsonrpc":"2.0","id":0,"method":"initialize"}"# + "\n"
            for id in 1...count {
                text += #"{"jsonrpc":"2.0","id":\#(id),"method":"kept/list"}"# + "\n"
            }
            try client.send(text)
            #expect(shutdown(client.socket.rawValue, CInt(SHUT_WR)) == 0)
            let lines = String(decoding: try client.receiveToEnd(), as: UTF8.self).split(separator: "\n")
            #expect(lines.count == count + 1)
        }
    }

    @Test("a user may have 64 connections; the next is refused until one is closed")
    func aUserMayHave64ConnectionsAndNoMore() throws {
        try withServer { server in
            var clients: [RawClient] = []
            for _ in 0..<ProtocolLimits.connectionsPerUser {
                let client = try server.connect()
                try client.initialize()
                clients.append(client)
            }
            let refused = try server.connect()
            #expect(String(decoding: try refused.receiveToEnd(), as: UTF8.self).contains("-32005"))
            // When the server has sent all replies to this client, it notices that the client has shut down its side.
            shutdown(clients[0].socket.rawValue, CInt(SHUT_WR))
            _ = try clients[0].receiveToEnd()
            clients.removeFirst()
            #expect(try server.becomesUsable())
        }
    }

    @Test("a dead daemon's socket is replaced, a running daemon's socket is not")
    func aDeadDaemonsSocketIsReplaced() throws {
        let directory = try TemporaryDirectory()
        let first = try directory.makeSocket()
        let second = try directory.makeSocket()
        #expect(first.path != second.path)
        let (firstPath, secondPath) = (first.path, second.path)
        try second.remove()
        #expect(access(secondPath, F_OK) != 0)
        // After a SIGKILL the listener is closed, but the socket's name is still in the directory. This call makes the same
        // state as a SIGKILL.
        try directory.abandon(first)
        #expect(access(firstPath, F_OK) == 0)
        let third = try directory.makeSocket()
        #expect(third.path == firstPath)
        try third.remove()
    }

    @Test("root's socket lies in /run/truce, a user's in $XDG_RUNTIME_DIR, /run/user/UID or /tmp/truce-UID")
    func socketDirectoriesFollowTheProtocol() {
        let user = SocketDirectory.candidates(user: 1000, runtimeDirectory: "/x")
        #expect(user.map(\.path) == ["/x/truce", "/run/user/1000/truce", "/tmp/truce-1000"])
        #expect(user.allSatisfy { $0.mode == 0o700 && $0.socketMode == 0o600 })
        #expect(
            SocketDirectory.candidates(user: 1000, runtimeDirectory: "x").map(\.path).first
                == "/run/user/1000/truce")
        let root = SocketDirectory.candidates(user: 0, runtimeDirectory: nil)
        #expect(root.first?.path == "/run/truce")
        #expect(root.first?.mode == 0o755)
        #expect(root.first?.socketMode == 0o666)
    }

    @Test(
        "a socket directory that other users may enter is not used; the socket is made in another directory")
    func anUnsafeSocketDirectoryIsNotUsed() throws {
        let directory = try TemporaryDirectory()
        // The server requires mode 0700, so mode 0755 allows too much.
        #expect(mkdir(directory.socketDirectory, 0o755) == 0)
        // The umask belongs to the whole process, and another test may have changed it, so the test sets the mode again.
        #expect(chmod(directory.socketDirectory, 0o755) == 0)
        let first = try directory.makeSocket()
        #expect(!first.path.hasPrefix(directory.path + "/"))
        try first.remove()
    }
}
