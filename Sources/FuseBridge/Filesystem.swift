// SPDX-License-Identifier: Apache-2.0
import CFuse
package import LinuxSystem

/// The thread and the user that sent a request.
package struct Caller: Sendable {
    package let user: UInt32
    package let group: UInt32
    /// 0 for a thread outside the daemon's PID namespace, or for the kernel itself.
    package let thread: Int32
    /// Valid for requests that create something.
    package let umask: UInt32

    package init(user: UInt32, group: UInt32, thread: Int32, umask: UInt32) {
        (self.user, self.group, self.thread, self.umask) = (user, group, thread, umask)
    }

    /// The caller of work that no request has asked for.
    package static let nobody = Caller(user: 0, group: 0, thread: 0, umask: 0)
}

/// How long the kernel may cache an answer, in seconds.
package struct Validity: Sendable {
    package let seconds: Double
    package static let none = Self(seconds: 0)
    package static let long = Self(seconds: 3600)
    /// For sources that can change out of band.
    package static let brief = Self(seconds: 1)
}

/// The changes that a SETATTR asks for; nil and ``TimeChange/omit`` change nothing.
package struct AttributeChange: Sendable {
    package var mode: UInt32?
    package var user: UInt32?
    package var group: UInt32?
    package var size: Int64?
    package var accessed: TimeChange = .omit
    package var modified: TimeChange = .omit
}

/// A range of one open file.
package struct FileRange: Sendable {
    package let node: NodeID
    package let handle: HandleID
    package let offset: Int64
    package let length: Int64
    /// Written bytes go to the end of the file, wherever that is at the time of the write.
    package let isAtEnd: Bool
    /// Written bytes were stored to a mapping: the kernel holds their pages until they are written.
    package let isFromMapping: Bool
}

/// The requests that a file system answers.
///
/// Each requirement owns its `Reply` and may answer later, from any thread; none may block. Names, targets, attribute names
/// and written bytes are valid until the requirement returns.
package protocol Filesystem: AnyObject, Sendable {
    /// An answer with an entry adds one to the number of lookups the kernel will ``forget(_:lookups:)``.
    func lookUp(_ name: borrowing FileName, in parent: NodeID, reply: consuming Reply)
    /// The only request without an answer.
    func forget(_ node: NodeID, lookups: UInt64)
    /// The kernel names a handle for some calls that read, write or seek.
    ///
    /// It may hold a lock then. For `fstat(2)` it names no handle.
    func attributes(of node: NodeID, hasHandle: Bool, reply: consuming Reply)
    func setAttributes(of node: NodeID, to change: AttributeChange, handle: HandleID?, reply: consuming Reply)
    func readLink(_ node: NodeID, reply: consuming Reply)
    func checkAccess(to node: NodeID, mask: Int32, reply: consuming Reply)
    func statistics(of node: NodeID, reply: consuming Reply)

    func extendedAttribute(
        _ name: UnsafePointer<CChar>, of node: NodeID, capacity: Int, reply: consuming Reply)
    func extendedAttributeNames(of node: NodeID, capacity: Int, reply: consuming Reply)
    func setExtendedAttribute(
        _ name: UnsafePointer<CChar>, of node: NodeID, to value: UnsafeRawBufferPointer, flags: Int32,
        reply: consuming Reply)
    func removeExtendedAttribute(_ name: UnsafePointer<CChar>, of node: NodeID, reply: consuming Reply)

    func openDirectory(_ node: NodeID, reply: consuming Reply)
    func readDirectory(_ node: NodeID, handle: HandleID, from offset: Int, into page: consuming DirectoryPage)
    func closeDirectory(_ handle: HandleID, reply: consuming Reply)
    func synchronizeDirectory(_ node: NodeID, dataOnly: Bool, reply: consuming Reply)

    func open(_ node: NodeID, flags: Int32, reply: consuming Reply)
    func create(
        _ name: borrowing FileName, in parent: NodeID, mode: UInt32, flags: Int32, reply: consuming Reply)
    func read(_ range: FileRange, reply: consuming Reply)
    func write(_ bytes: UnsafeRawBufferPointer, to range: FileRange, reply: consuming Reply)
    func synchronize(_ node: NodeID, handle: HandleID, dataOnly: Bool, reply: consuming Reply)
    func allocate(_ range: FileRange, mode: Int32, reply: consuming Reply)
    func copy(_ range: FileRange, to target: FileRange, reply: consuming Reply)
    func seek(_ node: NodeID, handle: HandleID, offset: Int64, whence: Int32, reply: consuming Reply)
    /// A descriptor of the file is closed.
    ///
    /// The kernel sends this request if the open asked for it, or if the kernel cannot omit it.
    func flush(_ handle: HandleID, reply: consuming Reply)
    func release(_ node: NodeID, handle: HandleID, reply: consuming Reply)

    func makeNode(
        _ name: borrowing FileName, in parent: NodeID, mode: UInt32, device: UInt64, reply: consuming Reply)
    func makeDirectory(_ name: borrowing FileName, in parent: NodeID, mode: UInt32, reply: consuming Reply)
    func makeSymbolicLink(
        _ name: borrowing FileName, in parent: NodeID, to target: UnsafePointer<CChar>,
        reply: consuming Reply)
    func link(
        _ node: NodeID, as name: borrowing FileName, in parent: NodeID, reply: consuming Reply)
    func remove(_ name: borrowing FileName, in parent: NodeID, isDirectory: Bool, reply: consuming Reply)
    func rename(
        _ name: borrowing FileName, in parent: NodeID, to newName: borrowing FileName,
        in newParent: NodeID, flags: UInt32, reply: consuming Reply)

    /// Receives the duration of a requirement that blocked its thread, and so all other requests, for too long.
    func noteSlowRequest(_ nanoseconds: UInt64)

    /// Receives, once, that the requester of a request got a signal, if the request asked by ``Reply/tellInterrupts(_:)``.
    ///
    /// Must not answer the request on the calling thread: libfuse may hold the request's lock.
    func interrupted(_ token: UInt)
}
