// SPDX-License-Identifier: Apache-2.0
#include "CFuse.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

const int cfuse_header_version = FUSE_VERSION;

// struct fuse_backing_map, FUSE_DEV_IOC_BACKING_OPEN and FUSE_DEV_IOC_BACKING_CLOSE of include/uapi/linux/fuse.h.
struct backing_map {
    int32_t fd;
    uint32_t flags;
    uint64_t padding;
};
#define BACKING_OPEN _IOW(229, 1, struct backing_map)
#define BACKING_CLOSE _IOW(229, 2, uint32_t)

int32_t cfuse_backing_keep(int device, int descriptor) {
    struct backing_map map = {.fd = descriptor};
    int backing = ioctl(device, BACKING_OPEN, &map);
    return backing > 0 ? backing : -errno;
}

void cfuse_backing_close(int device, int32_t backing) {
    uint32_t number = (uint32_t)backing;
    ioctl(device, BACKING_CLOSE, &number);
}

#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17)

const bool cfuse_passes_through = true;

// libfuse logs a message when the kernel refuses a backing file. The refusal is no error, because the daemon then reads and
// writes the file's data itself. There may be a million such files, so the message is dropped.
static void say(enum fuse_log_level level, const char *format, va_list arguments) {
    (void)level;
    if (strncmp(format, "fuse: passthrough_open", 22) != 0) vfprintf(stderr, format, arguments);
}

struct fuse_session *cfuse_session_new(
    struct fuse_args *arguments, const struct fuse_lowlevel_ops *operations, void *userdata) {
    fuse_set_log_func(say);
    return fuse_session_new(arguments, operations, sizeof(struct fuse_lowlevel_ops), userdata);
}

int cfuse_take_transport(struct fuse_session *session, const struct fuse_custom_io *transport) {
    (void)session;
    (void)transport;
    return 0;
}

uint64_t cfuse_agree(struct fuse_conn_info *connection, uint64_t wanted) {
    static const struct {
        uint64_t kernels, libfuses;
    } features[] = {
        {1ULL << 6, FUSE_CAP_DONT_MASK},           {1ULL << 18, FUSE_CAP_PARALLEL_DIROPS},
        {1ULL << 20, FUSE_CAP_POSIX_ACL},          {1ULL << 28, FUSE_CAP_HANDLE_KILLPRIV_V2},
        {1ULL << 37, FUSE_CAP_PASSTHROUGH},        {1ULL << 4, FUSE_CAP_EXPORT_SUPPORT},
    };
    uint64_t agreed = 0;
    for (size_t index = 0; index < sizeof features / sizeof features[0]; index++) {
        if (wanted & features[index].kernels && fuse_set_feature_flag(connection, features[index].libfuses)) {
            agreed |= features[index].kernels;
        }
    }
    // This value tells the kernel two facts: the backing file is on a plain file system, and another file system may be stacked
    // on the mount.
    connection->max_backing_stack_depth = FUSE_BACKING_STACKED_UNDER;
    return agreed;
}

int32_t cfuse_backing_open(fuse_req_t request, int device, int descriptor) {
    (void)device;
    errno = 0;
    int32_t backing = fuse_passthrough_open(request, descriptor);
    return backing > 0 ? backing : errno > 0 ? -errno : -EIO;
}

static struct fuse_file_info opened(uint64_t handle, int32_t backing, uint32_t options) {
    return (struct fuse_file_info){
        .fh = handle, .backing_id = backing, .noflush = !(options & CFUSE_OPEN_FLUSH),
        .direct_io = !!(options & CFUSE_OPEN_DIRECT), .keep_cache = !!(options & CFUSE_OPEN_KEEP_CACHE)};
}

int cfuse_reply_open(fuse_req_t request, uint64_t handle, int32_t backing, uint32_t options) {
    struct fuse_file_info info = opened(handle, backing, options);
    return fuse_reply_open(request, &info);
}

int cfuse_reply_create(
    fuse_req_t request, const struct fuse_entry_param *entry, uint64_t handle, int32_t backing,
    uint32_t options) {
    struct fuse_file_info info = opened(handle, backing, options);
    return fuse_reply_create(request, entry, &info);
}

#else

const bool cfuse_passes_through = false;

struct fuse_session *cfuse_session_new(
    struct fuse_args *arguments, const struct fuse_lowlevel_ops *operations, void *userdata) {
    return fuse_session_new(arguments, operations, sizeof(struct fuse_lowlevel_ops), userdata);
}

int cfuse_take_transport(struct fuse_session *session, const struct fuse_custom_io *transport) {
    // The session continues to use its own descriptor. Only the functions that read and write this descriptor are replaced.
    return fuse_session_custom_io(session, transport, fuse_session_fd(session));
}

uint64_t cfuse_agree(struct fuse_conn_info *connection, uint64_t wanted) {
    (void)connection;
    (void)wanted;
    return 0;
}

int32_t cfuse_backing_open(fuse_req_t request, int device, int descriptor) {
    (void)request;
    return cfuse_backing_keep(device, descriptor);
}

struct attributes_out {
    uint64_t ino, size, blocks, atime, mtime, ctime;
    uint32_t atimensec, mtimensec, ctimensec, mode, nlink, uid, gid, rdev, blksize, flags;
};

struct entry_out {
    uint64_t nodeid, generation, entry_valid, attr_valid;
    uint32_t entry_valid_nsec, attr_valid_nsec;
    struct attributes_out attr;
};

struct open_out {
    uint64_t fh;
    uint32_t open_flags;
    int32_t backing_id;
};

struct create_out {
    struct entry_out entry;
    struct open_out open;
};

_Static_assert(sizeof(struct entry_out) == 128, "fuse_entry_out");
_Static_assert(sizeof(struct create_out) == 144, "fuse_entry_out + fuse_open_out");
_Static_assert(sizeof(struct backing_map) == 16, "fuse_backing_map");

// The kernel's flags FOPEN_DIRECT_IO, FOPEN_KEEP_CACHE, FOPEN_NOFLUSH and FOPEN_PASSTHROUGH, in this order.
enum { direct_io = 1 << 0, keep_cache = 1 << 1, no_flush = 1 << 5, passthrough = 1 << 7 };

static struct open_out opened(uint64_t handle, int32_t backing, uint32_t options) {
    uint32_t flags = (options & CFUSE_OPEN_DIRECT ? direct_io : 0) |
                     (options & CFUSE_OPEN_KEEP_CACHE ? keep_cache : 0) |
                     (options & CFUSE_OPEN_FLUSH ? 0 : no_flush) | (backing > 0 ? passthrough : 0);
    return (struct open_out){.fh = handle, .open_flags = flags, .backing_id = backing};
}

static struct attributes_out attributes(const struct stat *status) {
    return (struct attributes_out){
        .ino = status->st_ino, .size = (uint64_t)status->st_size, .blocks = (uint64_t)status->st_blocks,
        .atime = (uint64_t)status->st_atim.tv_sec, .mtime = (uint64_t)status->st_mtim.tv_sec,
        .ctime = (uint64_t)status->st_ctim.tv_sec, .atimensec = (uint32_t)status->st_atim.tv_nsec,
        .mtimensec = (uint32_t)status->st_mtim.tv_nsec, .ctimensec = (uint32_t)status->st_ctim.tv_nsec,
        .mode = status->st_mode, .nlink = (uint32_t)status->st_nlink, .uid = status->st_uid,
        .gid = status->st_gid, .rdev = (uint32_t)status->st_rdev, .blksize = (uint32_t)status->st_blksize};
}

int cfuse_reply_open(fuse_req_t request, uint64_t handle, int32_t backing, uint32_t options) {
    struct open_out out = opened(handle, backing, options);
    return fuse_reply_buf(request, (const char *)&out, sizeof out);
}

int cfuse_reply_create(
    fuse_req_t request, const struct fuse_entry_param *entry, uint64_t handle, int32_t backing,
    uint32_t options) {
    // The timeouts are given in whole seconds, because the daemon uses no fractions of a second.
    struct create_out out = {
        .entry = {.nodeid = entry->ino, .generation = entry->generation,
                  .entry_valid = (uint64_t)entry->entry_timeout, .attr_valid = (uint64_t)entry->attr_timeout,
                  .attr = attributes(&entry->attr)},
        .open = opened(handle, backing, options)};
    return fuse_reply_buf(request, (const char *)&out, sizeof out);
}

#endif
