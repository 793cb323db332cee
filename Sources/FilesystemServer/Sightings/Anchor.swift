// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// The program that knows what its processes have read: a process that is not a mere carrier of data, or a run (D223).
///
/// `cat` in `bash -c` reads for the program that has started the shell. So the anchor of this `cat` is that program. Two
/// editors in one terminal are two anchors.
package final class Anchor: Sendable {
    package enum Identity: Hashable, Sendable {
        case process(ProcessID)
        /// A run of `truce run`, or a program that is named by TRUCE_ACTOR.
        case named(ActorName)
    }

    package let identity: Identity
    package let program: [UInt8]
    package let user: UInt32?
    /// Whether the program reads a document just before it saves, only to make a backup.
    package let readsToBackUp: Bool
    /// Whether the program only copies or indexes files, such as a backup program.
    package let isBackground: Bool

    package init(
        _ identity: Identity, program: [UInt8], user: UInt32? = nil, readsToBackUp: Bool = false,
        isBackground: Bool = false
    ) {
        self.identity = identity
        self.program = program
        self.user = user
        self.readsToBackUp = readsToBackUp
        self.isBackground = isBackground
    }

    /// The process of the anchor; nil for a run.
    package var process: ProcessID? {
        if case .process(let process) = identity { process } else { nil }
    }
}

/// A process that has opened a remembered document, with its anchor.
package struct Opener: Sendable {
    package let anchor: Anchor
    /// Whether the process is the anchor itself, and no shell. Only then does it know later what it has written: a shell
    /// writes what its commands print.
    package let isAnchor: Bool

    package init(_ anchor: Anchor, isAnchor: Bool) {
        self.anchor = anchor
        self.isAnchor = isAnchor
    }
}
