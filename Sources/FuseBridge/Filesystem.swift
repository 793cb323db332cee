// SPDX-License-Identifier: Apache-2.0
import CFuse
package import LinuxSystem

/// Names an inode to the kernel, from the reply that introduces it to the last FORGET.
package struct NodeID: Hashable, Sendable {
    package let rawValue: UInt64
    package init(_ rawValue: UInt64) { self.rawValue = rawValue }
    package static let root = NodeID(1)
}

/// Who sent a request.
package struct Caller: Sendable {
    package let user: UInt32
    package let group: UInt32
    /// 0 for a thread outside our PID namespace, or the kernel itself.
    package let thread: Int32
}

/// How long the kernel may believe an answer.
package enum Validity: Double, Sendable {
    case none = 0
    case long = 3600
}

/// What a filesystem answers.
///
/// Each requirement owns its `Reply` and may answer later, from any thread; none may block. A name
/// is valid until the requirement returns.
package protocol Filesystem: AnyObject, Sendable {
    /// Answering with an entry adds one to the number of lookups the kernel will ``forget(_:lookups:)``.
    func lookUp(_ name: borrowing FileName, in parent: NodeID, reply: consuming Reply)
    /// The only request without an answer.
    func forget(_ node: NodeID, lookups: UInt64)
    func attributes(of node: NodeID, reply: consuming Reply)

    func openDirectory(_ node: NodeID, reply: consuming Reply)
    func readDirectory(_ node: NodeID, handle: UInt64, from offset: Int, into page: consuming DirectoryPage)
    func closeDirectory(handle: UInt64, reply: consuming Reply)

    func open(_ node: NodeID, flags: Int32, reply: consuming Reply)
    func create(
        _ name: borrowing FileName, in parent: NodeID, mode: UInt32, flags: Int32, reply: consuming Reply)
    func release(handle: UInt64, reply: consuming Reply)

    func makeDirectory(_ name: borrowing FileName, in parent: NodeID, mode: UInt32, reply: consuming Reply)
    func remove(_ name: borrowing FileName, in parent: NodeID, isDirectory: Bool, reply: consuming Reply)
    func rename(
        _ name: borrowing FileName, in parent: NodeID, to newName: borrowing FileName,
        in newParent: NodeID, flags: UInt32, reply: consuming Reply)
}
