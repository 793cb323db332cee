// SPDX-License-Identifier: Apache-2.0
import CLinux

/// The calling thread's identity for the file system below: its file-system user and group, and its umask.
///
/// The daemon creates files for requesters: the programs that send requests. A new file must belong to the requester, with the
/// group and permissions that it would have without Truce. So the thread takes the requester's identity before it creates the
/// file. The thread keeps its capabilities, because the requester's rights were already checked.
package enum ThreadIdentity {
    /// Prepares the calling thread to take the identity of other users. Without this call ``become(user:group:umask:)`` does
    /// nothing.
    package static func prepare() throws(Errno) {
        guard clinux_prepare_thread() == 0 else { throw .last }
    }

    /// Prepares the calling thread to take other identities. If this fails, the thread creates files under the daemon's
    /// identity.
    @Sendable package static func prepareIfPossible() { _ = clinux_prepare_thread() }

    /// Whether the calling thread can create files under another identity.
    package static var isPrepared: Bool { clinux_is_prepared() != 0 }

    /// Gives the calling thread the identity of a requester. If the thread already has that identity, this takes no time.
    ///
    /// If the daemon does not run as root, only the umask changes.
    package static func become(user: UInt32, group: UInt32, umask: UInt32) {
        clinux_become(user, group, umask)
    }

    /// Gives the calling thread the user and group of a requester, but not its umask. This is for work that creates no files.
    package static func become(user: UInt32, group: UInt32) { clinux_use(user, group) }

    /// Gives the calling thread the daemon's identity again, so that the file system below does not see the last requester any
    /// more.
    package static func becomeDaemon() { clinux_become_oneself() }

    /// Runs `body`, during which the disk quota of a user applies to the calling thread.
    ///
    /// `body` can neither exceed that quota nor take space that is reserved for root. If the daemon does not run as root, the
    /// quota of the daemon's own user applies.
    package static func withQuota<Value: ~Copyable>(
        of user: UInt32, group: UInt32, _ body: () throws(Errno) -> Value
    ) throws(Errno) -> Value {
        guard OwnProcess.user == 0, user != 0 else { return try body() }
        if isPrepared {
            become(user: user, group: group)
            defer { becomeDaemon() }
            return try body()
        }
        // This thread was not prepared, so ``become(user:group:umask:)`` has no effect on it. This call changes the thread's
        // credentials for `body` alone.
        return try FileUser(user: user, group: group, supplementaryGroups: []).impersonate(body)
    }

    /// Drops root's capability to exceed quotas and to use reserved space. This concerns the calling thread and the threads
    /// that it starts from now on.
    ///
    /// The daemon writes the data of other users, and must not exceed the limits of those users.
    package static func dropResourceCapability() throws(Errno) {
        guard clinux_give_up_resources() == 0 else { throw .last }
    }
}
