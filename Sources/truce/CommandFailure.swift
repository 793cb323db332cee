// SPDX-License-Identifier: Apache-2.0

/// What the command returns; documented in the article about the command.
package enum ExitStatus: Int32, Sendable {
    case done = 0
    case failed = 1
    case usage = 2
    /// No such directory, no mount, no kept content.
    case notFound = 3
    case timedOut = 4
    case denied = 6
}

/// One sentence for people, and a code for programs.
package struct CommandFailure: Error, Hashable, Sendable {
    package var status: ExitStatus
    package var message: String

    package init(_ status: ExitStatus, _ message: String) {
        self.status = status
        self.message = message
    }
}
