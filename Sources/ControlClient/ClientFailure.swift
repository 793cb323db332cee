// SPDX-License-Identifier: Apache-2.0

/// The reason why a command failed: a sentence for users, and an exit code for programs that call the command.
package struct ClientFailure: Error, Hashable, Sendable {
    /// The exit codes of the command `truce`, as its documentation lists them.
    package enum Status: Int32, Sendable {
        case done = 0
        case failed = 1
        case usage = 2
        /// The directory, mount or version that the user has given does not exist.
        case notFound = 3
        case timedOut = 4
        case denied = 6
    }

    package var status: Status
    package var message: String

    package init(_ status: Status, _ message: String) {
        self.status = status
        self.message = message
    }
}
