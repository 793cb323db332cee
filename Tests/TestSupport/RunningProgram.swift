// SPDX-License-Identifier: Apache-2.0
import Dispatch
import Glibc
import Synchronization

/// A running child of the test. When the last reference is released, the child and its process group are killed.
package final class RunningProgram: Sendable {
    package let pid: Int32
    private let what: String
    private let output: CapturedFile
    private let errors: CapturedFile
    private let keyboard: Mutex<Int32?>
    private let reaper: Reaper

    init(pid: Int32, what: String, output: CapturedFile, errors: CapturedFile, keyboard: Int32?) {
        self.pid = pid
        self.what = what
        self.output = output
        self.errors = errors
        self.keyboard = Mutex(keyboard)
        reaper = Reaper(of: pid)
    }

    deinit {
        endInput()
        // The signal goes to the whole group. If only the shell ended, its children would still run.
        reaper.send(SIGKILL, toGroup: true)
        _ = reaper.ending(within: .seconds(10))
    }

    /// The output that the program has written so far.
    package var text: String { output.text }
    package var errorText: String { errors.text }
    package var hasEnded: Bool { reaper.ending(within: .zero) != nil }

    /// Sends a signal to the program. If the program has ended, no signal is sent, because another process can have its number
    /// now.
    package func send(_ signal: Int32) { reaper.send(signal, toGroup: false) }

    package func type(_ text: String) throws {
        try keyboard.withLock { (keyboard) throws in
            guard let keyboard else { throw TestFailure("\(what): has no keyboard") }
            var bytes = Array(text.utf8)[...]
            while !bytes.isEmpty {
                let count = bytes.withUnsafeBytes { write(keyboard, $0.baseAddress, $0.count) }
                guard count > 0 else { throw TestFailure("\(what): cannot be typed at: \(describe(errno))") }
                bytes = bytes.dropFirst(count)
            }
        }
    }

    package func endInput() {
        keyboard.withLock { keyboard in
            if let open = keyboard { close(open) }
            keyboard = nil
        }
    }

    /// Waits until the program ends. If it does not end within the time, it is killed, and `reason` is a part of the error.
    package func wait(within bound: Duration, for reason: String = "its end") throws -> ProgramResult {
        guard let status = reaper.ending(within: bound) else {
            reaper.send(SIGKILL, toGroup: true)
            throw TestFailure(
                "waited \(bound) for \(reason) of '\(what)'\n\(text.suffix(2000))\(errorText.suffix(2000))")
        }
        return ProgramResult(what: what, ending: status, output: output.bytes, errorOutput: errors.bytes)
    }

    /// Sends a signal to the program and its process group, and waits until they have ended.
    @discardableResult
    package func end(by signal: Int32 = SIGTERM, within bound: Duration = .seconds(10)) throws
        -> ProgramResult
    {
        reaper.send(signal, toGroup: true)
        let outcome = try wait(within: bound, for: "the end by signal \(signal)")
        try eventually(within: bound, "the end of all that '\(what)' started") {
            kill(-pid, 0) != 0 && errno == ESRCH
        }
        return outcome
    }
}

/// How a program ended, and its output.
package struct ProgramResult: Sendable {
    package enum Ending: Hashable, Sendable {
        case exited(Int32)
        case signalled(Int32)
    }

    package let what: String
    package let ending: Ending
    package let output: [UInt8]
    package let errorOutput: [UInt8]

    package var text: String { String(decoding: output, as: UTF8.self) }
    package var errorText: String { String(decoding: errorOutput, as: UTF8.self) }
    package var isSuccess: Bool { ending == .exited(0) }

    @discardableResult
    package func requireSuccess() throws -> ProgramResult {
        guard isSuccess else {
            throw TestFailure("'\(what)' ended with \(ending)\n\(text.suffix(2000))\(errorText.suffix(2000))")
        }
        return self
    }
}

/// Waits on a separate thread until a child ends. So other threads can wait for the child with a time limit.
private final class Reaper: Sendable {
    private let pid: Int32
    private let ended = DispatchSemaphore(value: 0)
    private let ending = Mutex<ProgramResult.Ending?>(nil)

    init(of pid: Int32) {
        self.pid = pid
        let thread = DispatchQueue(label: "reaper of \(pid)")
        thread.async { [self] in reap() }
    }

    private func reap() {
        var information = siginfo_t()
        // This call does not reap the child, so no other process can get the child's number. The child is reaped later, while
        // the lock that `send` also takes is held.
        while waitid(P_PID, id_t(pid), &information, WEXITED | WNOWAIT) != 0, errno == EINTR {}
        ending.withLock { ending in
            var status: Int32 = 0
            while waitpid(pid, &status, 0) < 0, errno == EINTR {}
            let signal = status & 0x7f
            ending = signal == 0 ? .exited((status >> 8) & 0xff) : .signalled(signal)
        }
        ended.signal()
    }

    func send(_ signal: Int32, toGroup: Bool) {
        ending.withLock { ending in
            if ending == nil { _ = kill(toGroup ? -pid : pid, signal) }
        }
    }

    func ending(within bound: Duration) -> ProgramResult.Ending? {
        let (seconds, attoseconds) = bound.components
        let interval = DispatchTimeInterval.nanoseconds(
            Int(seconds) * 1_000_000_000 + Int(attoseconds / 1_000_000_000))
        guard ended.wait(timeout: .now() + interval) == .success else { return nil }
        ended.signal()
        return ending.withLock { $0 }
    }
}

/// The output of a child, in a file without a name. A pipe would fill up without a reader; this file does not need a reader.
final class CapturedFile: Sendable {
    let descriptor: Int32

    init() throws {
        guard let file = tmpfile() else { throw TestFailure("tmpfile: \(describe(errno))") }
        defer { fclose(file) }
        descriptor = dup(fileno(file))
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
    }

    deinit { close(descriptor) }

    func fill(with bytes: [UInt8]) throws {
        guard bytes.withUnsafeBytes({ pwrite(descriptor, $0.baseAddress, $0.count, 0) }) == bytes.count else {
            throw TestFailure("the input of a program cannot be stored: \(describe(errno))")
        }
    }

    var bytes: [UInt8] {
        var found: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = buffer.withUnsafeMutableBytes {
                pread(descriptor, $0.baseAddress, $0.count, off_t(found.count))
            }
            guard count > 0 else { return found }
            found += buffer[..<count]
        }
    }

    var text: String { String(decoding: bytes, as: UTF8.self) }
}
