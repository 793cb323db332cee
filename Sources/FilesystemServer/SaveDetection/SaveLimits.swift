// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// Every bound of the recogniser, with the observation behind it.
package enum SaveLimits {
    /// How long a vacated name waits after its actor's last operation.
    ///
    /// vim needed 1.6 s between renaming
    /// an 80 MB document away and creating it again, so half a second is too short.
    package static let pendingIdle: TimeSpan = .seconds(2)
    /// How long a vacated name waits in all, however busy its actor is.
    package static let pendingLongest: TimeSpan = .seconds(10)
    /// How long a name waits that was vacated by a step which may be a move or a removal, however busy its actor is.
    ///
    /// Programs that save need less than a millisecond. A longer wait would keep others from hearing of a move.
    package static let stepWait: TimeSpan = .milliseconds(250)
    /// How long after its maker's exit a file still counts as part of a sibling's save.
    ///
    /// Shell pipelines need 25 ms; the rest is margin.
    package static let siblingGrace: TimeSpan = .seconds(5)
    /// How many files made by somebody are remembered; beyond it the oldest is forgotten.
    ///
    /// Being forgotten costs a document one window, never its contents.
    package static let rememberedFiles = 4096
    /// How many moves of presented documents are remembered in case the programs fill the names.
    package static let movedDocuments = 64
    /// How many names may be vacated at once; beyond it no window opens and the plain truth is shown.
    package static let mostPendingSaves = 4096
    /// How many more documents a program may take from a directory before no name that it left empty is waited for.
    ///
    /// An editor takes one document away and fills its name; `git checkout` and `rm -r` take many.
    package static let otherDepartures = 3
    /// How long OPENDIR waits for documents that are missing in the middle of a save.
    package static let listingWait: TimeSpan = .milliseconds(250)
    /// How many documents one side name is taken to belong to at most.
    package static let candidateDocuments = 8
}
