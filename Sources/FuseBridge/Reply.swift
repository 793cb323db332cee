// SPDX-License-Identifier: Apache-2.0
import CFuse
import Glibc
package import LinuxSystem

/// The kernel's right to exactly one answer to one request.
///
/// It is non-copyable, and every answer consumes it, so a second answer does not compile. `deinit` answers a dropped request,
/// which would otherwise block a process in uninterruptible sleep.
package struct Reply: ~Copyable, @unchecked Sendable {
    // @unchecked: libfuse lets any thread answer a request once, and `~Copyable` enforces the "once".
    let request: fuse_req_t

    init(_ request: fuse_req_t) { self.request = request }

    deinit {
        assertionFailure("a request was dropped without an answer")
        fuse_reply_err(request, EIO)
    }

    /// The requester, which waits for the answer.
    package var caller: Caller {
        let context = fuse_req_ctx(request).pointee
        return Caller(user: context.uid, group: context.gid, thread: context.pid, umask: context.umask)
    }

    /// Whether the requester got a signal since the daemon read the request.
    package var isInterrupted: Bool { fuse_req_interrupted(request) != 0 }

    /// Makes ``Filesystem/interrupted(_:)`` be called when the requester gets a signal.
    ///
    /// The token is a number and not a reference, because the request may already be answered when libfuse calls.
    package borrowing func tellInterrupts(_ token: UInt) {
        fuse_req_interrupt_func(
            request,
            { request, token in
                withFilesystem(of: request) { $0.interrupted(UInt(bitPattern: token)) }
            }, UnsafeMutableRawPointer(bitPattern: token))
    }

    private consuming func take() -> fuse_req_t {
        let request = request
        discard self
        return request
    }

    package consuming func fail(_ error: Errno) { fuse_reply_err(take(), error.rawValue) }
    package consuming func succeed() { fuse_reply_err(take(), 0) }

    /// Introduces an inode under a name; the kernel counts one more lookup of it.
    ///
    /// The generation tells the inode from earlier and later inodes with the same number. Returns whether the requester was
    /// still there. If it was not, the kernel counted no lookup.
    package consuming func entry(
        _ node: NodeID, generation: UInt32, _ status: FileStatus, names: Validity, attributes: Validity
    ) -> Bool {
        var entry = fuse_entry_param(
            node, generation: generation, status, names: names, attributes: attributes)
        return fuse_reply_entry(take(), &entry) != -ENOENT
    }

    /// Answers that there is no such name, which the kernel may cache.
    package consuming func missing(valid: Validity) {
        var entry = fuse_entry_param()
        entry.entry_timeout = valid.seconds
        fuse_reply_entry(take(), &entry)
    }

    package consuming func attributes(_ status: FileStatus, valid: Validity) {
        var status = stat(status)
        fuse_reply_attr(take(), &status, valid.seconds)
    }

    /// Opens a directory, and returns whether the opener was still there; if not, no RELEASEDIR will come.
    ///
    /// With `keepingNames`, the kernel answers from its cached names, and caches the names it receives. With `droppingKept`,
    /// it drops the cached names first. If it drops some while another opener reads, it does not cache the directory's names
    /// until a FORGET.
    package consuming func openedDirectory(_ handle: HandleID, keepingNames: Bool, droppingKept: Bool) -> Bool
    {
        var info = fuse_file_info()
        info.fh = handle.rawValue
        info.cache_readdir = keepingNames ? 1 : 0
        info.keep_cache = droppingKept ? 0 : 1
        return fuse_reply_open(take(), &info) != -ENOENT
    }

    /// Opens a file, and returns whether the opener was still there; if not, no RELEASE will come.
    ///
    /// - With a `backing` file, the kernel moves the data itself.
    /// - If the file is not mappable, shared mappings fail: mmap(2) returns ENODEV.
    /// - With `keepingContents`, the kernel retains its page cache of the file; otherwise it drops it.
    /// - With `flushing`, it sends a FLUSH at each close(2).
    package consuming func opened(
        _ handle: HandleID, backing: BackingID?, isMappable: Bool = true, keepingContents: Bool = false,
        flushing: Bool = false
    ) -> Bool {
        var options = flushing ? CFUSE_OPEN_FLUSH.rawValue : 0
        if !isMappable { options |= CFUSE_OPEN_DIRECT.rawValue }
        if keepingContents { options |= CFUSE_OPEN_KEEP_CACHE.rawValue }
        return cfuse_reply_open(take(), handle.rawValue, backing?.rawValue ?? 0, options) != -ENOENT
    }

    /// Answers with an entry and an opened file, like ``entry(_:generation:_:names:attributes:)`` and
    /// ``opened(_:backing:isMappable:keepingContents:flushing:)``.
    package consuming func created(
        _ node: NodeID, generation: UInt32, _ status: FileStatus, names: Validity, attributes: Validity,
        handle: HandleID, backing: BackingID?, flushing: Bool = false
    ) -> Bool {
        var entry = fuse_entry_param(
            node, generation: generation, status, names: names, attributes: attributes)
        let options = flushing ? CFUSE_OPEN_FLUSH.rawValue : 0
        return cfuse_reply_create(take(), &entry, handle.rawValue, backing?.rawValue ?? 0, options) != -ENOENT
    }

    package consuming func bytes(_ bytes: RawSpan) {
        let request = take()
        _ = bytes.withUnsafeBytes { buffer in
            fuse_reply_buf(request, buffer.baseAddress?.assumingMemoryBound(to: CChar.self), buffer.count)
        }
    }

    package consuming func written(_ count: Int) { fuse_reply_write(take(), count) }
    package consuming func position(_ offset: Int64) { fuse_reply_lseek(take(), off_t(offset)) }

    /// Answers with the size of an extended attribute, for a requester that gave no room for its value.
    package consuming func attributeSize(_ size: Int) { fuse_reply_xattr(take(), size) }

    package consuming func linkTarget(_ target: [UInt8]) {
        let terminated = target.map { CChar(bitPattern: $0) } + [0]
        fuse_reply_readlink(take(), terminated)
    }

    package consuming func statistics(_ status: FilesystemStatus) {
        var out = statvfs(status)
        fuse_reply_statfs(take(), &out)
    }
}
