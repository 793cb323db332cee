// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// Patterns A and I: what a handle opened for writing comes to when it is released.
///
/// With passthrough no WRITE is seen, so only the file itself tells whether anything happened.
package struct InPlaceWrite: Hashable, Sendable {
    /// What changes whenever a file's contents do.
    package struct Stamp: Hashable, Sendable {
        package let size: UInt64
        package let modifiedNanoseconds: Int64
        package let changedNanoseconds: Int64

        package init(size: UInt64, modifiedNanoseconds: Int64, changedNanoseconds: Int64) {
            self.size = size
            self.modifiedNanoseconds = modifiedNanoseconds
            self.changedNanoseconds = changedNanoseconds
        }
    }

    package let actor: Actor?
    package let truncates: Bool
    package let before: Stamp

    package init(by actor: Actor?, truncates: Bool, before: Stamp) {
        self.actor = actor
        self.truncates = truncates
        self.before = before
    }

    /// An update, or nothing: GIO, Emacs and micro open a document for writing and write nothing.
    package func outcome(released after: Stamp) -> EpisodeOutcome {
        truncates || after != before ? .update : .nothing
    }

    /// Whether this write goes on with one that its process ended at `ended`, so that both are one
    /// update: GIMP and ImageMagick truncate a document twice for one save.
    package func continues(_ former: InPlaceWrite, endedAt ended: Instant, at now: Instant) -> Bool {
        guard let actor, let formerActor = former.actor else { return false }
        return truncates && actor.process == formerActor.process
            && now.since(ended) <= EpisodeLimits.rewriteGap
    }
}
