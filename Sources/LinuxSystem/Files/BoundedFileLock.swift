// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// Waits for the lock of a file with a time limit; `flock(2)` itself has no time limit.
///
/// A separate thread waits in the kernel. If the time limit ends the wait, that thread goes on waiting until the lock is free.
/// This does no harm, because callers then end the process.
package enum BoundedFileLock {
    /// Takes the exclusive lock of a file, or stops waiting when the time is over.
    ///
    /// - Parameters:
    ///   - file: an open file; the lock belongs to this open file.
    ///   - time: the longest wait.
    ///   - isHopeless: called before the wait begins and after each change of the mount table. If it returns true, the wait
    ///     ends without the lock.
    /// - Returns: whether the lock was taken.
    /// - Throws: the error that prevents the wait.
    package static func acquire(
        _ file: borrowing OwnedDescriptor, within time: Duration, unless isHopeless: () -> Bool
    ) throws(Errno) -> Bool {
        let end = MonotonicClock.nanoseconds + UInt64(time / .nanoseconds(1))
        let mounts = try OwnedDescriptor.watchingMounts()
        guard !isHopeless() else { return false }
        let waiter = Waiter(for: try .duplicating(file.rawValue), telling: try Pipe())
        try JoinableThread { waiter.run() }.detach()
        while let left = milliseconds(until: end) {
            var events = [
                pollfd(fd: waiter.completionDescriptor, events: Int16(POLLIN), revents: 0),
                pollfd(fd: mounts.rawValue, events: Int16(POLLPRI), revents: 0),
            ]
            _ = try retryingOnInterrupt { poll(&events, 2, left) }
            if events[0].revents != 0 { return try waiter.result() }
            if events[1].revents != 0, isHopeless() { return false }
        }
        return false
    }

    /// Returns the time left until `end` in milliseconds; nil after `end`.
    ///
    /// The result is rounded up, because a wait of 0 ms in the last millisecond would be repeated many times.
    private static func milliseconds(until end: UInt64) -> CInt? {
        let now = MonotonicClock.nanoseconds
        return now < end ? CInt((end - now) / 1_000_000) + 1 : nil
    }

    /// The lock and its result, which the waiting thread and its caller share.
    private final class Waiter: Sendable {
        private let file: OwnedDescriptor
        private let pipe: Pipe

        init(for file: consuming OwnedDescriptor, telling pipe: consuming Pipe) {
            self.file = file
            self.pipe = pipe
        }

        /// A descriptor that becomes readable when `run` returns.
        var completionDescriptor: CInt { pipe.readEnd.rawValue }

        func run() {
            var result: CInt = 0
            while clinux_lock(file.rawValue) != 0 {
                guard errno == EINTR else {
                    result = errno
                    break
                }
            }
            withUnsafeBytes(of: &result) { _ = write(pipe.writeEnd.rawValue, $0.baseAddress, $0.count) }
        }

        func result() throws(Errno) -> Bool {
            var result: CInt = 0
            let descriptor = completionDescriptor
            _ = try retryingOnInterrupt { read(descriptor, &result, MemoryLayout<CInt>.size) }
            guard result == 0 else { throw Errno(rawValue: result) }
            return true
        }
    }
}

extension OwnedDescriptor {
    /// Opens `/proc/self/mountinfo`, for which poll(2) reports POLLPRI after each change of the mount table.
    fileprivate static func watchingMounts() throws(Errno) -> OwnedDescriptor {
        OwnedDescriptor(
            adopting: try retryingOnInterrupt { open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC) })
    }
}
