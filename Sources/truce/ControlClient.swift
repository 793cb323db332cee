// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Glibc
import LinuxSystem

let protocolVersion = ProtocolLimits.version

/// Finds mounts by the kernel's own table.
enum MountFinder {
    static func table() throws(CommandFailure) -> MountTable {
        do throws(Errno) {
            return try MountTable.current()
        } catch {
            throw CommandFailure(.failed, "the mount table /proc/self/mountinfo cannot be read: \(error)")
        }
    }

    /// The mount of ours that a path lies in.
    static func mount(holding path: [UInt8]) throws(CommandFailure) -> MountEntry {
        let resolved: [UInt8]
        do throws(Errno) {
            resolved = try ResolvedPath.bytes(ofMaybeMissing: path)
        } catch .noEntry {
            throw CommandFailure(.notFound, "'\(path.shown)' does not exist")
        } catch {
            throw CommandFailure(.failed, "'\(path.shown)' cannot be looked at: \(error)")
        }
        guard let mount = try table().containing(resolved), mount.isTruce else {
            throw CommandFailure(.notFound, "'\(resolved.shown)' is not in a folder mounted by truce")
        }
        return mount
    }

    /// A mount answers its own user and root, and nobody else may unmount it.
    static func checkOwner(of mount: MountEntry) throws(CommandFailure) {
        guard let owner = mount.user, geteuid() != 0, owner != geteuid() else { return }
        throw CommandFailure(
            .denied,
            "the mount at '\(mount.mountpoint.shown)' belongs to user \(owner); ask that user, or root")
    }
}

/// A plain blocking connection to the daemon of a mount.
struct ControlClient: ~Copyable {
    private static let timeoutSeconds = 5
    /// Generous: a list of paths is longer than what a client may send.
    private static let replyLimit = 16 << 20

    let peer: PeerCredentials
    let server: InitializeResult
    private let socket: OwnedDescriptor
    private var reader: FrameReader
    private var requests: Int64 = 1

    /// Trusts nothing but the kernel: the mount is of our type, and its daemon is root's or the caller's.
    init(to mount: MountEntry) throws(CommandFailure) {
        try MountFinder.checkOwner(of: mount)
        let place = mount.mountpoint.shown
        let socket = try Self.connection(to: mount)
        let peer: PeerCredentials
        do throws(Errno) { peer = try PeerCredentials(of: socket.rawValue) } catch {
            throw Self.unreachable(error, place)
        }
        let mayServe = peer.user == 0 || peer.user == geteuid() || (geteuid() == 0 && peer.user == mount.user)
        guard mayServe else {
            throw CommandFailure(
                .denied, "the mount at '\(place)' is served by user \(peer.user), whom you need not trust")
        }
        var reader = FrameReader(limit: Self.replyLimit)
        let hello = Request.initialize(InitializeParameters(client: "truce", version: Truce.version))
        server = try Self.call(hello, id: 0, socket, &reader)
        self.peer = peer
        self.reader = reader
        self.socket = socket
    }

    private static func connection(to mount: MountEntry) throws(CommandFailure) -> OwnedDescriptor {
        do throws(Errno) {
            return try UnixSocket.connect(to: attribute(of: mount), timeout: timeoutSeconds)
        } catch {
            throw unreachable(error, mount.mountpoint.shown)
        }
    }

    /// Where the control socket of a mount is.
    static func socketPath(of mount: MountEntry) throws(CommandFailure) -> [UInt8] {
        try MountFinder.checkOwner(of: mount)
        do throws(Errno) { return try attribute(of: mount) } catch {
            throw unreachable(error, mount.mountpoint.shown)
        }
    }

    /// What the daemon serves at the root of its mount.
    private static func attribute(of mount: MountEntry) throws(Errno) -> [UInt8] {
        let root = try mount.mountpoint.withPath { (path) throws(Errno) in try OwnedDescriptor.openPath(path)
        }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Int(PATH_MAX), alignment: 1)
        defer { buffer.deallocate() }
        let count = try root.extendedAttribute("user.truce.socket", into: buffer)
        return Array(buffer[..<count])
    }

    private static func unreachable(_ error: Errno, _ place: String) -> CommandFailure {
        switch error {
        case .notConnected:
            CommandFailure(.failed, "the daemon of '\(place)' is dead; 'truce mount \(place)' replaces it")
        case .noAccess: CommandFailure(.denied, "the mount at '\(place)' belongs to another user")
        case .noAttribute, .unsupported:
            CommandFailure(.failed, "the mount at '\(place)' has no control socket")
        default: CommandFailure(.failed, "the control socket of '\(place)' cannot be reached: \(error)")
        }
    }

    mutating func status() throws(CommandFailure) -> StatusForm { try call(.status) }

    mutating func kept(under path: [UInt8]) throws(CommandFailure) -> KeptListResult {
        try call(.keptList(KeptListParameters(path: path)))
    }

    mutating func read(_ id: String, at offset: Int64) throws(CommandFailure) -> KeptReadResult {
        try call(
            .keptRead(KeptReadParameters(id: id, offset: offset, length: ProtocolLimits.readBytes)))
    }

    private mutating func call<Value: Decodable>(_ request: Request) throws(CommandFailure) -> Value {
        defer { requests += 1 }
        return try Self.call(request, id: requests, socket, &reader)
    }

    private static func call<Value: Decodable>(
        _ request: Request, id: Int64, _ socket: borrowing OwnedDescriptor, _ reader: inout FrameReader
    ) throws(CommandFailure) -> Value {
        do {
            let message = try JSONForm.encode(RequestMessage(id: .number(id), request))
            try send(Framing.lines.frame(message), socket)
            let bytes = try receive(socket, &reader)
            return try ResponseMessage<Value>(decoding: bytes).outcome.get()
        } catch let failure as Failure {
            throw CommandFailure(failure.exitStatus, failure.message)
        } catch let error as Errno where error == .wouldBlock {
            throw CommandFailure(.timedOut, "the daemon did not answer within \(timeoutSeconds) s")
        } catch {
            throw CommandFailure(.failed, "the daemon's answer could not be understood: \(error)")
        }
    }

    /// Whoever is refused is told why and hung up on at once, maybe before anything could be sent.
    private static func send(_ bytes: [UInt8], _ socket: borrowing OwnedDescriptor) throws(Errno) {
        do throws(Errno) {
            try socket.send(bytes)
        } catch {
            guard error == .brokenPipe else { throw error }
        }
    }

    private static func receive(
        _ socket: borrowing OwnedDescriptor, _ reader: inout FrameReader
    ) throws -> [UInt8] {
        while true {
            if let message = try reader.next() { return message }
            let piece = try socket.receive()
            guard !piece.isEmpty else { throw Errno.notConnected }
            reader.append(piece)
        }
    }
}

extension Failure {
    /// The codes of the protocol in the codes of the command.
    fileprivate var exitStatus: ExitStatus {
        switch code {
        case Failure.denied("").code: .denied
        case Failure.notFound("").code: .notFound
        default: .failed
        }
    }
}
