// SPDX-License-Identifier: Apache-2.0
import CFuse
import Glibc
import LinuxSystem

/// The table of C callbacks.
///
/// Each one only translates: C values in, one Swift call out.
/// They run on the loop threads: nothing here may block, await, or trap on kernel input.
func makeOperations() -> fuse_lowlevel_ops {
    var operations = fuse_lowlevel_ops()
    addInodeOperations(to: &operations)
    addFileOperations(to: &operations)
    addDirectoryOperations(to: &operations)
    addNameOperations(to: &operations)
    return operations
}

private func addInodeOperations(to operations: inout fuse_lowlevel_ops) {
    operations.lookup = { request, parent, name in
        serve(request) { filesystem, reply in
            guard let name else { return reply.fail(.noEntry) }
            filesystem.lookUp(FileName(borrowing: name), in: NodeID(parent), reply: reply)
        }
    }
    operations.forget = { request, inode, lookups in
        withFilesystem(of: request) { $0.forget(NodeID(inode), lookups: lookups) }
        fuse_reply_none(request)
    }
    operations.forget_multi = { request, count, forgotten in
        withFilesystem(of: request) { filesystem in
            for item in UnsafeBufferPointer(start: forgotten, count: count) {
                filesystem.forget(NodeID(item.ino), lookups: item.nlookup)
            }
        }
        fuse_reply_none(request)
    }
    operations.getattr = { request, inode, _ in
        serve(request) { $0.attributes(of: NodeID(inode), reply: $1) }
    }
}

private func addFileOperations(to operations: inout fuse_lowlevel_ops) {
    operations.open = { request, inode, info in
        let flags = info?.pointee.flags ?? 0
        serve(request) { $0.open(NodeID(inode), flags: flags, reply: $1) }
    }
    operations.create = { request, parent, name, mode, info in
        let flags = info?.pointee.flags ?? 0
        serve(request) { filesystem, reply in
            guard let name else { return reply.fail(.noEntry) }
            filesystem.create(
                FileName(borrowing: name), in: NodeID(parent), mode: mode, flags: flags, reply: reply)
        }
    }
    operations.release = { request, _, info in
        let handle = info?.pointee.fh ?? 0
        serve(request) { $0.release(handle: handle, reply: $1) }
    }
}

private func addDirectoryOperations(to operations: inout fuse_lowlevel_ops) {
    operations.opendir = { request, inode, _ in
        serve(request) { $0.openDirectory(NodeID(inode), reply: $1) }
    }
    operations.readdir = { request, inode, size, offset, info in
        let handle = info?.pointee.fh ?? 0
        serve(request) { filesystem, reply in
            let page = DirectoryPage(size: size, style: .names, reply: reply)
            filesystem.readDirectory(NodeID(inode), handle: handle, from: offset, into: page)
        }
    }
    operations.readdirplus = { request, inode, size, offset, info in
        let handle = info?.pointee.fh ?? 0
        serve(request) { filesystem, reply in
            let page = DirectoryPage(size: size, style: .entries, reply: reply)
            filesystem.readDirectory(NodeID(inode), handle: handle, from: offset, into: page)
        }
    }
    operations.releasedir = { request, _, info in
        let handle = info?.pointee.fh ?? 0
        serve(request) { $0.closeDirectory(handle: handle, reply: $1) }
    }
}

private func addNameOperations(to operations: inout fuse_lowlevel_ops) {
    operations.mkdir = { request, parent, name, mode in
        serve(request) { filesystem, reply in
            guard let name else { return reply.fail(.noEntry) }
            filesystem.makeDirectory(FileName(borrowing: name), in: NodeID(parent), mode: mode, reply: reply)
        }
    }
    operations.unlink = { request, parent, name in
        serve(request) { filesystem, reply in
            guard let name else { return reply.fail(.noEntry) }
            filesystem.remove(FileName(borrowing: name), in: NodeID(parent), isDirectory: false, reply: reply)
        }
    }
    operations.rmdir = { request, parent, name in
        serve(request) { filesystem, reply in
            guard let name else { return reply.fail(.noEntry) }
            filesystem.remove(FileName(borrowing: name), in: NodeID(parent), isDirectory: true, reply: reply)
        }
    }
    operations.rename = { request, parent, name, newParent, newName, flags in
        serve(request) { filesystem, reply in
            guard let name, let newName else { return reply.fail(.noEntry) }
            filesystem.rename(
                FileName(borrowing: name), in: NodeID(parent), to: FileName(borrowing: newName),
                in: NodeID(newParent), flags: flags, reply: reply)
        }
    }
}

@inline(__always)
private func serve(_ request: fuse_req_t?, _ body: (any Filesystem, consuming Reply) -> Void) {
    guard let request else { return }
    withFilesystem(of: request) { body($0, Reply(request)) }
}

/// Finds the filesystem behind a request without touching its reference count.
@inline(__always)
private func withFilesystem(of request: fuse_req_t?, _ body: (any Filesystem) -> Void) {
    guard let root = fuse_req_userdata(request) else { return }
    withRoot(root) { body($0.filesystem) }
}
