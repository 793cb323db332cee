// SPDX-License-Identifier: Apache-2.0

/// Why a command failed: a sentence for users, and a code for programs.
package struct ClientFailure: Error, Hashable, Sendable {
    /// The exit codes of the command, as its article documents them.
    package enum Status: Int32, Sendable {
        case done = 0
        case failed = 1
        case usage = 2
        /// There is no such directory, mount or version.
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
