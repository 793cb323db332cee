// SPDX-License-Identifier: Apache-2.0
import Glibc
import LinuxSystem
import Testing

/// Texts as `proc_pid_stat(5)` and `proc_pid_status(5)` describe them.
@Suite struct ProcessInspectionTests {
    private func stat(_ program: String) -> [UInt8] {
        let rest = "S 41 42 43 34818 45 4194560 1 2 3 4 5 6 7 8 20 0 1 0 777 8192 1 18446744073709551615"
        return Array("42 (\(program)) \(rest)\n".utf8)
    }

    @Test(
        "The numbers come after the last bracket, whatever a program is called",
        arguments: ["vim", "a b", "x) R 1 1 1 1 1", "(", ""])
    func processStatus(program: String) throws {
        let status = try #require(ProcessInspection.processStatus(from: stat(program)))
        #expect(status.program == Array(program.utf8))
        #expect(status.parent == 41)
        #expect(status.session == 43)
        #expect(status.terminal == 34818)
        #expect(status.started == 777)
    }

    @Test("A text that was cut off says nothing")
    func cutOff() {
        #expect(ProcessInspection.processStatus(from: Array(stat("vim").prefix(30))) == nil)
        #expect(ProcessInspection.processStatus(from: []) == nil)
    }

    @Test("The user of a thread is the real one")
    func threadStatus() {
        let text =
            "Name:\tvim\nState:\tS (sleeping)\nTgid:\t42\nUid:\t1000\t0\t0\t0\nSigPnd:\t0000000000000100\n"
        let status = ProcessInspection.threadStatus(from: Array(text.utf8))
        #expect(status.process == 42)
        #expect(status.user == 1000)
        #expect(status.state == UInt8(ascii: "S"))
        #expect(status.pending == 0x100)
        #expect(ProcessInspection.threadStatus(from: []).user == nil)
    }

    @Test("What is said of this process is true")
    func thisProcess() throws {
        let status = try #require(ProcessInspection.status(ofProcess: getpid()))
        #expect(status.parent == getppid())
        #expect(status.session == getsid(0))
        #expect(ProcessInspection.status(ofThread: getpid())?.user == getuid())
    }

    @Test("The kernel's own threads are told by a flag, whatever they are called")
    func kernelThreads() {
        let text = { (flags: String) in Array("62 (nfsd) 1) S 2 0 0 0 -1 \(flags) 0 0 0 0 0 0".utf8) }
        #expect(ProcessInspection.isKernelThread(text("2129984")))
        #expect(!ProcessInspection.isKernelThread(text("4194560")))
        #expect(!ProcessInspection.isKernelThread(Array("62 (nfsd) S 2 0".utf8)))
        #expect(!ProcessInspection.isKernelThread(getpid()))
    }
}
