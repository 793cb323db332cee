// SPDX-License-Identifier: Apache-2.0
import CLinux

/// The calling thread's identity for the file system below: its file-system user and group, and its umask.
///
/// Files must be created as the requester: with its user, with its group or the directory's, and with its umask or the
/// directory's default ACL. The kernel does this if the creating thread has the requester's identity. The thread retains its
/// capabilities, because the requester's rights were already checked.
package enum ThreadIdentity {
    /// Prepares the calling thread; without it ``become(user:group:umask:)`` does nothing.
    package static func prepare() throws(Errno) {
        guard clinux_prepare_thread() == 0 else { throw .last }
    }

    /// Prepares the calling thread if possible; otherwise it works for requesters under the daemon's identity.
    @Sendable package static func prepareIfPossible() { _ = clinux_prepare_thread() }

    /// Whether the calling thread can create files under another identity.
    package static var isPrepared: Bool { clinux_is_prepared() != 0 }

    /// Takes the identity of a requester; costs nothing while the requester stays the same.
    ///
    /// A daemon without root's rights takes the umask only.
    package static func become(user: UInt32, group: UInt32, umask: UInt32) {
        clinux_become(user, group, umask)
    }

    /// Takes the identity of a requester, for work that creates no files.
    package static func become(user: UInt32, group: UInt32) { clinux_use(user, group) }

    /// Returns to the daemon's identity, so that a file system that checks the user does not see the last requester.
    package static func becomeDaemon() { clinux_become_oneself() }

    /// Runs `body` under the quota of a user.
    ///
    /// `body` cannot exceed that quota, nor take space that is reserved for root. A daemon that does not run as root is under
    /// its own user's quota in any case.
    package static func withQuota<Value: ~Copyable>(
        of user: UInt32, group: UInt32, _ body: () throws(Errno) -> Value
    ) throws(Errno) -> Value {
        guard OwnProcess.user == 0, user != 0 else { return try body() }
        if isPrepared {
            become(user: user, group: group)
            defer { becomeDaemon() }
            return try body()
        }
        // A thread that was not prepared has no identity to return to, so this call changes its credentials for the duration.
        return try FileUser(user: user, group: group, supplementaryGroups: []).impersonate(body)
    }

    /// Drops root's capability to exceed quotas and to use reserved space, for the calling thread and its new threads.
    ///
    /// The daemon writes the data of other users, so their limits apply.
    package static func dropResourceCapability() throws(Errno) {
        guard clinux_give_up_resources() == 0 else { throw .last }
    }
}
