// SPDX-License-Identifier: Apache-2.0
import CTestSupport
import Foundation
import Glibc

/// A connection to the daemon of a mount. It implements the protocol itself, without the library of Truce.
struct Client {
    typealias Message = [String: Any]
    struct Failure: Error { let message: String }

    /// The functions that handle the daemon's requests, by the names of the requests.
    var handlers: [String: (Message) throws -> Void] = [:]
    private let socket: FileHandle
    private var rest = Data()
    private var calls = 0
    private var notices: [Message] = []
    /// Functions, by the names of notices, that are called as soon as such a notice arrives. The notice itself is handled
    /// later, in its order.
    var listeners: [String: () -> Void] = [:]

    init(mount: String) throws {
        // The attribute with the socket's path counts only if the kernel says that the directory is a mount of Truce.
        let mounts = try String(contentsOfFile: "/proc/self/mountinfo", encoding: .utf8)
        let place = mount.replacing(" ", with: "\\040")
        let mounted = mounts.split(separator: "\n").last { $0.split(separator: " ")[4] == place }
        guard let mounted, mounted.contains(" - fuse.truce ") else {
            throw Failure(message: "\(mount) is no mount of Truce")
        }
        socket = try Self.connect(mount)
        let client = ["name": "SwiftClient", "version": "1"]
        _ = try call("initialize", ["client": client, "protocol": ["min": 1, "max": 1]])
    }

    private static func connect(_ mount: String) throws -> FileHandle {
        let descriptor = Glibc.socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        // Root and the owner of the mount have a socket of their own, so that they do not wait behind other users.
        let attributes = ["user.truce.socket.owner", "user.truce.socket"]
        let length = withUnsafeMutableBytes(of: &address.sun_path) { path in
            attributes.lazy.map { getxattr(mount, $0, path.baseAddress, path.count - 1) }
                .first { $0 > 0 } ?? 0
        }
        let isConnected = withUnsafePointer(to: address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
            }
        }
        guard length > 0, isConnected else { throw Failure(message: "\(mount) cannot be reached") }
        return FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
    }

    private func send(_ message: Message) throws {
        let message = message.merging(["jsonrpc": "2.0"]) { old, _ in old }
        try socket.write(contentsOf: try JSONSerialization.data(withJSONObject: message) + [10])
    }

    private mutating func line() throws -> Data {
        while true {
            if let end = rest.firstIndex(of: 10) {
                defer { rest = Data(rest[(end + 1)...]) }
                return Data(rest[..<end])
            }
            let piece = socket.availableData
            guard !piece.isEmpty else { throw Failure(message: "the daemon has hung up") }
            rest += piece
        }
    }

    /// Receives a message. The daemon's requests are answered at once, also while this client waits for a reply.
    private mutating func receive() throws -> Message {
        guard let message = try JSONSerialization.jsonObject(with: line()) as? Message else { return [:] }
        if let method = message["method"] as? String, let id = message["id"] {
            do {
                guard let handler = handlers[method] else { throw Failure(message: "not implemented") }
                try handler(message["params"] as? Message ?? [:])
                try send(["id": id, "result": Message()])
            } catch {
                try send(["id": id, "error": ["code": 1, "message": "\(error)"] as Message])
            }
        } else if let method = message["method"] as? String {
            listeners[method]?()
            notices.append(message)
        }
        return message
    }

    mutating func call(_ method: String, _ parameters: Message) throws -> Message {
        calls += 1
        try send(["id": calls, "method": method, "params": parameters])
        while true {
            let message = try receive()
            guard message["method"] == nil, message["id"] as? Int == calls else { continue }
            if let result = message["result"] as? Message { return result }
            throw Failure(message: "\(method): \(message["error"] ?? "no result")")
        }
    }

    mutating func notice() throws -> (method: String, parameters: Message) {
        while notices.isEmpty { _ = try receive() }
        let notice = notices.removeFirst()
        return (notice["method"] as? String ?? "", notice["params"] as? Message ?? [:])
    }
}
