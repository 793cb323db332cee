// SPDX-License-Identifier: Apache-2.0
package import Coordination
package import LinuxSystem

/// A document that is presented or was found by name, followed through its moves.
package protocol TrackedDocument: AnyObject, Sendable {
    var item: ItemID { get }
    /// Its present place; the engine knows the directory.
    var place: Place { get }
    /// Its present path, below the root and without a leading slash. On any thread, under no lock.
    var path: [UInt8] { get }
    /// Makes the kernel drop the cached attributes of the document. Never blocks.
    func invalidateAttributes()
    /// The caller of `find` or `follow` needs it no longer; called exactly once.
    func release()
}

extension TrackedDocument {
    package func invalidateAttributes() {}
}

/// The services of the file system for the control socket. They may block unless documented otherwise: call them on
/// workers.
package protocol DocumentSource: ItemPathResolver {
    /// Finds the document at a path from the root of the source. No symbolic link is followed, and only the last part
    /// may be one. If the last name does not exist, the document does not exist yet.
    func find(_ path: [UInt8]) throws(LookupFailure) -> any TrackedDocument
    /// Whether ``find(_:)`` would answer without waiting for a disk or a network. Never blocks.
    func canFindWithoutBlocking(_ path: [UInt8]) -> Bool
    /// Follows a document once more; nil if it is not followed yet.
    func follow(_ item: ItemID) -> (any TrackedDocument)?
    /// A presenter of a document was registered.
    func didRegisterPresenter(_ document: any TrackedDocument)
    /// Whether a file status belongs to the file of an item.
    func isFile(_ item: ItemID, _ status: FileStatus) -> Bool
    /// The present party of a process; ``Coordination/Party/nobody`` if it is gone.
    func party(ofProcess process: Int32) -> Party
    /// Announces a move that was not a rename: the file at a path is the document from now on. The document's former
    /// name must be gone. Nothing happens if the document is at the path already.
    func announceMove(
        of document: any TrackedDocument, to path: [UInt8], by party: Party, under claim: ClaimID
    ) throws(MoveFailure)
}

/// Resolves the paths of items that may not be followed.
package protocol ItemPathResolver: Sendable {
    /// The present path of an item at a place, or its path at the last event there; nil if unknown.
    ///
    /// On any thread, also under the engine's lock; never blocks.
    func path(of item: ItemID, at place: Place) -> [UInt8]?
}

package enum LookupFailure: Error, Hashable, Sendable {
    /// A directory of the path does not exist, or is not a directory.
    case notFound
    /// The path leads through the store's directory or a symbolic link.
    case denied
    /// The error number from the file system below.
    case system(Int32)
}

package enum MoveFailure: Error, Hashable, Sendable {
    /// The file at the new path cannot be found.
    case unreachable(LookupFailure)
    /// The new path does not exist.
    case missing
    /// The document still has its former name.
    case notMoved
}
