// SPDX-License-Identifier: Apache-2.0
import Glibc
import LinuxSystem
import Testing

@Suite("Listening on a Unix socket")
struct UnixSocketTests {
    @Test("Listening on a socket never changes the umask of the process")
    func listeningDoesNotChangeTheUmask() async throws {
        let before = try Self.umask()
        let place = "/tmp/truce-listen-\(getpid())"
        try #require(mkdir(place, 0o700) == 0)
        defer { rmdir(place) }
        let directory = try OwnedDescriptor.openDirectory(at: place)
        let umasks = try await withThrowingTaskGroup(of: Set<String>.self) { group in
            group.addTask {
                try Set((0..<2_000).map { _ in try Self.umask() })
            }
            for number in 0..<500 {
                _ = try UnixSocket.listen(as: "\(number).sock", in: directory, mode: 0o666)
                unlink("\(place)/\(number).sock")
            }
            return try await group.reduce(into: Set<String>()) { $0.formUnion($1) }
        }
        #expect(umasks == [before])
    }

    @Test("A socket file has the requested mode", arguments: [0o600, 0o666] as [UInt32])
    func aSocketFileHasTheRequestedMode(of wanted: UInt32) throws {
        let place = "/tmp/truce-listen-mode-\(getpid())-\(wanted)"
        try #require(mkdir(place, 0o700) == 0)
        defer { rmdir(place) }
        let directory = try OwnedDescriptor.openDirectory(at: place)
        _ = try UnixSocket.listen(as: "one.sock", in: directory, mode: wanted)
        defer { unlink("\(place)/one.sock") }
        var status = stat()
        try #require(stat("\(place)/one.sock", &status) == 0)
        #expect(status.st_mode & 0o777 == wanted)
    }

    /// The umask of this process, as `/proc/self/status` shows it.
    private static func umask() throws -> String {
        let file = try #require(fopen("/proc/self/status", "r"))
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 256)
        while fgets(&line, CInt(line.count), file) != nil {
            let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            if text.hasPrefix("Umask:") { return text }
        }
        return ""
    }
}
