// SPDX-License-Identifier: Apache-2.0
import ControlClient
import LinuxSystem

/// The locks of a source and of its store. Only the daemon that holds these locks serves the source.
///
/// A daemon holds the locks until its process ends, which is shortly after the end of its mount. So the daemon of a new
/// mount waits a little for the locks. If a mount of the source is still visible, the new daemon does not wait but
/// fails, because that mount will not end by itself.
struct SourceLock {
    /// How long a new daemon waits for both locks in all.
    static let timeout = Duration.seconds(2)

    private enum Outcome {
        case taken
        /// Another user's process holds the lock but serves no mount. Such a process must not be able to prevent a
        /// mount.
        case heldByForeignProcess(String)
        case refused
    }

    private let path: String
    private let mounts: VisibleMounts
    private let log: SystemLog
    private let end = MonotonicClock.nanoseconds + UInt64(timeout / .nanoseconds(1))

    init(of source: borrowing OwnedDescriptor, at path: String, log: SystemLog) {
        self.path = path
        self.log = log
        mounts = VisibleMounts(of: source, at: path)
    }

    /// Takes the lock of the source's root. If another process holds it, throws a failure with a message about that
    /// process.
    func acquire(root: borrowing OwnedDescriptor) throws(CommandFailure) {
        let outcome: Outcome
        do throws(Errno) { outcome = try tryAcquire(root) } catch {
            // Some file systems have no locks. The mount table is then the only sign that a second daemon serves the
            // source.
            return log.write("the source cannot be locked: \(error)")
        }
        switch outcome {
        case .taken: return
        case .heldByForeignProcess(let foreignHolder):
            log.write(
                "'\(path.printable)' is locked by \(foreignHolder); it is mounted all the same")
        case .refused:
            let holders = LockHolders(of: root)
            throw CommandFailure(.failed, holders.sentence(on: path, mounts.first(by: holders.users)))
        }
    }

    private func tryAcquire(_ root: borrowing OwnedDescriptor) throws(Errno) -> Outcome {
        guard try !root.tryLock() else { return .taken }
        let holders = LockHolders(of: root)
        if let foreignHolder = holders.foreignHolder, mounts.first(by: holders.users) == nil,
            holders.mount == nil
        {
            return .heldByForeignProcess(foreignHolder)
        }
        return wait(for: root) ? .taken : .refused
    }

    /// Takes the lock of the store. Returns false if another process still holds the lock after the time limit.
    func acquire(store file: borrowing OwnedDescriptor) throws(Errno) -> Bool {
        try file.tryLock() || wait(for: file)
    }

    private func wait(for file: borrowing OwnedDescriptor) -> Bool {
        let now = MonotonicClock.nanoseconds
        guard now < end else { return false }
        let users = LockHolders(of: file).users
        do throws(Errno) {
            return try BoundedFileLock.acquire(file, within: .nanoseconds(Int64(end - now))) {
                mounts.first(by: users) != nil
            }
        } catch {
            log.write("no lock can be waited for: \(error)")
            return false
        }
    }
}
