// SPDX-License-Identifier: Apache-2.0
import CLinux

/// What the calling thread is to the file system below: its file-system user and group, and its umask.
///
/// Files must be created as the requester: with its user, with its group or the directory's, and with its
/// umask or the directory's default ACL. The kernel does all of that if the creating thread looks like the
/// requester. The thread keeps its capabilities, because the requester's rights were checked before the
/// request got here.
package enum ThreadIdentity {
    /// Prepares the calling thread; without it ``become(user:group:umask:)`` does nothing.
    package static func prepare() throws(Errno) {
        guard clinux_prepare_thread() == 0 else { throw .last }
    }

    /// The same for a thread that can do without: what it does for others, it does as the daemon then.
    @Sendable package static func prepareIfPossible() { _ = clinux_prepare_thread() }

    /// Whether the calling thread can make files as somebody else.
    package static var isPrepared: Bool { clinux_is_prepared() != 0 }

    /// Costs nothing while the requester stays the same. A daemon without root's rights only takes the umask.
    package static func become(user: UInt32, group: UInt32, umask: UInt32) {
        clinux_become(user, group, umask)
    }

    /// The same for what makes no files.
    package static func become(user: UInt32, group: UInt32) { clinux_use(user, group) }

    /// The daemon again, which file systems that look at the user must not take for the last requester.
    package static func becomeDaemon() { clinux_become_oneself() }

    /// Runs `body` with the room of a user: what that one may not exceed or take, `body` may not. A daemon of another user than root has
    /// that user's room in any case.
    package static func withQuota<Value: ~Copyable>(
        of user: UInt32, group: UInt32, _ body: () throws(Errno) -> Value
    ) throws(Errno) -> Value {
        guard OwnProcess.user == 0, user != 0 else { return try body() }
        if isPrepared {
            become(user: user, group: group)
            defer { becomeDaemon() }
            return try body()
        }
        // A thread of another kind, which has no identity to come back to.
        return try FileUser(user: user, group: group, supplementaryGroups: []).impersonate(body)
    }

    /// Gives up, for the calling thread and those it makes, the right of root's to exceed quotas and to take what a file system
    /// keeps for root: what is written, others write.
    package static func dropResourceCapability() throws(Errno) {
        guard clinux_give_up_resources() == 0 else { throw .last }
    }
}
