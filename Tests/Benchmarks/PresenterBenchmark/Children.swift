// SPDX-License-Identifier: Apache-2.0
import Glibc
import LinuxSystem

/// Child processes that end when this process ends or is killed. The input of each child then ends, and the child notices this.
///
/// The children run the same program as this process. The presenters are in other processes than the reader, because a
/// presenter is asked only about accesses of other processes.
final class Children {
    private var lifeline: OwnedDescriptor?
    private let input: OwnedDescriptor
    private var processes: [Int32] = []

    init() throws {
        let pipe = try Pipe()
        lifeline = try .duplicating(pipe.writeEnd.rawValue)
        input = pipe.reading()
    }

    /// Starts a child, and waits until the child prints that it is ready.
    func start(_ words: [String], as user: UInt32) throws {
        let pipe = try Pipe()
        processes.append(
            try Self.spawn(words, as: user, input: input.rawValue, output: pipe.writeEnd.rawValue))
        let output = Output(pipe.reading())
        guard try output.line() == "ready" else { complain("\(words[0]) did not start") }
    }

    /// Ends all children, and waits until they have ended.
    func end() throws {
        lifeline = nil
        for process in processes { _ = try OtherProcess.exitCode(of: process) }
        processes = []
    }

    static func spawn(_ words: [String], as user: UInt32, input: CInt, output: CInt) throws -> Int32 {
        let arguments = ["PresenterBenchmark", "--as", "\(user)"] + words
        var spawner = ProcessSpawner(
            "/proc/self/exe", arguments: arguments.map { Array($0.utf8) }, environment: [])
        try spawner.pass(input, as: 0)
        try spawner.pass(output, as: 1)
        // The hub leads a session, like a daemon. The kernel could treat a process differently that shares the session of this
        // process.
        if words[0] == "hub" { spawner.startSession() }
        return try spawner.start()
    }

    /// Called in a child: makes the child end when its input ends.
    static func endWithInput() throws {
        try JoinableThread {
            var byte = UInt8()
            while Glibc.read(0, &byte, 1) > 0 {}
            _exit(0)
        }
        .detach()
    }

    /// Called in a child: makes the child a process of another user.
    static func become(_ user: UInt32) {
        if user == geteuid() { return }
        guard setgroups(0, nil) == 0, setgid(user) == 0, setuid(user) == 0 else {
            complain("only root can run presenters as other users")
        }
    }
}

/// Reads the output of a child, line by line.
final class Output {
    private let descriptor: OwnedDescriptor
    private var bytes: [UInt8] = []

    init(_ descriptor: consuming OwnedDescriptor) { self.descriptor = descriptor }

    func line() throws -> String {
        while true {
            if let end = bytes.firstIndex(of: UInt8(ascii: "\n")) {
                defer { bytes.removeFirst(end + 1) }
                return String(decoding: bytes[..<end], as: UTF8.self)
            }
            var piece = [UInt8](repeating: 0, count: 16 << 10)
            let count = try retryingOnInterrupt { Glibc.read(descriptor.rawValue, &piece, piece.count) }
            guard count > 0 else { complain("a process of the benchmark ended too early") }
            bytes += piece[..<count]
        }
    }
}

/// The child that reads the file. It reads as often as the parent tells it to.
final class ReaderProcess {
    private var input: OwnedDescriptor?
    private let output: Output
    private let process: Int32

    init(_ words: [String], as user: UInt32) throws {
        let commands = try Pipe()
        let answers = try Pipe()
        process = try Children.spawn(
            words, as: user, input: commands.readEnd.rawValue, output: answers.writeEnd.rawValue)
        input = try .duplicating(commands.writeEnd.rawValue)
        output = Output(answers.reading())
        guard try output.line() == "ready" else { complain("the client did not start") }
    }

    func call(_ line: String) throws -> [UInt64] {
        let bytes = Array("\(line)\n".utf8)
        let descriptor = input?.rawValue ?? -1
        _ = try retryingOnInterrupt { Glibc.write(descriptor, bytes, bytes.count) }
        return try output.line().split(separator: " ").map { word in
            guard let number = UInt64(word) else { complain("the client said '\(word)'") }
            return number
        }
    }

    /// Ends the child by closing its input.
    func end() throws {
        input = nil
        _ = try OtherProcess.exitCode(of: process)
    }
}
