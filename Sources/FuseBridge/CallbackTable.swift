// SPDX-License-Identifier: Apache-2.0
import CFuse
import Glibc
import LinuxSystem

/// Returns the table of the C functions that libfuse calls for requests.
///
/// Each function only translates C values and makes one Swift call. The functions run on the threads of the request loop, so
/// they must not block or await. No value from the kernel may make a function trap.
func makeCallbackTable() -> fuse_lowlevel_ops {
    var operations = fuse_lowlevel_ops()
    operations.`init` = { root, connection in
        guard let root, let connection else { return }
        withFuseSessionContext(root) { $0.handshake.agree(with: connection) }
    }
    addInodeOperations(to: &operations)
    addAttributeOperations(to: &operations)
    addFileOperations(to: &operations)
    addDataOperations(to: &operations)
    addDirectoryOperations(to: &operations)
    addCreationOperations(to: &operations)
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
    operations.getattr = { request, inode, info in
        serve(request) { $0.attributes(of: NodeID(inode), hasHandle: info != nil, reply: $1) }
    }
    operations.setattr = { request, inode, attributes, which, info in
        let handle = info.map { HandleID($0.pointee.fh) }
        serve(request) { filesystem, reply in
            guard let attributes else { return reply.fail(.invalid) }
            let change = AttributeChange(attributes.pointee, which: which)
            filesystem.setAttributes(of: NodeID(inode), to: change, handle: handle, reply: reply)
        }
    }
    operations.readlink = { request, inode in
        serve(request) { $0.readLink(NodeID(inode), reply: $1) }
    }
    operations.access = { request, inode, mask in
        serve(request) { $0.checkAccess(to: NodeID(inode), mask: mask, reply: $1) }
    }
    operations.statfs = { request, inode in
        serve(request) { $0.statistics(of: NodeID(inode), reply: $1) }
    }
}

private func addAttributeOperations(to operations: inout fuse_lowlevel_ops) {
    operations.getxattr = { request, inode, name, size in
        serve(request) { filesystem, reply in
            guard let name else { return reply.fail(.invalid) }
            filesystem.extendedAttribute(name, of: NodeID(inode), capacity: size, reply: reply)
        }
    }
    operations.listxattr = { request, inode, size in
        serve(request) { $0.extendedAttributeNames(of: NodeID(inode), capacity: size, reply: $1) }
    }
    operations.setxattr = { request, inode, name, value, size, flags in
        serve(request) { filesystem, reply in
            guard let name else { return reply.fail(.invalid) }
            filesystem.setExtendedAttribute(
                name, of: NodeID(inode), to: UnsafeRawBufferPointer(start: value, count: size), flags: flags,
                reply: reply)
        }
    }
    operations.removexattr = { request, inode, name in
        serve(request) { filesystem, reply in
            guard let name else { return reply.fail(.invalid) }
            filesystem.removeExtendedAttribute(name, of: NodeID(inode), reply: reply)
        }
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
    operations.flush = { request, _, info in
        let handle = HandleID(info?.pointee.fh ?? 0)
        serve(request) { $0.flush(handle, reply: $1) }
    }
    operations.release = { request, inode, info in
        let handle = HandleID(info?.pointee.fh ?? 0)
        serve(request) { $0.release(NodeID(inode), handle: handle, reply: $1) }
    }
    operations.fsync = { request, inode, dataOnly, info in
        let handle = HandleID(info?.pointee.fh ?? 0)
        serve(request) { $0.synchronize(NodeID(inode), handle: handle, dataOnly: dataOnly != 0, reply: $1) }
    }
}

private func addDataOperations(to operations: inout fuse_lowlevel_ops) {
    operations.read = { request, inode, size, offset, info in
        let range = FileRange(inode, info, offset, Int64(size))
        serve(request) { $0.read(range, reply: $1) }
    }
    operations.write = { request, inode, bytes, size, offset, info in
        let range = FileRange(inode, info, offset, Int64(size))
        serve(request) { $0.write(UnsafeRawBufferPointer(start: bytes, count: size), to: range, reply: $1) }
    }
    operations.fallocate = { request, inode, mode, offset, length, info in
        let range = FileRange(inode, info, offset, Int64(length))
        serve(request) { $0.allocate(range, mode: mode, reply: $1) }
    }
    operations.copy_file_range = { request, inode, offset, info, toInode, toOffset, toInfo, length, _ in
        let source = FileRange(inode, info, offset, Int64(length))
        let target = FileRange(toInode, toInfo, toOffset, Int64(length))
        serve(request) { $0.copy(source, to: target, reply: $1) }
    }
    operations.lseek = { request, inode, offset, whence, info in
        let handle = HandleID(info?.pointee.fh ?? 0)
        serve(request) {
            $0.seek(NodeID(inode), handle: handle, offset: Int64(offset), whence: whence, reply: $1)
        }
    }
}

private func addDirectoryOperations(to operations: inout fuse_lowlevel_ops) {
    operations.opendir = { request, inode, _ in
        serve(request) { $0.openDirectory(NodeID(inode), reply: $1) }
    }
    operations.readdir = { request, inode, size, offset, info in
        let handle = HandleID(info?.pointee.fh ?? 0)
        serve(request) { filesystem, reply in
            let page = DirectoryPage(size: size, style: .names, reply: reply)
            filesystem.readDirectory(NodeID(inode), handle: handle, from: offset, into: page)
        }
    }
    operations.readdirplus = { request, inode, size, offset, info in
        let handle = HandleID(info?.pointee.fh ?? 0)
        serve(request) { filesystem, reply in
            let page = DirectoryPage(size: size, style: .entries, reply: reply)
            filesystem.readDirectory(NodeID(inode), handle: handle, from: offset, into: page)
        }
    }
    operations.releasedir = { request, _, info in
        let handle = HandleID(info?.pointee.fh ?? 0)
        serve(request) { $0.closeDirectory(handle, reply: $1) }
    }
    operations.fsyncdir = { request, inode, dataOnly, _ in
        serve(request) { $0.synchronizeDirectory(NodeID(inode), dataOnly: dataOnly != 0, reply: $1) }
    }
}

private func addCreationOperations(to operations: inout fuse_lowlevel_ops) {
    operations.mknod = { request, parent, name, mode, device in
        serve(request) { filesystem, reply in
            guard let name else { return reply.fail(.noEntry) }
            filesystem.makeNode(
                FileName(borrowing: name), in: NodeID(parent), mode: mode, device: UInt64(device),
                reply: reply)
        }
    }
    operations.mkdir = { request, parent, name, mode in
        serve(request) { filesystem, reply in
            guard let name else { return reply.fail(.noEntry) }
            filesystem.makeDirectory(FileName(borrowing: name), in: NodeID(parent), mode: mode, reply: reply)
        }
    }
    operations.symlink = { request, target, parent, name in
        serve(request) { filesystem, reply in
            guard let name, let target else { return reply.fail(.noEntry) }
            filesystem.makeSymbolicLink(
                FileName(borrowing: name), in: NodeID(parent), to: target, reply: reply)
        }
    }
    operations.link = { request, inode, newParent, newName in
        serve(request) { filesystem, reply in
            guard let newName else { return reply.fail(.noEntry) }
            filesystem.link(
                NodeID(inode), as: FileName(borrowing: newName), in: NodeID(newParent), reply: reply)
        }
    }
}

private func addNameOperations(to operations: inout fuse_lowlevel_ops) {
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

extension FileRange {
    fileprivate init(
        _ inode: UInt64, _ info: UnsafeMutablePointer<fuse_file_info>?, _ offset: Int, _ length: Int64
    ) {
        // The kernel sends the file's flags with each request. They are used here, because fcntl(2) may have changed them since
        // the open. Data from a mapping has its own offset, even with O_APPEND.
        let isFromMapping = info.map { $0.pointee.writepage != 0 } ?? false
        let isAtEnd = info.map { $0.pointee.flags & O_APPEND != 0 && !isFromMapping } ?? false
        self.init(
            node: NodeID(inode), handle: HandleID(info?.pointee.fh ?? 0), offset: Int64(offset),
            length: length, isAtEnd: isAtEnd, isFromMapping: isFromMapping)
    }
}

@inline(__always)
private func serve(_ request: fuse_req_t?, _ body: (any Filesystem, consuming Reply) -> Void) {
    guard let request else { return }
    withFilesystem(of: request) { body($0, Reply(request)) }
}

/// Calls the body with the file system to which a request belongs, without changing the file system's reference count.
@inline(__always)
func withFilesystem(of request: fuse_req_t?, _ body: (any Filesystem) -> Void) {
    guard let root = fuse_req_userdata(request) else { return }
    withFuseSessionContext(root) { body($0.filesystem) }
}
