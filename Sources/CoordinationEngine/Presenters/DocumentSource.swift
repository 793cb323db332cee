// SPDX-License-Identifier: Apache-2.0
package import Coordination
package import LinuxSystem

/// A document that a presenter shows or a client has found by name. If it is moved, this object stays with it.
package protocol TrackedDocument: AnyObject, Sendable {
    var item: ItemID { get }
    /// The present place of the document. Its directory was reported to the engine.
    var place: Place { get }
    /// The present path below the root of the mount, without a leading slash. May be read on any thread, but under no
    /// lock.
    var path: [UInt8] { get }
    /// Makes the kernel drop the cached attributes of the document. Never blocks.
    func invalidateAttributes()
    /// Tells the object that the caller of `find` or `follow` needs it no longer. Called exactly once.
    func release()
}

extension TrackedDocument {
    package func invalidateAttributes() {}
}

/// The services of the file system for the control socket. They may block unless their comments say otherwise, so they
/// are called on workers.
package protocol DocumentSource: ItemPathResolver {
    /// Finds the document at a path from the root of the source. No symbolic link is followed; only the last name may
    /// be one. If the last name does not exist, the document does not exist yet.
    func find(_ path: [UInt8]) throws(LookupFailure) -> any TrackedDocument
    /// Whether ``find(_:)`` would return without a wait for a disk or a network. Never blocks.
    func canFindWithoutBlocking(_ path: [UInt8]) -> Bool
    /// Returns the object that follows a document already, for one more caller; nil if no object follows the document.
    func follow(_ item: ItemID) -> (any TrackedDocument)?
    /// Tells the file system that a presenter of a document was registered.
    func didRegisterPresenter(_ document: any TrackedDocument)
    /// Whether the status of a file is that of the item's file.
    func isFile(_ item: ItemID, _ status: FileStatus) -> Bool
    /// The party of a process as it is now; ``Coordination/Party/nobody`` if the process has ended.
    func party(ofProcess process: Int32) -> Party
    /// Announces a move without a rename: the file at `path` becomes the document. The document's former name must be
    /// gone. If the document is at the path already, nothing happens.
    func announceMove(
        of document: any TrackedDocument, to path: [UInt8], by party: Party, under claim: ClaimID
    ) throws(MoveFailure)
}

/// Returns paths of items, even of items that no object follows.
package protocol ItemPathResolver: Sendable {
    /// The present path of an item at a place. If it has none, the path at the last event of the item there; nil if
    /// unknown.
    ///
    /// May be called on any thread, even under the engine's lock. Never blocks.
    func path(of item: ItemID, at place: Place) -> [UInt8]?
}

package enum LookupFailure: Error, Hashable, Sendable {
    /// A directory in the path does not exist, or is no directory.
    case notFound
    /// The path leads through the directory of the store, or through a symbolic link.
    case denied
    /// The file system below returned this error number.
    case system(Int32)
}

package enum MoveFailure: Error, Hashable, Sendable {
    /// The file at the new path could not be looked up.
    case unreachable(LookupFailure)
    /// No file has the new path.
    case missing
    /// The document still has its former name, so it was not moved.
    case notMoved
}
