// SPDX-License-Identifier: Apache-2.0
import CFuse
import Glibc
package import LinuxSystem

/// The names in the answer to one READDIR or READDIRPLUS request.
package struct DirectoryPage: ~Copyable {
    package enum Style: Sendable {
        case names
        /// Names with their attributes. The kernel counts each entry as a look-up of the name.
        case entries
    }

    package let style: Style
    private let reply: Reply
    private var bytes: [UInt8]
    private var used = 0

    init(size: Int, style: Style, reply: consuming Reply) {
        self.style = style
        self.reply = reply
        self.bytes = Array(repeating: 0, count: size)
    }

    /// Adds a name. Returns whether there was room for the name.
    package mutating func add(
        _ name: borrowing FileName, inode: UInt64, type: UInt8, next: Int
    ) -> Bool {
        var status = stat()
        status.st_ino = UInt(inode)
        status.st_mode = UInt32(type) << 12
        let (request, name, style, used) = (reply.request, name.bytes, style, used)
        let size = bytes.withUnsafeMutableBytes { buffer in
            let free = UnsafeMutableRawBufferPointer(rebasing: buffer[used...])
            let start = free.baseAddress?.assumingMemoryBound(to: CChar.self)
            guard style == .entries else {
                return fuse_add_direntry(request, start, free.count, name, &status, next)
            }
            // Node number 0 means that the entry contains only the name. The kernel looks the name up when it needs the file.
            var entry = fuse_entry_param()
            entry.attr = status
            return fuse_add_direntry_plus(request, start, free.count, name, &entry, next)
        }
        return advance(by: size)
    }

    /// Adds a name with its node and attributes. Returns whether there was room for this entry.
    ///
    /// If there was room, the kernel counts one more look-up of the node.
    package mutating func add(
        _ name: borrowing FileName, node: NodeID, generation: UInt32, _ status: FileStatus, valid: Validity,
        next: Int
    ) -> Bool {
        var entry = fuse_entry_param(
            node, generation: generation, status, names: valid, attributes: valid)
        let (request, name, used) = (reply.request, name.bytes, used)
        let size = bytes.withUnsafeMutableBytes { buffer in
            let free = UnsafeMutableRawBufferPointer(rebasing: buffer[used...])
            let start = free.baseAddress?.assumingMemoryBound(to: CChar.self)
            return fuse_add_direntry_plus(request, start, free.count, name, &entry, next)
        }
        return advance(by: size)
    }

    package var caller: Caller { reply.caller }
    package var isEmpty: Bool { used == 0 }

    package consuming func send() {
        let (bytes, used) = (bytes, used)
        reply.bytes(bytes.span.bytes.extracting(first: used))
    }

    package consuming func fail(_ error: Errno) { reply.fail(error) }

    /// Counts an entry if there was room for it. libfuse returns the size of an entry even if it had no room to write the
    /// entry.
    private mutating func advance(by size: Int) -> Bool {
        guard used + size <= bytes.count else { return false }
        used += size
        return true
    }
}
