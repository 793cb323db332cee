// SPDX-License-Identifier: Apache-2.0
package import Coordination
package import LinuxSystem

/// A document that a presenter shows or a client has found by name. If the document is moved, this object has its new
/// place.
package protocol TrackedDocument: AnyObject, Sendable {
    var item: ItemID { get }
    /// The present place of the document. Its directory was reported to the engine.
    var place: Place { get }
    /// The present path below the root of the mount, without a leading slash. Any thread can read it, but not under a
    /// lock.
    var path: [UInt8] { get }
    /// Makes the kernel drop the cached attributes of the document. Never blocks.
    func invalidateAttributes()
    /// Tells the object that a caller of `find` or `follow` no longer needs it. Each caller must call this exactly
    /// once.
    func release()
}

extension TrackedDocument {
    package func invalidateAttributes() {}
}

/// The services of the file system for the control socket. A service can block unless its comment excludes this, so
/// services are called on worker threads.
package protocol DocumentSource: ItemPathResolver {
    /// Finds the document at a path from the root of the source. No symbolic link is followed, and only the last name
    /// can be a symbolic link. If the last name does not exist, the result is a document that does not exist yet.
    func find(_ path: [UInt8]) throws(LookupFailure) -> any TrackedDocument
    /// Whether ``find(_:)`` would return without a wait for a disk or a network. Never blocks.
    func canFindWithoutBlocking(_ path: [UInt8]) -> Bool
    /// Returns the existing object that follows a document, for one more caller. Nil if no object follows the document.
    func follow(_ item: ItemID) -> (any TrackedDocument)?
    /// Tells the file system that a presenter of a document was registered by a party; nil for a subscription to events.
    func didRegisterPresenter(_ document: any TrackedDocument, by party: Party?)
    /// Whether a file status, as from `stat(2)`, belongs to the file of the item.
    func isFile(_ item: ItemID, _ status: FileStatus) -> Bool
    /// The party of a process as it is now; ``Coordination/Party/nobody`` if the process has ended.
    func party(ofProcess process: Int32) -> Party
    /// The generation that a document has now; nil if it has no file.
    func generation(of document: any TrackedDocument) throws(LookupFailure) -> DocumentGeneration?
    /// Compares the present generation of a document with the text of an earlier one.
    func compare(
        _ document: any TrackedDocument, with expected: String
    ) throws(LookupFailure) -> GenerationComparison
    /// Announces that a program has moved the document without a rename: the file at `path` becomes the document. The
    /// document's former name must be gone. If the document is at `path` already, nothing happens.
    func announceMove(
        of document: any TrackedDocument, to path: [UInt8], by party: Party, under claim: ClaimID
    ) throws(MoveFailure)
}

/// Returns paths of items, even of items that no ``TrackedDocument`` follows.
package protocol ItemPathResolver: Sendable {
    /// The present path of an item at a place. If the item has no path there, the path at the last event of the item at
    /// this place. Nil if the path is unknown.
    ///
    /// Can be called on any thread, even under the engine's lock. Never blocks.
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

/// The contents of a document at one moment, by a name, and the program that made them.
package struct DocumentGeneration: Hashable, Sendable {
    /// The generation as programs see it.
    package let text: String
    /// The program that wrote the document last; nil if it is not known.
    package let author: ProcessDescription?
    /// The time of that write in nanoseconds since 1970; nil if it is not known.
    package let time: Int64?

    package init(_ text: String, author: ProcessDescription? = nil, time: Int64? = nil) {
        (self.text, self.author, self.time) = (text, author, time)
    }
}

/// The result of the comparison of a document with an earlier generation.
package enum GenerationComparison: Hashable, Sendable {
    case same
    case changed(DocumentGeneration)
    /// The document has no file any more.
    case missing
    /// The earlier generation is from before a crash of the daemon. So it is not known whether the document has changed.
    case unknown(DocumentGeneration)
    /// The daemon has dropped the earlier generation to make room, or the file was replaced around the mount.
    case forgotten(DocumentGeneration)
}
