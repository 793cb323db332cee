// SPDX-License-Identifier: Apache-2.0
package import Coordination
import Glibc

/// Which access a kernel request is.
///
/// The one place where requests of the kernel become words of the arbiter. What is not here takes no claim:
/// attributes, and everything that goes through an open handle.
package enum AccessTable {
    /// OPEN. Nil if a file of this class is opened without a claim.
    package static func opening(_ flags: Int32, of itemClass: ItemClass) -> Access? {
        let mayWrite = flags & O_ACCMODE != O_RDONLY
        let truncates = flags & O_TRUNC != 0
        switch itemClass {
        // Helper files are nobody else's; databases lock byte ranges themselves.
        case .private, .database: return nil
        // Appenders and readers of a log do not wait for each other; who rewrites it does.
        case .log where !truncates && (!mayWrite || flags & O_APPEND != 0): return nil
        case .document, .background, .log: break
        }
        if truncates { return .write(.updating) }
        // Part of the old contents stays, so whoever shows them saves first.
        return mayWrite ? .write(.forMerging) : .read()
    }

    /// SETATTR of the size without a handle.
    package static func resizing(to size: Int64) -> Access { .write(size == 0 ? .updating : .forMerging) }

    /// SETATTR of anything else, and extended attributes. No claim; presenters are told afterwards.
    package static let changingAttributes = Access.write(.updating)

    /// CREATE of a new name.
    package static let creating = Access.write(.forReplacing)
    /// Whatever takes a name that somebody has claimed or shows though there is nothing yet: until it is there.
    package static let filling = Access.write(.updating)
    /// Whatever makes a name in a package, or moves something to one: of the directory, until it is there.
    package static let makingInPackage = Access.write(.updating)
    /// UNLINK. A step of a save is an update from the beginning: the file is not going to be missing.
    package static func removing(isSave: Bool) -> Access { .write(isSave ? .updating : .forDeleting) }
    /// The source of a RENAME.
    package static func moving(isSave: Bool) -> Access { .write(isSave ? .updating : .forMoving) }
    /// The target of a RENAME, if there is one.
    ///
    /// A file over a file is the document's next contents, wherever it comes from; of two that change places
    /// neither goes.
    package static func movingOnto(isUpdate: Bool, isExchange: Bool) -> Access {
        if isExchange { return .write(.forMoving) }
        return .write(isUpdate ? .updating : .forReplacing)
    }
}
