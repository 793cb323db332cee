// SPDX-License-Identifier: Apache-2.0
package import Coordination
package import LinuxSystem

/// A document that somebody shows or asked for by name, followed wherever it moves.
package protocol TrackedDocument: AnyObject, Sendable {
    var item: ItemID { get }
    /// Where it is now; the directory is known to the engine.
    var place: Place { get }
    /// What it is called now, below the root and without a leading slash. On any thread, under no lock.
    var path: [UInt8] { get }
    /// Has the kernel ask anew for the attributes that it knows of the document. Never blocks.
    func invalidateAttributes()
    /// Whoever found it needs it no longer; called exactly once.
    func release()
}

extension TrackedDocument {
    package func invalidateAttributes() {}
}

/// What the control socket asks of the file system. Where nothing else is said, it may block: call it on workers.
package protocol DocumentSource: ItemPathResolver {
    /// Follows a path from the root of the source, through no symbolic link but in the last part, which is not
    /// followed. A last name that does not exist is a document that does not exist yet.
    func find(_ path: [UInt8]) throws(LookupFailure) -> any TrackedDocument
    /// Whether ``find(_:)`` would answer without waiting for a disk or a network. Never blocks.
    func canFindWithoutBlocking(_ path: [UInt8]) -> Bool
    /// A document that somebody follows already, for one more; nil if nobody does.
    func follow(_ item: ItemID) -> (any TrackedDocument)?
    /// A presenter of a document was registered.
    func didRegisterPresenter(_ document: any TrackedDocument)
    /// Whether that is the file of an item.
    func isFile(_ item: ItemID, _ status: FileStatus) -> Bool
    /// Who a process is now; nobody if it is gone.
    func party(ofProcess process: Int32) -> Party
    /// What is at a path is a document from now on whose own name is gone: somebody moved it in another way than by a
    /// rename. Nothing happens if the document is there already.
    func announceMove(
        of document: any TrackedDocument, to path: [UInt8], by party: Party, under claim: ClaimID
    ) throws(MoveFailure)
}

/// Knows items that nobody follows by their names.
package protocol ItemPathResolver: Sendable {
    /// What an item is called at a place, or was when something was told of it there; nil if nobody remembers.
    ///
    /// On any thread, also under the engine's lock; never blocks.
    func path(of item: ItemID, at place: Place) -> [UInt8]?
}

package enum LookupFailure: Error, Hashable, Sendable {
    /// A directory on the way does not exist, or is none.
    case notFound
    /// Our own directory, or a symbolic link on the way.
    case denied
    /// The number of an error of the file system below.
    case system(Int32)
}

package enum MoveFailure: Error, Hashable, Sendable {
    /// What is at the new path cannot be found.
    case unreachable(LookupFailure)
    /// Nothing is at the new path.
    case missing
    /// The document still has its former name.
    case notMoved
}
