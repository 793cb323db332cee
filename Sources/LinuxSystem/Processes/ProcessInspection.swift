// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// Reads facts about processes and threads from `/proc`. A fact can be outdated when the caller uses it.
package enum ProcessInspection {
    /// The status of a thread, read from `/proc/TID/status`.
    package struct ThreadStatus: Sendable {
        /// The process of the thread (thread-group id).
        package var process: Int32 = 0
        /// The real user of the thread; nil if the text does not contain it.
        package var user: UInt32?
        /// The state of the thread as one letter, as `ps` shows it.
        package var state: UInt8 = 0
        /// The number of threads in the thread's process, this thread included.
        package var threads: Int64 = 0
        package var pending: UInt64 = 0
        package var sharedPending: UInt64 = 0
        package var ignored: UInt64 = 0
        package var caught: UInt64 = 0
        package var blocked: UInt64 = 0

        /// Whether the whole process has ended, not only its first thread.
        ///
        /// If the first thread ends before the other threads of its process, it is a zombie although the process has not ended.
        package var isZombieProcess: Bool {
            (state == UInt8(ascii: "Z") || state == UInt8(ascii: "X")) && threads <= 1
        }
    }

    /// The status of a process, read from `/proc/PID/task/TID/stat`.
    package struct ProcessStatus: Sendable {
        package var program: [UInt8]
        package var parent: Int32
        package var session: Int32
        /// The device number of the controlling terminal; 0 if the process has no terminal.
        package var terminal: Int32
        /// The time when the process started, in clock ticks since boot.
        package var started: UInt64
    }

    private static let ticksPerSecond = UInt64(max(sysconf(CInt(_SC_CLK_TCK)), 1))

    /// Returns whether a process or thread had already started at `moment`, in nanoseconds of the monotonic clock.
    ///
    /// `started` is the start time of the process or thread, in ticks of the boot clock. The result can be wrong if the two
    /// times are within one tick. This does no harm, because the kernel does not give a thread's number to another thread
    /// within one tick.
    package static func hadStarted(_ started: UInt64, at moment: UInt64) -> Bool {
        var boot = timespec()
        clock_gettime(CLOCK_BOOTTIME, &boot)
        let now = UInt64(boot.tv_sec) * 1_000_000_000 + UInt64(boot.tv_nsec)
        let monotonic = MonotonicClock.nanoseconds
        let age = monotonic > moment ? monotonic - moment : 0
        return started <= (now - min(age, now)) / (1_000_000_000 / ticksPerSecond)
    }

    /// Returns whether a process is in the PID namespace of this process. Returns false if this process may not see that.
    package static func sharesPIDNamespace(_ process: Int32) -> Bool {
        var (own, other) = (stat(), stat())
        guard stat("/proc/self/ns/pid", &own) == 0, stat("/proc/\(process)/ns/pid", &other) == 0 else {
            return false
        }
        return own.st_ino == other.st_ino && own.st_dev == other.st_dev
    }

    /// Whether `/proc` shows the PID namespace of this process. In another namespace, the same number means another process.
    private static let isOurs = readLink("/proc/self") == Array("\(getpid())".utf8)

    /// Whether a pid means the same process to this process and in `/proc`.
    static var sharesProcfs: Bool { isOurs }

    private static func file(_ name: String, of number: Int32) -> [UInt8]? {
        isOurs ? readSmallFile("/proc/\(number)/\(name)") : nil
    }

    /// Returns whether a thread waits in `mkdir(2)`, `mknod(2)`, `symlink(2)`, `link(2)` or `bind(2)`.
    ///
    /// Returns nil if the system call of the thread cannot be seen. To see it, this process needs the right to trace the
    /// thread.
    package static func isMakingName(thread: Int32) -> Bool? {
        guard isOurs, thread > 0 else { return nil }
        let answer = clinux_makes_name(thread)
        return answer < 0 ? nil : answer == 1
    }

    /// Returns whether a thread waits in a call that can create a file. Returns true if the system call of the thread cannot be
    /// seen.
    package static func mayCreateFile(thread: Int32) -> Bool {
        guard isOurs, thread > 0 else { return true }
        return clinux_may_create(thread) != 0
    }

    /// The kind of system call with which a thread asks for the attributes of a file.
    package enum AttributeCall: Hashable, Sendable {
        /// The call asks by path for attributes that a save changes: `stat(2)`, `lstat(2)`, `newfstatat(2)` or `statx(2)`.
        case byPath
        /// The call is of another kind, or this process has no right to see it.
        case other
        /// The call cannot be seen yet, because the thread has sent its request but does not sleep yet.
        case notSeenYet
    }

    package static func attributeCall(ofThread thread: Int32) -> AttributeCall {
        guard isOurs, thread > 0 else { return .other }
        return switch clinux_looks_by_path(thread) {
        case 1: .byPath
        case -1: .notSeenYet
        default: .other
        }
    }

    /// Returns the process to which a thread belongs; nil if the thread has ended.
    package static func process(ofThread thread: Int32) -> Int32? {
        guard thread > 0 else { return nil }
        let descriptor = clinux_pidfd_of_thread(thread)
        guard descriptor >= 0 else { return status(ofThread: thread)?.process }
        defer { close(descriptor) }
        var found = clinux_thread()
        // The kernel reports the process of a pidfd since Linux 6.13. Before that, `/proc` is read.
        guard clinux_pidfd_look(descriptor, &found) == 0 else { return status(ofThread: thread)?.process }
        return found.process
    }

    /// Returns whether a process has the lowest priority: nice 19, SCHED_IDLE or the I/O class idle.
    ///
    /// Returns false if the priority cannot be read.
    package static func hasLowestPriority(_ process: Int32) -> Bool {
        clinux_has_lowest_priority(process) == 1
    }

    package static func status(ofThread thread: Int32) -> ThreadStatus? {
        file("status", of: thread).map(threadStatus)
    }

    /// Parses the text of `/proc/TID/status`. A field that is missing from the text has its default value in the result.
    package static func threadStatus(from text: [UInt8]) -> ThreadStatus {
        var status = ThreadStatus()
        for line in text.split(separator: UInt8(ascii: "\n")) {
            // Only a few of about sixty lines are parsed, because the daemon reads this text whenever programs wait for each
            // other.
            guard let letter = line.first, initials.contains(letter),
                let colon = line.firstIndex(of: UInt8(ascii: ":"))
            else { continue }
            let value = line[line.index(after: colon)...].drop { $0 == 9 || $0 == 32 }
            switch String(decoding: line[..<colon], as: UTF8.self) {
            case "Tgid": status.process = Int32(decimal(value))
            // The four fields are the real, effective, saved and file-system user. The real user is the user that started the
            // process.
            case "Uid": status.user = UInt32(decimal(value))
            case "State": status.state = value.first ?? 0
            case "Threads": status.threads = decimal(value)
            case "SigPnd": status.pending = hexadecimal(value)
            case "ShdPnd": status.sharedPending = hexadecimal(value)
            case "SigBlk": status.blocked = hexadecimal(value)
            case "SigIgn": status.ignored = hexadecimal(value)
            case "SigCgt": status.caught = hexadecimal(value)
            default: break
            }
        }
        return status
    }

    private static let initials = [UInt8(ascii: "T"), UInt8(ascii: "U"), UInt8(ascii: "S")]

    /// Returns whether the thread is a kernel thread, such as the threads of the NFS server. Returns false if its status cannot
    /// be read.
    package static func isKernelThread(_ thread: Int32) -> Bool {
        guard thread > 0, let text = file("stat", of: thread) else { return false }
        return isKernelThread(text)
    }

    /// Parses the text of `/proc/TID/stat`, and returns whether it describes a kernel thread.
    package static func isKernelThread(_ text: [UInt8]) -> Bool {
        guard let close = text.lastIndex(of: UInt8(ascii: ")")) else { return false }
        let fields = text[(close + 1)...].split(separator: UInt8(ascii: " "), maxSplits: 8)
        // The flag `PF_KTHREAD` of include/linux/sched.h is in the ninth field. The first two fields are before the bracket, so
        // they are not in `fields`.
        return fields.count > 6 && decimal(fields[6]) & 0x0020_0000 != 0
    }

    /// Returns the status of a process or thread. For a process, it is the status of its first thread.
    ///
    /// The method does not read `/proc/PID/stat`. For that file, the kernel would add up the times of all threads of the
    /// process, possibly thousands.
    package static func status(ofProcess process: Int32) -> ProcessStatus? {
        file("task/\(process)/stat", of: process).flatMap(processStatus)
    }

    /// Parses the text of `/proc/PID/task/TID/stat`; returns nil if it is truncated.
    package static func processStatus(from text: [UInt8]) -> ProcessStatus? {
        guard let open = text.firstIndex(of: UInt8(ascii: "(")),
            let close = text.lastIndex(of: UInt8(ascii: ")"))
        else { return nil }
        // The name can contain brackets and spaces, so the text is split after its last bracket. All fields after the name are
        // numbers.
        let fields = text[(close + 1)...].split(separator: UInt8(ascii: " "), maxSplits: 20)
        guard fields.count > 19 else { return nil }
        return ProcessStatus(
            program: Array(text[(open + 1)..<close]), parent: Int32(decimal(fields[1])),
            session: Int32(decimal(fields[3])), terminal: Int32(truncatingIfNeeded: decimal(fields[4])),
            started: UInt64(decimal(fields[19])))
    }

    /// Returns a living thread of a process. If every thread has ended, returns the first thread.
    ///
    /// For an ended thread, `/proc` shows no files and descriptors. The first thread can have ended before the other threads.
    package static func livingThread(of process: Int32) -> Int32 {
        guard let status = status(ofThread: process), status.state == UInt8(ascii: "Z"), status.threads > 1
        else { return process }
        do throws(Errno) {
            // `/proc/PID/task` lists the first thread even after its end, but lists no other ended thread.
            let threads = try ProcessScan.numbers(in: "/proc/\(process)/task")
            return threads.first { $0 != process } ?? process
        } catch {
            return process
        }
    }

    /// Returns the name of a thread, at most 15 bytes.
    package static func program(ofThread thread: Int32) -> [UInt8]? {
        guard var name = file("comm", of: thread) else { return nil }
        if name.last == UInt8(ascii: "\n") { name.removeLast() }
        return name
    }

    /// Returns a hash of the beginning of a process's command line; 0 if the process has ended.
    ///
    /// Equal command lines have equal hashes.
    package static func commandLineHash(ofProcess process: Int32) -> UInt64 {
        guard isOurs, let bytes = readBeginning("/proc/\(process)/cmdline") else { return 0 }
        return bytes.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x0000_0100_0000_01B3 }
    }

    /// Returns whether a process with this number exists. An ended process exists until its parent has noticed its end.
    package static func exists(_ process: Int32) -> Bool {
        process > 0 && (kill(process, 0) == 0 || errno == EPERM)
    }

    /// Returns the first words of a process's command line; empty if the process has ended.
    package static func commandLine(ofProcess process: Int32) -> [[UInt8]] {
        guard isOurs, let bytes = readBeginning("/proc/\(process)/cmdline") else { return [] }
        return bytes.split(separator: 0, omittingEmptySubsequences: false).map(Array.init)
    }

    /// Returns the supplementary groups of a thread; empty if the thread has ended.
    package static func supplementaryGroups(ofThread thread: Int32) -> [UInt32] {
        numbers("Groups:", in: file("status", of: thread) ?? []).map { UInt32($0) }
    }

    /// Returns whether a process is the first process of a PID namespace inside this namespace. Processes of that namespace
    /// become its children when their parents end.
    package static func isInit(_ process: Int32) -> Bool {
        isInit(file("status", of: process) ?? [])
    }

    /// Parses the `NSpid` line of `/proc/PID/status`: the numbers of the process in each namespace, the innermost namespace
    /// last.
    package static func isInit(_ text: [UInt8]) -> Bool { numbers("NSpid:", in: text).last == 1 }

    private static func numbers(_ label: String, in text: [UInt8]) -> [Int64] {
        let label = Array(label.utf8)
        let line = text.split(separator: UInt8(ascii: "\n")).first { $0.starts(with: label) } ?? []
        return line.dropFirst(label.count).split { $0 == 9 || $0 == 32 }.map { decimal($0) }
    }

    private static func decimal(_ bytes: ArraySlice<UInt8>) -> Int64 {
        var value: Int64 = 0
        for byte in bytes {
            guard byte >= 48, byte <= 57 else { break }
            value = value &* 10 &+ Int64(byte - 48)
        }
        return value
    }

    private static func hexadecimal(_ bytes: ArraySlice<UInt8>) -> UInt64 {
        var value: UInt64 = 0
        for byte in bytes {
            switch byte {
            case 48...57: value = value << 4 | UInt64(byte - 48)
            case 97...102: value = value << 4 | UInt64(byte - 87)
            default: return value
            }
        }
        return value
    }
}

/// Reads a whole file of `/proc`. Returns nil if the file is missing or unreadable, or has 1 MiB or more.
///
/// The longest file that is read with this function has 704 KiB, for 65,536 groups of ten digits. The kernel writes the whole
/// text at the first read, so a short read shows the end of the file.
package func readSmallFile(_ path: String) -> [UInt8]? {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var bytes = [UInt8](repeating: 0, count: 4096)
    var done = 0
    while true {
        guard let count = read(descriptor, into: &bytes, after: done) else { return nil }
        done += count
        if done < bytes.count { return Array(bytes[..<done]) }
        guard bytes.count < 1 << 20 else { return nil }
        bytes += [UInt8](repeating: 0, count: 3 * bytes.count)
    }
}

/// Reads the beginning of a file of `/proc` with a single read. Returns nil if the file is missing or unreadable.
package func readBeginning(_ path: String) -> [UInt8]? {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var bytes = [UInt8](repeating: 0, count: 4096)
    return read(descriptor, into: &bytes, after: 0).map { Array(bytes[..<$0]) }
}

private func read(_ descriptor: CInt, into bytes: inout [UInt8], after done: Int) -> Int? {
    let count = bytes.withUnsafeMutableBytes { buffer in
        let free = UnsafeMutableRawBufferPointer(rebasing: buffer[done...])
        return Glibc.read(descriptor, free.baseAddress, free.count)
    }
    return count >= 0 ? count : nil
}
