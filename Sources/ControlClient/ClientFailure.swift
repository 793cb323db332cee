// SPDX-License-Identifier: Apache-2.0

/// What went wrong for somebody who wanted something of a mount: one sentence for people, and a code for programs.
package struct ClientFailure: Error, Hashable, Sendable {
    /// The numbers are what the command returns; documented in the article about it.
    package enum Status: Int32, Sendable {
        case done = 0
        case failed = 1
        case usage = 2
        /// No such directory, no mount, no kept content.
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
