// SPDX-License-Identifier: Apache-2.0
import ConfigurationFiles
import ControlClient
import ControlServer
import FilesystemServer
import Glibc
import LinuxSystem
import Synchronization
import VersionStore

/// One mount, served until it is gone.
struct DaemonProcess: Sendable {
    private let target: MountPlan.Target
    private let log: SystemLog

    init(mounting target: MountPlan.Target, log: SystemLog) {
        self.target = target
        self.log = log
    }

    /// Serves the mount, and returns when it is gone.
    ///
    /// `source` is an `O_PATH` descriptor, opened before anything is mounted over it. `lock` is another descriptor, which can
    /// be locked: the holder of the lock serves this source. `announce` is called once everything is in place, before the first
    /// request is served.
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
        // This gives up the object, and the kernel keeps the lock until the process ends. It keeps the store's lock as long,
        // so a mount that gets one of the two locks gets the other.
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
        // The rules are read before the mount, which may cover the user's directory.
        let rules = Rules(userFile: Rules.userFile(environment: environmentVariable), of: geteuid())
        for problem in rules.problems { log(problem) }
        let store = try target.openStore(in: source, lockedBy: sourceLock, log: log)
        let preservedVersions = try target.preservedVersions(of: store, in: source)
        let tree = SourceTree(
            try OwnedDescriptor.duplicating(source.rawValue), mountedAt: target.mountpoint)
        let root = try OwnedDescriptor.duplicating(source.rawValue)
        let mount: FilesystemServer.Mount
        do throws(MountError) {
            mount = try FilesystemServer.Mount(
                mirroring: source, at: target.mountpoint,
                configuration: target.configuration(socket, rules), store: store, log: log)
        } catch {
            store.discardIfNew(in: root)
            throw CommandFailure(.failed, error.message)
        }
        let server: ServerStop
        do {
            server = ServerStop(
                of: try ControlServer(
                    on: try socket.duplicateListener(), sharedBy: try socket.duplicateSharedListener(),
                    for: target.controlled, status: mount, preservedVersions: preservedVersions,
                    engine: mount.engine,
                    documents: mount.documents, below: tree, log: log))
            try unmountOnSignal(mount, server)
            try announce()
        } catch {
            mount.detach()
            throw error
        }
        try mount.serve()
        try server.run()
    }

    /// Prepares the process before the first thread starts.
    private func prepareProcess() throws(CommandFailure) {
        // The process was started as /proc/self/exe, and ps(1) and killall(1) would know it by that name.
        OwnProcess.nameThread("truce")
        for number in Self.ignoredSignals { signal(number, SIG_IGN) }
        OwnProcess.limitRetainedMemory()
        var signals = Self.endingSignals
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        // The modes in requests are final. A relative path must not keep a directory busy.
        umask(0)
        guard chdir("/") == 0 else { throw CommandFailure(.failed, "cannot change to /: \(Errno.last)") }
        raiseDescriptorLimit()
        do throws(Errno) {
            try DescriptorTable.reserve(Self.descriptors)
        } catch {
            log.write("the table of descriptors grows when it is needed: \(error)")
        }
    }

    /// How long the ending process waits for the log to be written.
    static let logFlushTimeout = Duration.seconds(1)

    /// The most descriptors that the tree keeps open (16,384), and room for all others.
    private static let descriptors = 20_000

    private func raiseDescriptorLimit() {
        let kind = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        var limit = rlimit()
        guard getrlimit(kind, &limit) == 0 else { return }
        limit.rlim_cur = limit.rlim_max
        if setrlimit(kind, &limit) != 0 { log.write("the limit of open files stays: \(Errno.last)") }
    }

    /// Signals that mean nothing to the process, but would end it: programs would lose their open files.
    ///
    /// SIGIO reports that a file was opened out of band during a check for such opens. With SIGXFSZ ignored, programs get EFBIG
    /// for a limit of this process. SIGQUIT and error signals still end the process, with a core dump. Real-time signals begin
    /// after the two of glibc.
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

    /// Unmounts after a signal, on a thread of its own; a second signal ends the process, whatever it waits for.
    ///
    /// Open files are served until they are closed. Requests that wait for them, through the mount or over the socket, are
    /// answered at once.
    private func unmountOnSignal(
        _ mount: FilesystemServer.Mount, _ server: ServerStop
    ) throws(Errno) {
        try JoinableThread { [log] in
            var (signals, received) = (Self.endingSignals, CInt())
            sigwait(&signals, &received)
            // From here on, the default action applies again to this thread, and so to the process.
            pthread_sigmask(SIG_UNBLOCK, &signals, nil)
            // If the mount stays, it is served as before.
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

/// Stops the control server once: after a signal, or with the mount.
private final class ServerStop: Sendable {
    private let server: ControlServer
    private let isDone = Mutex(false)

    init(of server: ControlServer) { self.server = server }

    /// Returns when the server has stopped, even if another thread stopped it.
    func run() throws {
        try isDone.withLock { isDone in
            guard !isDone else { return }
            isDone = true
            try server.stop()
        }
    }
}
