// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// The limits of the save detector. The comments say on which observation each limit is based.
package enum SaveLimits {
    /// How long programs wait for a missing name after the last operation of the saving program.
    package static let pendingIdle: TimeSpan = .seconds(2)
    /// How long programs wait for a missing name in all, even if the saving program still makes requests.
    package static let pendingLongest: TimeSpan = .seconds(10)
    /// How long programs wait for a missing name in all, if the save may also be a move or a deletion.
    ///
    /// Programs that save need less than a millisecond. A longer wait would delay the event of a real move.
    package static let stepWait: TimeSpan = .milliseconds(250)
    /// For this time after its last use, a file counts as part of a save by a sibling process, although the file's
    /// maker has ended.
    ///
    /// Shell pipelines need 25 ms. The rest is a reserve.
    package static let siblingGrace: TimeSpan = .seconds(5)
    /// The most files with remembered makers. If there are more, the oldest file is forgotten.
    ///
    /// If a forgotten file was part of a save, other programs do not wait for the document's name. No contents are
    /// lost.
    package static let rememberedFiles = 4096
    /// The most moves of presented documents that are remembered. After such a move, the program may make a file under
    /// the old name.
    package static let movedDocuments = 64
    /// The most names that may have pending saves at the same time. For further missing names, programs do not wait.
    package static let mostPendingSaves = 4096
    /// How many documents a program may take away from a directory before lookups of their names no longer wait.
    ///
    /// An editor takes one document away and then makes a file under its name. `git checkout` and `rm -r` take away
    /// many documents in succession.
    package static let otherDepartures = 3
    /// How long OPENDIR waits at most for documents of the directory that are missing in the middle of a save.
    package static let listingWait: TimeSpan = .milliseconds(250)
    /// The most document names that are searched in the name of one helper file.
    package static let candidateDocuments = 8
}
