// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// The limits of the save detector, each with the observation that it is based on.
package enum SaveLimits {
    /// How long a name may be missing after the last operation of the saving program.
    package static let pendingIdle: TimeSpan = .seconds(2)
    /// How long a name may be missing in all, even if the saving program goes on.
    package static let pendingLongest: TimeSpan = .seconds(10)
    /// How long a name may be missing after a step that may be a move or a deletion, even if the program goes on.
    ///
    /// Programs that save need less than a millisecond. A longer time would delay the event of a move.
    package static let stepWait: TimeSpan = .milliseconds(250)
    /// How long after the end of its maker a file still counts as part of a sibling process's save.
    ///
    /// Shell pipelines need 25 ms. The rest is reserve.
    package static let siblingGrace: TimeSpan = .seconds(5)
    /// The most files with known makers that are remembered. Above this limit the oldest file is forgotten.
    ///
    /// If the file of a save is forgotten, the document is missing without a pending save. No contents are lost.
    package static let rememberedFiles = 4096
    /// The most moves of presented documents that are remembered, in case the programs make files under the former names.
    package static let movedDocuments = 64
    /// The most names that may have pending saves at once. A name above this limit is simply missing.
    package static let mostPendingSaves = 4096
    /// How many other documents a program may take from a directory. If it takes more, lookups of the names do not wait.
    ///
    /// An editor takes one document away and makes a file under its name. `git checkout` and `rm -r` take many.
    package static let otherDepartures = 3
    /// The most time for which OPENDIR waits for documents that are missing in the middle of a save.
    package static let listingWait: TimeSpan = .milliseconds(250)
    /// The most documents to which the name of one helper file may belong.
    package static let candidateDocuments = 8
}
