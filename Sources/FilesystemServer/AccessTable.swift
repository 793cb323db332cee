// SPDX-License-Identifier: Apache-2.0
package import Coordination
import Glibc

/// The access that each kernel request needs.
///
/// Requests that are not here take no claim: changes of attributes, and all requests through an open handle.
package enum AccessTable {
    /// OPEN. Nil if a file of this class is opened without a claim.
    package static func opening(_ flags: Int32, of itemClass: ItemClass) -> Access? {
        let mayWrite = flags & O_ACCMODE != O_RDONLY
        let truncates = flags & O_TRUNC != 0
        switch itemClass {
        // A helper file belongs to one program; databases lock byte ranges themselves.
        case .private, .database: return nil
        // Appenders and readers of a log do not wait for each other; a program that rewrites it waits.
        case .log where !truncates && (!mayWrite || flags & O_APPEND != 0): return nil
        case .document, .background, .log: break
        }
        if truncates { return .write(.updating) }
        // Part of the old contents stays, so presenters save first.
        return mayWrite ? .write(.forMerging) : .read()
    }

    /// SETATTR of the size without a handle.
    package static func resizing(to size: Int64) -> Access { .write(size == 0 ? .updating : .forMerging) }

    /// SETATTR of anything else, and extended attributes. No claim; presenters are told afterwards.
    package static let changingAttributes = Access.write(.updating)

    /// CREATE of a new name.
    package static let creating = Access.write(.forReplacing)
    /// Any request that takes a free name which is claimed or presented; the claim ends when the name exists.
    package static let filling = Access.write(.updating)
    /// Any request that makes a name in a package or moves an item there; it claims the directory until the name
    /// exists.
    package static let makingInPackage = Access.write(.updating)
    /// UNLINK. In a save it is an update from the beginning, because the file will not be missing.
    package static func removing(isSave: Bool) -> Access { .write(isSave ? .updating : .forDeleting) }
    /// The source of a RENAME.
    package static func moving(isSave: Bool) -> Access { .write(isSave ? .updating : .forMoving) }
    /// The target of a RENAME, if there is one.
    ///
    /// A file over a file is the document's next contents, whatever directory it comes from. An exchange deletes
    /// neither file.
    package static func movingOnto(isUpdate: Bool, isExchange: Bool) -> Access {
        if isExchange { return .write(.forMoving) }
        return .write(isUpdate ? .updating : .forReplacing)
    }
}

extension Node {
    /// Whether opening the file needs a claim.
    func needsClaim(flags: Int32) -> Bool {
        kind == S_IFREG && AccessTable.opening(flags, of: itemClass) != nil
    }
}
