// SPDX-License-Identifier: Apache-2.0
import CFuse
import Glibc
package import LinuxSystem

/// The right and duty to answer one request of the kernel exactly once.
///
/// The type is non-copyable, and every answer consumes the value. So code that answers twice does not compile. If the value
/// ends without an answer, `deinit` answers the request. Without any answer, a process would remain in uninterruptible sleep.
package struct Reply: ~Copyable, @unchecked Sendable {
    // @unchecked: libfuse lets any thread answer a request once, and `~Copyable` enforces the "once".
    let request: fuse_req_t

    init(_ request: fuse_req_t) { self.request = request }

    deinit {
        assertionFailure("a request was dropped without an answer")
        fuse_reply_err(request, EIO)
    }

    /// The thread and user that wait for the answer.
    package var caller: Caller {
        let context = fuse_req_ctx(request).pointee
        return Caller(user: context.uid, group: context.gid, thread: context.pid, umask: context.umask)
    }

    /// Whether the program that waits for the answer got a signal after the daemon read the request.
    package var isInterrupted: Bool { fuse_req_interrupted(request) != 0 }

    /// Asks libfuse to call ``Filesystem/interrupted(_:)`` with the token when the waiting program gets a signal.
    ///
    /// The token is a number and not a reference, because the request may already be answered when libfuse makes this call.
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

    /// Answers with an inode that was found under a name. The kernel counts one more look-up of the inode.
    ///
    /// The generation distinguishes the inode from earlier and later inodes with the same number. Returns false if the program
    /// no longer waits for the answer. In this case the kernel has counted no look-up.
    package consuming func entry(
        _ node: NodeID, generation: UInt32, _ status: FileStatus, names: Validity, attributes: Validity
    ) -> Bool {
        var entry = fuse_entry_param(
            node, generation: generation, status, names: names, attributes: attributes)
        return fuse_reply_entry(take(), &entry) != -ENOENT
    }

    /// Answers that the name does not exist. The kernel may cache this for the time `valid`.
    package consuming func missing(valid: Validity) {
        var entry = fuse_entry_param()
        entry.entry_timeout = valid.seconds
        fuse_reply_entry(take(), &entry)
    }

    package consuming func attributes(_ status: FileStatus, valid: Validity) {
        var status = stat(status)
        fuse_reply_attr(take(), &status, valid.seconds)
    }

    /// Answers that a directory is open. Returns false if the program no longer waits for the answer. In this case no
    /// RELEASEDIR will come.
    ///
    /// - With `keepingNames`, the kernel answers listings from its cached names, and caches the names that it receives.
    /// - With `droppingKept`, the kernel drops the cached names first. If another program is reading these names at that time,
    ///   the kernel caches no names of the directory until a FORGET.
    package consuming func openedDirectory(_ handle: HandleID, keepingNames: Bool, droppingKept: Bool) -> Bool
    {
        var info = fuse_file_info()
        info.fh = handle.rawValue
        info.cache_readdir = keepingNames ? 1 : 0
        info.keep_cache = droppingKept ? 0 : 1
        return fuse_reply_open(take(), &info) != -ENOENT
    }

    /// Answers that a file is open. Returns false if the program no longer waits for the answer. In this case no RELEASE will
    /// come.
    ///
    /// - With a `backing` file, the kernel reads and writes the data itself.
    /// - If the file is not mappable, shared mappings fail: mmap(2) returns ENODEV.
    /// - With `keepingContents`, the kernel may use its page cache of the file. Otherwise the kernel drops its page cache.
    /// - With `flushing`, the kernel sends a FLUSH at each close(2).
    package consuming func opened(
        _ handle: HandleID, backing: BackingID?, isMappable: Bool = true, keepingContents: Bool = false,
        flushing: Bool = false
    ) -> Bool {
        var options = flushing ? CFUSE_OPEN_FLUSH.rawValue : 0
        if !isMappable { options |= CFUSE_OPEN_DIRECT.rawValue }
        if keepingContents { options |= CFUSE_OPEN_KEEP_CACHE.rawValue }
        return cfuse_reply_open(take(), handle.rawValue, backing?.rawValue ?? 0, options) != -ENOENT
    }

    /// Answers that a new file was made and is open. The answer contains the values of
    /// ``entry(_:generation:_:names:attributes:)`` and ``opened(_:backing:isMappable:keepingContents:flushing:)``.
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

    /// Answers with the size of an extended attribute's value. The program has asked only for the size, and not for the value.
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
