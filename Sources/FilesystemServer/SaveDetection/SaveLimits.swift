// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// Every limit of the save detector, with the observation behind it.
package enum SaveLimits {
    /// How long a vacated name waits after its saver's last operation.
    ///
    /// vim needed 1.6 s between renaming an 80 MB document away and creating it again, so half a second is too short.
    package static let pendingIdle: TimeSpan = .seconds(2)
    /// How long a vacated name waits in all, however busy its saver is.
    package static let pendingLongest: TimeSpan = .seconds(10)
    /// How long a name waits after a step which may be a move or a removal, however busy its saver is.
    ///
    /// Programs that save need less than a millisecond. A longer wait would delay the event of a move.
    package static let stepWait: TimeSpan = .milliseconds(250)
    /// How long after its maker's exit a file still counts as part of a sibling's save.
    ///
    /// Shell pipelines need 25 ms; the rest is margin.
    package static let siblingGrace: TimeSpan = .seconds(5)
    /// How many files with known makers are remembered; above the limit the oldest is forgotten.
    ///
    /// A forgotten file costs a document one pending save, never its contents.
    package static let rememberedFiles = 4096
    /// How many moves of presented documents are remembered in case the programs fill the names.
    package static let movedDocuments = 64
    /// How many names may be vacated at once; above the limit the names are simply missing.
    package static let mostPendingSaves = 4096
    /// How many more documents a program may take from a directory before no lookup waits for the names.
    ///
    /// An editor takes one document away and fills its name; `git checkout` and `rm -r` take many.
    package static let otherDepartures = 3
    /// How long OPENDIR waits for documents that are missing in the middle of a save.
    package static let listingWait: TimeSpan = .milliseconds(250)
    /// How many documents one helper file's name may belong to at most.
    package static let candidateDocuments = 8
}
