// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// The process, user and group of a Unix socket's peer, as the kernel recorded them at the time of the connection.
package struct PeerCredentials: Hashable, Sendable {
    package var pid: Int32
    package var user: UInt32
    package var group: UInt32

    package init(pid: Int32, user: UInt32, group: UInt32) {
        self.pid = pid
        self.user = user
        self.group = group
    }

    /// Reads `SO_PEERCRED`. For a client's socket, these are the credentials of the process that called `listen(2)`.
    package init(of socket: CInt) throws(Errno) {
        var credentials = clinux_credentials()
        guard clinux_peer_credentials(socket, &credentials) == 0 else { throw .last }
        self.init(pid: credentials.pid, user: credentials.user, group: credentials.group)
    }
}

/// Unix stream sockets that have a name in a directory.
package enum UnixSocket {
    /// Creates a listening socket under a name in a directory, and replaces any file of that name.
    ///
    /// The path leads through the descriptor of the directory, so the limit of 108 bytes applies only to the name. The socket
    /// gets its name after it listens, so every client that finds the name can connect.
    package static func listen(
        as name: String, in directory: borrowing OwnedDescriptor, mode: UInt32
    ) throws(Errno) -> OwnedDescriptor {
        let socket = try makeSocket()
        let temporary = ".\(getpid()).tmp"
        unlinkat(directory.rawValue, temporary, 0)
        try bindSocket(socket.rawValue, to: "/proc/self/fd/\(directory.rawValue)/\(temporary)")
        do throws(Errno) {
            guard Glibc.listen(socket.rawValue, 128) == 0 else { throw .last }
            guard fchmodat(directory.rawValue, temporary, mode, 0) == 0 else { throw .last }
            guard renameat(directory.rawValue, temporary, directory.rawValue, name) == 0 else { throw .last }
        } catch {
            unlinkat(directory.rawValue, temporary, 0)
            throw error
        }
        return socket
    }

    /// Refuses all connections from now on. Connections that were not accepted yet are closed, because their clients would wait
    /// for ever.
    package static func refuseAll(on listener: borrowing OwnedDescriptor) {
        shutdown(listener.rawValue, CInt(SHUT_RDWR))
        while true {
            let late = Glibc.accept(listener.rawValue, nil, nil)
            guard late >= 0 else { return }
            close(late)
        }
    }

    /// Waits for the next connection and returns it; throws `EINVAL` after ``refuseAll(on:)``.
    package static func accept(on listener: borrowing OwnedDescriptor) throws(Errno) -> OwnedDescriptor {
        while true {
            let socket = clinux_accept(listener.rawValue)
            if socket >= 0 { return OwnedDescriptor(adopting: socket) }
            let error = Errno.last
            // It is not an error if a client closes its connection before the connection is accepted.
            guard error == .interrupted || error.rawValue == ECONNABORTED else { throw error }
        }
    }

    /// Waits for a time without accepting connections, for example when this process can open no more descriptors.
    package static func pause(milliseconds: Int32) { poll(nil, 0, milliseconds) }

    /// Connects to a socket. Every later call on the connection has the time limit `seconds`.
    package static func connect(to path: [UInt8], timeout seconds: Int) throws(Errno) -> OwnedDescriptor {
        guard let slash = path.lastIndex(of: UInt8(ascii: "/")) else { throw Errno(rawValue: EINVAL) }
        let parent = Array(path[...slash])
        let directory = try parent.withPath { (path) throws(Errno) in try OwnedDescriptor.openPath(path) }
        let name = Array(path[(slash + 1)...])
        return try connect(to: name, in: directory, timeout: seconds)
    }

    package static func connect(
        to name: [UInt8], in directory: borrowing OwnedDescriptor, timeout seconds: Int
    ) throws(Errno) -> OwnedDescriptor {
        let socket = try makeSocket()
        // The kernel uses the limit for sending also for connect(2).
        var limit = timeval(tv_sec: seconds, tv_usec: 0)
        let size = socklen_t(MemoryLayout<timeval>.size)
        guard setsockopt(socket.rawValue, SOL_SOCKET, SO_SNDTIMEO, &limit, size) == 0,
            setsockopt(socket.rawValue, SOL_SOCKET, SO_RCVTIMEO, &limit, size) == 0
        else { throw .last }
        var address = try address(Array("/proc/self/fd/\(directory.rawValue)/".utf8) + name)
        let result = withGenericAddress(&address) { Glibc.connect(socket.rawValue, $0, $1) }
        guard result == 0 else { throw .last }
        return socket
    }

    private static func makeSocket() throws(Errno) -> OwnedDescriptor {
        let type = CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
        return OwnedDescriptor(adopting: try retryingOnInterrupt { socket(AF_UNIX, type, 0) })
    }

    private static func bindSocket(_ socket: CInt, to path: String) throws(Errno) {
        var address = try address(Array(path.utf8))
        // The socket gets mode 0600 before it gets its name, so no other user can connect at that moment. The name gets the
        // mode of the socket, less the umask. The umask is not changed for this purpose, because it would affect files that
        // other threads create at the same time.
        guard fchmod(socket, 0o600) == 0 else { throw .last }
        let result = withGenericAddress(&address) { Glibc.bind(socket, $0, $1) }
        guard result == 0 else { throw .last }
    }

    private static func address(_ path: [UInt8]) throws(Errno) -> sockaddr_un {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        guard path.count < MemoryLayout.size(ofValue: address.sun_path) else {
            throw Errno(rawValue: ENAMETOOLONG)
        }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path) }
        return address
    }

    private static func withGenericAddress(
        _ address: inout sockaddr_un, _ body: (UnsafePointer<sockaddr>, socklen_t) -> CInt
    ) -> CInt {
        withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
    }
}

/// Blocking calls by which a client sends a message and waits for the answer.
extension OwnedDescriptor {
    /// Sends all bytes; throws `EPIPE`, without a signal, if the other end is closed.
    package borrowing func send(_ bytes: [UInt8]) throws(Errno) {
        var rest = bytes[...]
        let socket = rawValue
        while !rest.isEmpty {
            let part = Array(rest)
            let count = try retryingOnInterrupt {
                Glibc.send(socket, part, part.count, CInt(MSG_NOSIGNAL))
            }
            rest = rest.dropFirst(count)
        }
    }

    /// Sends as many bytes as fit into the socket's buffer, without waiting. A message of a few bytes is never split.
    package borrowing func sendNow(_ bytes: [UInt8]) throws(Errno) {
        guard Glibc.send(rawValue, bytes, bytes.count, CInt(MSG_NOSIGNAL) | CInt(MSG_DONTWAIT)) >= 0 else {
            throw .last
        }
    }

    /// Returns the next bytes; none at the end of the stream. Throws `EWOULDBLOCK` after the timeout.
    package borrowing func receive() throws(Errno) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: 64 << 10)
        let socket = rawValue
        let count = try retryingOnInterrupt { recv(socket, &bytes, bytes.count, 0) }
        return Array(bytes[..<count])
    }
}
