// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// Starts a process by `posix_spawn(3)`, because `fork` is unsafe in a process with several threads.
package struct ProcessSpawner: ~Copyable {
    private let executable: [UInt8]
    private let searchesPath: Bool
    private let arguments: [[UInt8]]
    private let environment: [[UInt8]]
    private var flags: CInt = 0
    private var closesInheritedDescriptors = true
    private var attributes = posix_spawnattr_t()
    private var actions = posix_spawn_file_actions_t()
    /// Copies of the descriptors for the new process, with numbers above all target numbers. With these numbers, no `dup2`
    /// overwrites a descriptor that a later `dup2` needs.
    private var sources: [CInt] = []
    private var highestPassed: CInt = 2

    package init(_ executable: String, arguments: [[UInt8]], environment: [String]) {
        self.init(
            Array(executable.utf8), searchesPath: false, arguments: arguments,
            environment: environment.map { Array($0.utf8) })
    }

    /// Prepares a process for a command line. The first word of the command line is looked up in `PATH`, as in a shell.
    package init(commandLine: [[UInt8]], environment: [[UInt8]]) {
        self.init(
            commandLine.first ?? [], searchesPath: true, arguments: commandLine, environment: environment)
    }

    private init(
        _ executable: [UInt8], searchesPath: Bool, arguments: [[UInt8]], environment: [[UInt8]]
    ) {
        self.executable = executable
        self.searchesPath = searchesPath
        self.arguments = arguments
        self.environment = environment
        posix_spawnattr_init(&attributes)
        posix_spawn_file_actions_init(&actions)
    }

    deinit {
        for source in sources { close(source) }
        var (attributes, actions) = (attributes, actions)
        posix_spawnattr_destroy(&attributes)
        posix_spawn_file_actions_destroy(&actions)
    }

    /// Makes the process the leader of a new session, which has no terminal.
    package mutating func startSession() { flags |= CInt(CLINUX_POSIX_SPAWN_SETSID) }

    /// Makes the process the leader of a new process group. The caller can then send one signal to the process and its
    /// descendants.
    package mutating func startProcessGroup() {
        posix_spawnattr_setpgroup(&attributes, 0)
        flags |= CInt(POSIX_SPAWN_SETPGROUP)
    }

    /// Gives the process the signal state that a fresh login has: no signal is ignored or blocked.
    package mutating func resetSignals() {
        var (all, none) = (sigset_t(), sigset_t())
        sigfillset(&all)
        sigemptyset(&none)
        posix_spawnattr_setsigdefault(&attributes, &all)
        posix_spawnattr_setsigmask(&attributes, &none)
        flags |= CInt(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK)
    }

    /// Gives the process the signal mask that this process had before it created `taken`.
    package mutating func restoreSignals(_ taken: borrowing SignalDescriptor) {
        var mask = taken.previousMask
        posix_spawnattr_setsigmask(&attributes, &mask)
        flags |= CInt(POSIX_SPAWN_SETSIGMASK)
    }

    /// Lets the process inherit all inheritable descriptors. This is for a process that takes the place of this process, like
    /// the command of env(1).
    package mutating func inheritDescriptors() { closesInheritedDescriptors = false }

    /// Gives the process a copy of a descriptor. In the process, the copy has the number `number`.
    package mutating func pass(_ descriptor: CInt, as number: CInt) throws(Errno) {
        let copy = try retryingOnInterrupt { fcntl(descriptor, F_DUPFD_CLOEXEC, 32) }
        sources.append(copy)
        highestPassed = max(highestPassed, number)
        posix_spawn_file_actions_adddup2(&actions, copy, number)
    }

    /// Starts the process and returns its number. Closes this process's copies of the descriptors for the new process.
    package consuming func start() throws(Errno) -> Int32 {
        var pid = pid_t()
        // The child must not inherit the caller's other open descriptors, such as a pipe or a lock.
        if closesInheritedDescriptors { clinux_spawn_close_from(&actions, max(3, highestPassed + 1)) }
        posix_spawnattr_setflags(&attributes, Int16(flags))
        let argv = arguments.map { Self.copy($0) }
        let envp = environment.map { Self.copy($0) }
        defer { for pointer in argv + envp { pointer.deallocate() } }
        let spawn = searchesPath ? posix_spawnp : posix_spawn
        let result = executable.withPath {
            spawn(&pid, $0, &actions, &attributes, argv + [nil], envp + [nil])
        }
        guard result == 0 else { throw Errno(rawValue: result) }
        return pid
    }

    private static func copy(_ bytes: [UInt8]) -> UnsafeMutablePointer<CChar> {
        let copy = UnsafeMutablePointer<CChar>.allocate(capacity: bytes.count + 1)
        for (index, byte) in bytes.enumerated() { copy[index] = CChar(bitPattern: byte) }
        copy[bytes.count] = 0
        return copy
    }
}

/// System calls on other processes, which are given by their numbers.
package enum OtherProcess {
    /// The cause of a process's end: its own exit, or a signal.
    package enum Termination: Hashable, Sendable {
        case exited(Int32)
        case signalled(Int32)

        /// The exit code, or 128 plus the number of the signal that ended the process, as a shell reports it.
        package var code: Int32 {
            switch self {
            case .exited(let code): code
            case .signalled(let signal): 128 + signal
            }
        }
    }

    /// Waits until a child process ends, and returns the cause of its end.
    package static func waitForTermination(of child: Int32) throws(Errno) -> Termination {
        var status = CInt()
        _ = try retryingOnInterrupt { waitpid(child, &status, 0) }
        return status & 0x7F == 0 ? .exited((status >> 8) & 0xFF) : .signalled(status & 0x7F)
    }

    /// Waits until a child process ends, and returns its ``Termination/code``.
    package static func exitCode(of child: Int32) throws(Errno) -> Int32 {
        try waitForTermination(of: child).code
    }

    /// Opens a descriptor that becomes readable when the process ends. If a later process gets the same number, the descriptor
    /// still belongs to the ended process.
    package static func watch(_ pid: Int32) throws(Errno) -> OwnedDescriptor {
        OwnedDescriptor(adopting: try retryingOnInterrupt { clinux_pidfd_open(pid) })
    }

    /// Returns whether the process ends within the given time. `watch` is a descriptor of ``watch(_:)``.
    package static func hasExited(_ watch: borrowing OwnedDescriptor, within milliseconds: CInt) -> Bool {
        var event = pollfd(fd: watch.rawValue, events: Int16(POLLIN), revents: 0)
        return poll(&event, 1, milliseconds) == 1
    }
}

/// The two ends of a pipe. A child process inherits an end only if the caller passes it on.
package struct Pipe: ~Copyable {
    package let readEnd: OwnedDescriptor
    package let writeEnd: OwnedDescriptor

    package init() throws(Errno) {
        var ends: (CInt, CInt) = (0, 0)
        let result = withUnsafeMutableBytes(of: &ends) {
            clinux_pipe($0.baseAddress!.assumingMemoryBound(to: CInt.self))
        }
        guard result == 0 else { throw .last }
        readEnd = OwnedDescriptor(adopting: ends.0)
        writeEnd = OwnedDescriptor(adopting: ends.1)
    }

    /// Closes the write end and returns the read end. The reader gets the end of file when all copies of the write end are
    /// closed.
    package consuming func reading() -> OwnedDescriptor { readEnd }
}
