// SPDX-License-Identifier: Apache-2.0
import Glibc
import LinuxSystem
import TestSupport
import Testing

/// Checks the values that are read from texts in the formats of `proc_pid_stat(5)` and `proc_pid_status(5)`.
@Suite struct ProcessInspectionTests {
    private func stat(_ program: String) -> [UInt8] {
        let rest = "S 41 42 43 34818 45 4194560 1 2 3 4 5 6 7 8 20 0 1 0 777 8192 1 18446744073709551615"
        return Array("42 (\(program)) \(rest)\n".utf8)
    }

    @Test(
        "The fields of a stat text are read after the last bracket, whatever the program's name contains",
        arguments: ["vim", "a b", "x) R 1 1 1 1 1", "(", ""])
    func statFieldsAreReadAfterTheLastBracket(program: String) throws {
        let status = try #require(ProcessInspection.processStatus(from: stat(program)))
        #expect(status.program == Array(program.utf8))
        #expect(status.parent == 41)
        #expect(status.session == 43)
        #expect(status.terminal == 34818)
        #expect(status.started == 777)
    }

    @Test("A truncated or empty stat text gives no status")
    func aTruncatedStatTextIsRejected() {
        #expect(ProcessInspection.processStatus(from: Array(stat("vim").prefix(30))) == nil)
        #expect(ProcessInspection.processStatus(from: []) == nil)
    }

    @Test(
        "A thread that sleeps or has ended makes no attribute call; a running thread's call is unknown"
    )
    func aThreadsCurrentSystemCallIsClassified() throws {
        let sleeper = try Program("sleep").start("60")
        try eventually(within: .seconds(10), "the sleep") {
            ProcessInspection.attributeCall(ofThread: sleeper.pid) == .other
        }
        let runner = try Script("while :; do :; done").start()
        try eventually(within: .seconds(10), "the loop") {
            ProcessInspection.attributeCall(ofThread: runner.pid) == .notSeenYet
        }
        try sleeper.end()
        try runner.end()
        #expect(ProcessInspection.attributeCall(ofThread: sleeper.pid) == .other)
        #expect(ProcessInspection.attributeCall(ofThread: 0) == .other)
    }

    @Test(
        "Two processes with equal command lines have equal hashes, and a different command line has a different hash"
    )
    func equalCommandLinesHashEqually() throws {
        let sleepers = try ["60", "60", "61"].map { try Program("sleep").start($0) }
        try eventually(within: .seconds(10), "three programs") {
            let words = sleepers.map { ProcessInspection.commandLineHash(ofProcess: $0.pid) }
            return words[0] == words[1] && words[0] != words[2]
        }
        for sleeper in sleepers { try sleeper.end() }
        #expect(ProcessInspection.commandLineHash(ofProcess: sleepers[0].pid) == 0)
    }

    @Test("The user of a thread is its real user, not the effective user")
    func aThreadsUserIsTheRealUser() {
        let text =
            "Name:\tvim\nState:\tS (sleeping)\nTgid:\t42\nUid:\t1000\t0\t0\t0\nSigPnd:\t0000000000000100\n"
        let status = ProcessInspection.threadStatus(from: Array(text.utf8))
        #expect(status.process == 42)
        #expect(status.user == 1000)
        #expect(status.state == UInt8(ascii: "S"))
        #expect(status.pending == 0x100)
        #expect(ProcessInspection.threadStatus(from: []).user == nil)
    }

    @Test("The status of this process has the right parent, session and user")
    func theStatusOfThisProcessIsCorrect() throws {
        let status = try #require(ProcessInspection.status(ofProcess: getpid()))
        #expect(status.parent == getppid())
        #expect(status.session == getsid(0))
        #expect(ProcessInspection.status(ofThread: getpid())?.user == getuid())
    }

    @Test(
        "Files of many sizes are read completely, however many read calls are needed",
        arguments: [0, 1, 4095, 4096, 4097, 10 << 10, 16 << 10, 720 << 10, (1 << 20) - 1])
    func filesOfManySizesAreReadCompletely(size: Int) throws {
        let file = try Self.file(of: size)
        defer { unlink(file) }
        #expect(FileContents.ofFile(file)?.count == size)
        #expect(readSmallFile(file) == FileContents.ofFile(file))
        #expect(readBeginning(file) == FileContents.ofFile(file).map { Array($0.prefix(4096)) })
    }

    @Test("A file above the size limit is not read, not even in part")
    func anOversizedFileIsNotRead() throws {
        let file = try Self.file(of: 1 << 20)
        defer { unlink(file) }
        #expect(readSmallFile(file) == nil)
    }

    /// Makes a file of the given size. No two pieces of the file are equal, so the test notices a piece at a wrong place.
    private static func file(of size: Int) throws -> String {
        var template = Array("/tmp/truce-file-XXXXXX".utf8CString)
        let descriptor = mkstemp(&template)
        try #require(descriptor >= 0)
        close(descriptor)
        let path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        let text = (0...size / 8).map { String(10_000_000 + $0) }.joined()
        try FileContents.write(String(text.prefix(size)), to: path)
        return path
    }

    @Test("Fields of a status text after a very long list of groups are read", arguments: [400, 65_536])
    func fieldsBehindALongGroupListAreRead(count: Int) throws {
        guard geteuid() == 0 else {
            return print("only root can give a process groups: shown by the run as root")
        }
        let program = try Program("python3").start("-c", Self.member, "\(count)")
        try eventually(within: .seconds(20), "the groups\n\(program.errorText)") { program.text == "ready\n" }
        let groups = ProcessInspection.supplementaryGroups(ofThread: program.pid)
        #expect(groups.count == count)
        #expect(groups.last == 4_000_000_000 + UInt32(count) - 1)
        let status = try #require(ProcessInspection.status(ofThread: program.pid))
        #expect(status.user == 0)
        #expect(status.ignored & 1 << UInt64(SIGUSR1 - 1) != 0)
        try program.end(by: SIGKILL)
    }

    private static let member = """
        import os, signal, sys
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        os.setgroups(range(4_000_000_000, 4_000_000_000 + int(sys.argv[1])))
        print("ready", flush=True)
        signal.pause()
        """

    @Test("A process whose first thread has ended counts as running while other threads run")
    func aProcessOutlivesItsFirstThread() throws {
        let program = try Program("python3").start("-c", Self.leaving, input: .keyboard)
        try eventually(within: .seconds(20), "the end of the first thread\n\(program.errorText)") {
            ProcessInspection.status(ofThread: program.pid)?.state == UInt8(ascii: "Z")
        }
        let status = try #require(ProcessInspection.status(ofThread: program.pid))
        #expect(status.threads == 2 && !status.isZombieProcess)
        let other = ProcessInspection.livingThread(of: program.pid)
        #expect(other != program.pid)
        #expect(ProcessInspection.process(ofThread: other) == program.pid)
        #expect(access("/proc/\(program.pid)/fdinfo/0", F_OK) != 0)
        #expect(access("/proc/\(other)/fdinfo/0", F_OK) == 0)
        program.endInput()
        _ = try program.wait(within: .seconds(20))
    }

    private static let leaving = """
        import ctypes, os, sys, threading
        threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0))).start()
        ctypes.CDLL(None).pthread_exit(None)
        """

    @Test(
        "Only a zombie without other threads has ended; for a running process, the first thread is found as living"
    )
    func onlyAZombieWithoutOtherThreadsHasEnded() {
        let zombie = { (threads: Int) in Array("State:\tZ (zombie)\nThreads:\t\(threads)\n".utf8) }
        #expect(ProcessInspection.threadStatus(from: zombie(1)).isZombieProcess)
        #expect(!ProcessInspection.threadStatus(from: zombie(2)).isZombieProcess)
        #expect(ProcessInspection.status(ofThread: getpid())?.isZombieProcess == false)
        #expect(ProcessInspection.livingThread(of: getpid()) == getpid())
    }

    @Test("Kernel threads are recognized by a flag, whatever their names are")
    func kernelThreadsAreRecognizedByAFlag() {
        let text = { (flags: String) in Array("62 (nfsd) 1) S 2 0 0 0 -1 \(flags) 0 0 0 0 0 0".utf8) }
        #expect(ProcessInspection.isKernelThread(text("2129984")))
        #expect(!ProcessInspection.isKernelThread(text("4194560")))
        #expect(!ProcessInspection.isKernelThread(Array("62 (nfsd) S 2 0".utf8)))
        #expect(!ProcessInspection.isKernelThread(getpid()))
    }
}
