// SPDX-License-Identifier: Apache-2.0
package import Coordination
import Glibc

/// Gives the kind of access that a kernel request needs, such as to read, to write or to delete.
///
/// For a request that is not listed in this file, no claim is made. An example is a read through an open handle.
package enum AccessTable {
    /// Returns the access of an OPEN request. Returns nil if the open of a file of this class makes no claim.
    package static func opening(_ flags: Int32, of itemClass: ItemClass) -> Access? {
        let mayWrite = flags & O_ACCMODE != O_RDONLY
        let truncates = flags & O_TRUNC != 0
        switch itemClass {
        // A helper file is used by one program only. The programs of a database lock byte ranges of the database
        // themselves.
        case .private, .database: return nil
        // A program that reads a log or appends to it makes no claim. A program that rewrites the log makes a claim.
        case .log where !truncates && (!mayWrite || flags & O_APPEND != 0): return nil
        case .document, .background, .log: break
        }
        if truncates { return .write(.updating) }
        // If the open does not truncate the file, the program may keep a part of the old contents. So presenters must
        // save their changes before the open.
        return mayWrite ? .write(.forMerging) : .read()
    }

    /// Returns the access of a SETATTR request that sets the size of a file by its path, without an open handle.
    package static func resizing(to size: Int64) -> Access { .write(size == 0 ? .updating : .forMerging) }

    /// The access of a SETATTR request that sets no size, and of a request that changes extended attributes.
    ///
    /// No claim is made for such a request. Presenters are told of the change when it is done.
    package static let changingAttributes = Access.write(.updating)

    /// The access of a CREATE request that makes a new file.
    package static let creating = Access.write(.forReplacing)
    /// The access of a request that gives a file the name of a document which has no file at the moment.
    ///
    /// The claim is for that document. The claim ends when the name exists.
    package static let filling = Access.write(.updating)
    /// The access of a request that creates an item in a package, or moves an item into a package.
    ///
    /// The claim is for the directory in which the new name is made. The claim ends when the name exists.
    package static let makingInPackage = Access.write(.updating)
    /// Returns the access of an UNLINK request.
    ///
    /// If a save removes the file, the access is an update and not a deletion. The save soon makes a new file with the
    /// same name.
    package static func removing(isSave: Bool) -> Access { .write(isSave ? .updating : .forDeleting) }
    /// Returns the access that a RENAME request needs to the file that it moves.
    package static func moving(isSave: Bool) -> Access { .write(isSave ? .updating : .forMoving) }
    /// Returns the access that a RENAME request needs to the file that already has the new name.
    ///
    /// An exchange (`RENAME_EXCHANGE`) moves both files and deletes neither. Any other rename takes the name from this
    /// file: the access is an update if the moved file has the document's next contents.
    package static func movingOnto(isUpdate: Bool, isExchange: Bool) -> Access {
        if isExchange { return .write(.forMoving) }
        return .write(isUpdate ? .updating : .forReplacing)
    }
}

extension Node {
    /// Returns whether a claim must be made when a program opens this file with these flags of open(2).
    func needsClaim(flags: Int32) -> Bool {
        kind == S_IFREG && AccessTable.opening(flags, of: itemClass) != nil
    }
}
