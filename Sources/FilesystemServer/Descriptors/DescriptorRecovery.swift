// SPDX-License-Identifier: Apache-2.0
import FuseBridge
import Glibc
import LinuxSystem

/// Opens descriptors again that the budget has closed because too many were open. How a node's file is found depends on the
/// file:
/// - A file that is not open is found by its parent and name.
/// - An open file is found by its file handle, because another file may have its name now. If the file has no name, the kernel
///   must hold a backing file, so that the file continues to exist.
/// - An open file without a file handle is found by its only name. Before the mount removes this name, it opens the descriptor.
extension Node {
    /// Returns the node's descriptor, and opens it if necessary. The descriptor stays open while the caller refers to it.
    ///
    /// Throws ESTALE if the node's name now leads to another file.
    func descriptor() throws(Errno) -> SharedDescriptor {
        if let cachedDescriptor { return cachedDescriptor }
        var stale: Node?
        do throws(Errno) {
            return try findDescriptor(unless: &stale)
        } catch {
            // Another program may have renamed the file between the reading of its name and the open. A second look-up finds
            // the new name.
            guard error == .noEntry || error == .stale else { throw error }
            return try findDescriptorAfterRenames()
        }
    }

    /// Looks the node up, and repeats this as long as a rename through the mount is running. A rename changes the file below
    /// before it changes the node. Between these two steps, the node's name is out of date.
    private func findDescriptorAfterRenames() throws(Errno) -> SharedDescriptor {
        let end = MonotonicClock.nanoseconds + ActiveRenames.longest
        var stale: Node?
        while true {
            let isLast = renames.isEmpty || MonotonicClock.nanoseconds >= end
            do throws(Errno) {
                return try findDescriptor(unless: &stale)
            } catch {
                if isLast {
                    stale?.noteStaleBelow()
                    throw .stale
                }
                sched_yield()
            }
        }
    }

    /// Opens the closed descriptors of the node and of the directories above it, from the top down. A recursion might be too
    /// deep, because users decide how deep a tree is.
    ///
    /// After a failure, `stale` is the directory in which a name does not lead to the expected node.
    private func findDescriptor(unless stale: inout Node?) throws(Errno) -> SharedDescriptor {
        var way: [(node: Node, name: NameBytes, directory: Node)] = []
        var next = self
        var opened: SharedDescriptor
        while true {
            let (cached, fileHandle, parent, name, hasName) = next.ways
            if let found = cached ?? fileHandle.flatMap({ next.find(by: $0) }) {
                opened = found
                break
            }
            stale = parent
            guard let parent, hasName else { throw .stale }
            way.append((next, name, parent))
            next = parent
        }
        while let (node, name, directory) = way.popLast() {
            stale = directory
            opened = try node.open(name, in: opened)
        }
        return opened
    }

    private func open(_ name: NameBytes, in directory: SharedDescriptor) throws(Errno) -> SharedDescriptor {
        let opened = try name.withName { (name) throws(Errno) in try directory.descriptor.path(of: name) }
        let status = try opened.status()
        guard FileKey(status) == key else { throw .stale }
        // The descriptor was probably opened because a program opens the file. The status is noted here, so that open need not
        // query the status.
        if let mayBypass = status.mayBypass { noteMayBypass(mayBypass) }
        return cache(SharedDescriptor(opened, of: budget))
    }

    /// Opens the node's file by a file handle. Returns nil if the file handle leads to another file or to none. The file may
    /// still be found by its name.
    func find(by fileHandle: PersistentFileHandle) -> SharedDescriptor? {
        do throws(Errno) {
            let opened = try budget.path(of: fileHandle)
            guard FileKey(try opened.status()) == key else { return nil }
            return cache(SharedDescriptor(opened, of: budget))
        } catch {
            return nil
        }
    }

    var hasFileHandle: Bool { fileHandle != nil }

    var closingThreads: LazyWorkerPool? { isDistant ? threads(for: .work) : nil }

    func dropDescriptor() -> Bool {
        guard !isRoot else { return false }
        let (descriptor, isInUse) = descriptorInUse
        let isAlone = isInUse ? descriptor.map { prepareReturn(through: $0) } ?? false : false
        return dropDescriptor(isAlone: isAlone)
    }

    /// Stores the file handle, by which the file can be found after its descriptor is closed. For a file without a name, also
    /// makes the kernel hold the file open. Returns whether the file has only one name.
    private func prepareReturn(through descriptor: SharedDescriptor) -> Bool {
        let needsBacking = prepareDrop(fileHandle ?? budget.fileHandle(of: descriptor, known: key))
        do throws(Errno) {
            // A file without a name is found by its file handle only while the file is open. It is enough that the kernel has
            // it open as a backing file.
            if needsBacking {
                retainBacking(try connection.retainBacking(descriptor.descriptor))
            }
            return try descriptor.descriptor.status().linkCount <= 1
        } catch {
            // It is unknown whether the file has several names. So the answer is false, and the caller leaves the
            // descriptor open.
            return false
        }
    }
}
