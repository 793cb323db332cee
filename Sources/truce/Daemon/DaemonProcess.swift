// SPDX-License-Identifier: Apache-2.0
import ConfigurationFiles
import ControlClient
import ControlServer
import FilesystemServer
import Glibc
import LinuxSystem
import Synchronization
import VersionStore

/// The daemon process of one mount, from its start until the mount is gone.
struct DaemonProcess: Sendable {
    private let target: MountPlan.Target
    private let log: SystemLog

    init(mounting target: MountPlan.Target, log: SystemLog) {
        self.target = target
        self.log = log
    }

    /// Serves the mount. Returns when the mount is gone.
    ///
    /// `source` is an `O_PATH` descriptor of the source, opened before a mount could cover it. `lock` is a descriptor
    /// of the source for locking: only the daemon that holds the lock serves the source. `announce` is called when
    /// everything is ready, before the first request is answered.
    func run(
        source: consuming OwnedDescriptor, lock: consuming OwnedDescriptor, announce: () throws -> Void
    ) throws {
        try prepareProcess()
        do throws(Errno) {
            try log.startThread()
        } catch {
            throw CommandFailure(.failed, "no thread can be made for the log: \(error)")
        }
        defer { log.finish(within: Self.logFlushTimeout) }
        let sourceLock = SourceLock(of: source, at: target.source, log: log)
        try sourceLock.acquire(root: lock)
        // From here on the kernel holds the lock until the process ends. The same is true for the store's lock. So a
        // later daemon that gets one of the two locks also gets the other.
        _ = lock.release()
        let socket = try makeSocket()
        let failure: CommandFailure?
        do {
            try serve(source, sourceLock, listening: socket, announce: announce)
            failure = nil
        } catch let error as CommandFailure {
            failure = error
        } catch {
            failure = CommandFailure(.failed, "\(error)")
        }
        remove(socket)
        if let failure { throw failure }
    }

    private func serve(
        _ source: consuming OwnedDescriptor, _ sourceLock: SourceLock,
        listening socket: borrowing ControlSocket, announce: () throws -> Void
    ) throws {
        let log = { @Sendable [log] (line: String) in log.write(line) }
        // The rules are read before the mount is made. The mount may cover the directory that contains the user's rule
        // file.
        let files = RuleFiles(
            in: try OwnedDescriptor.duplicating(source.rawValue), mountedAt: target.mountpoint,
            isInPlace: target.isInPlace, userFile: Rules.userFile(environment: environmentVariable),
            of: geteuid())
        let rules = files.rules
        for problem in rules.problems { log(problem) }
        let store = try target.openStore(in: source, lockedBy: sourceLock, log: log)
        let preservedVersions = try target.preservedVersions(of: store, in: source)
        let history = target.openHistory(of: store, log: log)
        let tree = SourceTree(
            try OwnedDescriptor.duplicating(source.rawValue), mountedAt: target.mountpoint)
        let root = try OwnedDescriptor.duplicating(source.rawValue)
        let mount: FilesystemServer.Mount
        do throws(MountError) {
            mount = try FilesystemServer.Mount(
                mirroring: source, at: target.mountpoint,
                configuration: target.configuration(socket, rules), store: store, history: history,
                log: log)
        } catch {
            store.discardIfNew(in: root)
            throw CommandFailure(.failed, error.message)
        }
        let server: ServerStop
        do {
            let watch = try ConfigurationWatch(of: files, for: mount, log: log)
            server = ServerStop(
                of: try ControlServer(
                    on: try socket.duplicateListener(), sharedBy: try socket.duplicateSharedListener(),
                    for: target.controlled, status: mount, preservedVersions: preservedVersions,
                    history: history.map { PeerHistory($0, rights: preservedVersions) },
                    engine: mount.engine,
                    documents: mount.documents, settings: watch, below: tree, log: log))
            try watch.start()
            try unmountOnSignal(mount, server)
            try announce()
        } catch {
            mount.detach()
            throw error
        }
        try mount.serve()
        try server.run()
    }

    /// Sets up the process. This must happen before the process has a second thread.
    private func prepareProcess() throws(CommandFailure) {
        // ps(1) and killall(1) would show the name `exe`, because the process was started as /proc/self/exe.
        OwnProcess.nameThread("truce")
        for number in Self.ignoredSignals { signal(number, SIG_IGN) }
        OwnProcess.limitRetainedMemory()
        var signals = Self.endingSignals
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        // Requests contain the final mode of a new file, so the umask must not change it. The working directory becomes
        // `/`, because a process keeps the file system of its working directory busy.
        umask(0)
        guard chdir("/") == 0 else { throw CommandFailure(.failed, "cannot change to /: \(Errno.last)") }
        raiseDescriptorLimit()
        do throws(Errno) {
            try DescriptorTable.reserve(Self.descriptors)
        } catch {
            log.write("the table of descriptors grows when it is needed: \(error)")
        }
    }

    /// Before the process ends, it waits at most this long until its log is written.
    static let logFlushTimeout = Duration.seconds(1)

    /// The size of the descriptor table: up to 16,384 descriptors for files and directories of the source, and some
    /// thousand others.
    private static let descriptors = 20_000

    private func raiseDescriptorLimit() {
        let kind = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        var limit = rlimit()
        guard getrlimit(kind, &limit) == 0 else { return }
        limit.rlim_cur = limit.rlim_max
        if setrlimit(kind, &limit) != 0 { log.write("the limit of open files stays: \(Errno.last)") }
    }

    /// Signals that the daemon must ignore. Their default action would end the daemon, and then all open files of the
    /// mount would fail.
    ///
    /// The kernel sends SIGIO if another program opens a file while the daemon checks whether the file is open out of
    /// band. Because SIGXFSZ is ignored, a write beyond this process's limit fails with EFBIG. SIGQUIT and error
    /// signals are not ignored: they end the process with a core dump. The first two real-time signals are not in the
    /// list, because glibc uses them.
    private static var ignoredSignals: [CInt] {
        [
            SIGHUP, SIGPIPE, SIGIO, SIGXFSZ, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGXCPU,
            SIGSTKFLT, SIGPWR,
        ] + (__libc_current_sigrtmin()...__libc_current_sigrtmax())
    }

    private static var endingSignals: sigset_t {
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGTERM)
        sigaddset(&signals, SIGINT)
        return signals
    }

    /// Starts a thread that unmounts the mount after SIGTERM or SIGINT. A second signal ends the process.
    ///
    /// After the unmount, the daemon serves open files until they are closed. Requests that wait, through the mount or
    /// over the control socket, are answered without further waiting.
    private func unmountOnSignal(
        _ mount: FilesystemServer.Mount, _ server: ServerStop
    ) throws(Errno) {
        try JoinableThread { [log] in
            var (signals, received) = (Self.endingSignals, CInt())
            sigwait(&signals, &received)
            // This thread no longer blocks the signals. So the next signal ends the process.
            pthread_sigmask(SIG_UNBLOCK, &signals, nil)
            // If the unmount fails, the daemon goes on serving the mount.
            guard mount.detach() else { while true { pause() } }
            mount.endWaits()
            do { try server.run() } catch { log.write("the control socket could not be closed: \(error)") }
            while true { pause() }
        }.detach()
    }

    private func remove(_ socket: consuming ControlSocket) {
        do throws(Errno) {
            try socket.remove()
        } catch {
            log.write("the control socket could not be removed: \(error)")
        }
    }

    private func makeSocket() throws(CommandFailure) -> ControlSocket {
        do throws(ControlSocketError) {
            return try ControlSocket.make(
                mountpoint: target.mountpoint, user: geteuid(),
                places: SocketDirectory.candidates(
                    user: geteuid(), runtimeDirectory: environmentVariable("XDG_RUNTIME_DIR")),
                isShared: target.controlled.isShared)
        } catch {
            throw CommandFailure(.failed, error.message)
        }
    }
}

/// Stops the control server only once, although two threads may try: after a signal, or when the mount ends.
private final class ServerStop: Sendable {
    private let server: ControlServer
    private let isDone = Mutex(false)

    init(of server: ControlServer) { self.server = server }

    /// Stops the server. If another thread is already stopping it, waits until that thread has finished.
    func run() throws {
        try isDone.withLock { isDone in
            guard !isDone else { return }
            isDone = true
            try server.stop()
        }
    }
}
