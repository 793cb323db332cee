// SPDX-License-Identifier: Apache-2.0
import FuseBridge
import Glibc
import LinuxSystem

/// Reopens the descriptors that nodes have given up. The route depends on the node:
/// - A file that is not open: by its parent and name. An open file must not lose its name to another one.
/// - An open file: by its file handle. If it has no name, the kernel must keep it in existence.
/// - An open file without a file handle: by its only name. Before the mount removes that name, it opens the descriptor.
extension Node {
    /// Returns the node's descriptor, open for as long as the caller holds it.
    ///
    /// Throws ESTALE if the node's name now leads to another file.
    func descriptor() throws(Errno) -> SharedDescriptor {
        if let cachedDescriptor { return cachedDescriptor }
        var stale: Node?
        do throws(Errno) {
            return try findDescriptor(unless: &stale)
        } catch {
            // A rename may have happened between reading the name and opening it. A second lookup finds the new name.
            guard error == .noEntry || error == .stale else { throw error }
            return try findDescriptorAfterRenames()
        }
    }

    /// Repeats the lookup until no rename through the mount runs: the file below is renamed before its node.
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

    /// Opens the closed descriptors on the path to it, from the top. Not recursive, since users choose the depth of a tree.
    ///
    /// After a failure, `stale` is the directory in which the name no longer leads to the next node.
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
        // The open that probably follows need not ask for the status again.
        if let mayBypass = status.mayBypass { noteMayBypass(mayBypass) }
        return cache(SharedDescriptor(opened, of: budget))
    }

    /// Opens the node by a handle. Nil if the handle does not lead to it; its name still may.
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

    /// Notes how to find a file in use again. Returns whether it has only one name.
    private func prepareReturn(through descriptor: SharedDescriptor) -> Bool {
        let needsBacking = prepareDrop(fileHandle ?? budget.fileHandle(of: descriptor, known: key))
        do throws(Errno) {
            // A handle leads to a file without names only while the file is open. A backing file of the kernel suffices.
            if needsBacking {
                retainBacking(try connection.retainBacking(descriptor.descriptor))
            }
            return try descriptor.descriptor.status().linkCount <= 1
        } catch {
            // The descriptor stays open.
            return false
        }
    }
}
