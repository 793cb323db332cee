// SPDX-License-Identifier: Apache-2.0
package import Coordination
import Glibc

/// Which access a kernel request is.
///
/// The one place where requests of the kernel become words of the arbiter. What is not here takes no claim:
/// links, directories and nodes that are made, attributes, and everything that goes through an open handle.
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
        return mayWrite ? .write(.forMerging) : .read
    }

    /// SETATTR of the size without a handle.
    package static func resizing(to size: Int64) -> Access { .write(size == 0 ? .updating : .forMerging) }

    /// CREATE of a new name.
    package static let creating = Access.write(.forReplacing)
    /// UNLINK.
    package static let removing = Access.write(.forDeleting)
    /// The source of a RENAME.
    package static let moving = Access.write(.forMoving)
    /// The target of a RENAME, if there is one.
    package static let movingOnto = Access.write(.forReplacing)
}
