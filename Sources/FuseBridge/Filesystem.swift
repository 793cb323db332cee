// SPDX-License-Identifier: Apache-2.0
import CFuse
package import LinuxSystem

/// The thread and the user for which the kernel has sent a request.
package struct Caller: Sendable {
    package let user: UInt32
    package let group: UInt32
    /// The number of the thread. It is 0 for a thread that the daemon's PID namespace does not contain, and for the kernel
    /// itself.
    package let thread: Int32
    /// The umask of the thread. It is set only for requests that create a file, a directory or another item.
    package let umask: UInt32

    package init(user: UInt32, group: UInt32, thread: Int32, umask: UInt32) {
        (self.user, self.group, self.thread, self.umask) = (user, group, thread, umask)
    }

    /// The caller of work that was not caused by a request.
    package static let nobody = Caller(user: 0, group: 0, thread: 0, umask: 0)
}

/// How long the kernel may cache a name or attributes, in seconds.
package struct Validity: Sendable {
    package let seconds: Double
    package static let none = Self(seconds: 0)
    package static let long = Self(seconds: 3600)
    /// The validity for sources in which programs may change files out of band.
    package static let brief = Self(seconds: 1)
}

/// The changes that a SETATTR request demands. A value that is nil or ``TimeChange/omit`` remains as it is.
package struct AttributeChange: Sendable {
    package var mode: UInt32?
    package var user: UInt32?
    package var group: UInt32?
    package var size: Int64?
    package var accessed: TimeChange = .omit
    package var modified: TimeChange = .omit
}

/// A range of bytes in an open file.
package struct FileRange: Sendable {
    package let node: NodeID
    package let handle: HandleID
    package let offset: Int64
    package let length: Int64
    /// Whether the bytes go to the end of the file at the time of the write, and not to `offset`.
    package let isAtEnd: Bool
    /// Whether a program wrote the bytes to a mapping. If so, the kernel locks the pages of these bytes until they are written.
    package let isFromMapping: Bool
}

/// The requests that a file system must answer.
///
/// Each function gets a `Reply` and may answer later, from any thread. No function may block. Names, link targets, attribute
/// names and written bytes are valid only until the function returns.
package protocol Filesystem: AnyObject, Sendable {
    /// An answer with an entry adds 1 to the number of look-ups of the node. The kernel later subtracts this 1 by
    /// ``forget(_:lookups:)``.
    func lookUp(_ name: borrowing FileName, in parent: NodeID, reply: consuming Reply)
    /// Subtracts look-ups of a node. This is the only request without an answer.
    func forget(_ node: NodeID, lookups: UInt64)
    /// Answers with the attributes of a file. The kernel sends a handle for some system calls that read, write or seek.
    ///
    /// If the request has a handle, the kernel may hold a lock of the file. For `fstat(2)` the kernel sends no handle.
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
    /// Called when a program closes a descriptor of the file.
    ///
    /// The kernel sends this request if the answer to the open demanded it, or if the kernel cannot omit it.
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

    /// Called when a function of this protocol has blocked its thread for too long, so other requests had to wait. The argument
    /// is the duration.
    func noteSlowRequest(_ nanoseconds: UInt64)

    /// Called when the program that sent a request has got a signal. It is called once for each request with
    /// ``Reply/tellInterrupts(_:)``.
    ///
    /// The request must not be answered on the calling thread, because libfuse may hold the request's lock.
    func interrupted(_ token: UInt)
}
