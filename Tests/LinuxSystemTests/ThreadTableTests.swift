// SPDX-License-Identifier: Apache-2.0
import Glibc
import LinuxSystem
import Synchronization
import TestSupport
import Testing

/// Checks how the process of a thread is found. If the process has ended, another process with its number must not be returned.
@Suite(.serialized) struct ThreadTableTests {
    @Test("A thread is found with its process, parent process and user", arguments: [true, false])
    func aThreadIsFoundWithProcessParentAndUser(usesPidfds: Bool) throws {
        let table = ThreadTable(usesPidfds: usesPidfds)
        let process = try #require(table.find(getpid()))
        #expect(process.process == getpid())
        #expect(process.parent == getppid())
        #expect(process.user == getuid())
        #expect(process.started == ProcessInspection.status(ofProcess: getpid())?.started)
        // The number of a second thread differs from the number of its process.
        let seen = Mutex<(thread: Int32, found: ThreadTable.KnownThread?)>((0, nil))
        let other = try JoinableThread {
            let link = String(decoding: readLink("/proc/thread-self") ?? [], as: UTF8.self)
            let words = link.split(separator: "/")
            let thread = words.last.flatMap { Int32($0) } ?? 0
            seen.withLock { $0 = (thread, table.find(thread)) }
        }
        other.join()
        let (number, found) = seen.withLock { $0 }
        #expect(number > 0 && number != getpid())
        let thread = try #require(found)
        #expect(thread.process == getpid())
        #expect(thread.started == process.started)
        #expect(thread.threadStarted >= process.threadStarted)
        #expect(thread.user == getuid())
        #expect(table.find(0) == nil)
        #expect(table.find(-1) == nil)
    }

    @Test("A thread that has ended is not found any more, even if the table knew the thread")
    func anEndedThreadIsForgottenAtOnce() throws {
        let table = ThreadTable()
        let program = try Program("sleep").start("60")
        #expect(table.find(program.pid) != nil)
        try program.end(by: SIGKILL)
        #expect(table.find(program.pid) == nil)
        #expect(table.count == 0)
    }

    @Test("If a process number is used for a new process, the table finds the new process")
    func aReusedProcessNumberLeadsToTheNewProcess() throws {
        guard access(Self.lastNumber, W_OK) == 0, geteuid() == 0 else {
            return print("only root can have a number given out again: shown by the run as root")
        }
        let table = ThreadTable()
        let former = try Program("sleep").start("60")
        let known = try #require(table.find(former.pid))
        try former.end(by: SIGKILL)
        let again = try Self.start(as: former.pid)
        let found = try #require(table.find(again.pid))
        #expect(found.known > known.known)
        #expect(found.threadStarted >= known.threadStarted)
        #expect(found.process == again.pid)
        try again.end(by: SIGKILL)
    }

    @Test("A process whose parent has ended is found with its new parent")
    func anOrphanedProcessHasANewParent() throws {
        let table = ThreadTable()
        let shell = try Script("sleep 60 & echo $!; read -r _; exec sleep 0").start(input: .keyboard)
        try eventually(within: .seconds(10), "the number of the child") { shell.text.hasSuffix("\n") }
        let child = try #require(Int32(shell.text.dropLast()))
        #expect(table.find(child)?.parent == shell.pid)
        try shell.type("\n")
        _ = try shell.wait(within: .seconds(10))
        let found = try #require(table.find(child))
        #expect(found.parent != shell.pid)
        kill(child, SIGKILL)
    }

    @Test("The thread table holds a limited number of descriptors, however many threads it finds")
    func theThreadTableHoldsALimitedNumberOfDescriptors() throws {
        let table = ThreadTable()
        var programs: [RunningProgram] = []
        for _ in 0..<(ThreadTable.capacity + 20) {
            let program = try Program("sleep").start("60")
            #expect(table.find(program.pid)?.process == program.pid)
            programs.append(program)
        }
        #expect(table.count == ThreadTable.capacity)
        let held = try Self.pidfds(of: Set(programs.map(\.pid)))
        #expect(held <= ThreadTable.capacity)
        // The table has room only for the programs that were found last. The table must still find the first programs, by a new
        // search.
        let (first, last) = (programs[0].pid, programs[programs.count - 1].pid)
        #expect(table.find(last)?.process == last)
        #expect(table.find(first)?.process == first)
        #expect(table.count == ThreadTable.capacity)
        for program in programs { try program.end(by: SIGKILL) }
    }

    @Test("The first process of a pid namespace is recognized by its number 1 in the namespace")
    func theFirstProcessOfANamespaceIsRecognized() {
        #expect(ProcessInspection.isInit(Array("Tgid:\t812\nNSpid:\t812\t1\nUid:\t0\n".utf8)))
        #expect(!ProcessInspection.isInit(Array("Tgid:\t812\nNSpid:\t812\t31\nUid:\t0\n".utf8)))
        #expect(!ProcessInspection.isInit(Array("Tgid:\t812\nNSpid:\t812\nUid:\t1\n".utf8)))
        #expect(!ProcessInspection.isInit([]))
    }

    private static let lastNumber = "/proc/sys/kernel/ns_last_pid"

    /// Starts programs until one has the given process number. If another process takes the number, the next try may succeed.
    private static func start(as number: Int32) throws -> RunningProgram {
        for _ in 0..<1000 {
            try FileContents.write("\(number - 1)", to: lastNumber)
            let program = try Program("sleep").start("60")
            if program.pid == number { return program }
            try program.end(by: SIGKILL)
        }
        throw TestFailure("the number \(number) was not given out again in 1000 tries")
    }

    /// How many pidfds this process has open for the given processes. Pidfds of other tests do not count.
    private static func pidfds(of processes: Set<Int32>) throws -> Int {
        let listed = try Script("ls /proc/$1/fd").run("\(getpid())").text.split(separator: "\n")
        return listed.count { number in
            let text = String(
                decoding: FileContents.ofFile("/proc/self/fdinfo/\(number)") ?? [], as: UTF8.self)
            let line = text.split(separator: "\n").first { $0.hasPrefix("Pid:") }
            return line.flatMap { Int32($0.dropFirst(4).drop { $0 == "\t" }) }.map(processes.contains)
                ?? false
        }
    }
}
