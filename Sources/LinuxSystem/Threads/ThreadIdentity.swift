// SPDX-License-Identifier: Apache-2.0
import CLinux

/// The calling thread's identity for the file system below: its file-system user and group, and its umask.
///
/// A new file must look as if the requester had created it: with the requester's user, and with the group and permissions that
/// follow from the requester or the directory. The kernel creates such a file if the creating thread has the requester's
/// identity. The thread retains its capabilities, because the requester's rights were already checked.
package enum ThreadIdentity {
    /// Prepares the calling thread to take other identities. Without this call ``become(user:group:umask:)`` does nothing.
    package static func prepare() throws(Errno) {
        guard clinux_prepare_thread() == 0 else { throw .last }
    }

    /// Prepares the calling thread if possible. If that fails, the thread creates files under the daemon's identity.
    @Sendable package static func prepareIfPossible() { _ = clinux_prepare_thread() }

    /// Whether the calling thread can create files under another identity.
    package static var isPrepared: Bool { clinux_is_prepared() != 0 }

    /// Gives the calling thread the identity of a requester. Takes no time if the thread already has that identity.
    ///
    /// If the daemon does not run as root, only the umask changes.
    package static func become(user: UInt32, group: UInt32, umask: UInt32) {
        clinux_become(user, group, umask)
    }

    /// Gives the calling thread the identity of a requester without the umask, for work that creates no files.
    package static func become(user: UInt32, group: UInt32) { clinux_use(user, group) }

    /// Gives the calling thread the daemon's identity again. A file system that checks the user then no longer sees the last
    /// requester.
    package static func becomeDaemon() { clinux_become_oneself() }

    /// Runs `body` with the disk quota of a user.
    ///
    /// `body` can neither exceed that quota nor take space that is reserved for root. If the daemon does not run as root, its
    /// own user's quota applies in any case.
    package static func withQuota<Value: ~Copyable>(
        of user: UInt32, group: UInt32, _ body: () throws(Errno) -> Value
    ) throws(Errno) -> Value {
        guard OwnProcess.user == 0, user != 0 else { return try body() }
        if isPrepared {
            become(user: user, group: group)
            defer { becomeDaemon() }
            return try body()
        }
        // A thread that was not prepared has no identity to return to. So this call changes the thread's credentials and
        // restores them afterwards.
        return try FileUser(user: user, group: group, supplementaryGroups: []).impersonate(body)
    }

    /// Drops root's capability to exceed quotas and to use reserved space, for the calling thread and the threads that it
    /// starts.
    ///
    /// The daemon writes the data of other users, so the limits of those users apply.
    package static func dropResourceCapability() throws(Errno) {
        guard clinux_give_up_resources() == 0 else { throw .last }
    }
}
