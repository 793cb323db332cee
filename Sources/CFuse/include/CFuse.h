// SPDX-License-Identifier: Apache-2.0
#ifndef CFUSE_H
#define CFUSE_H
#define FUSE_USE_VERSION 314
#include <fuse3/fuse_lowlevel.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Only CFuse.c decides how passthrough is requested; this depends on the version of libfuse's headers. libfuse 3.17 and later
// have functions for passthrough. With older versions, the daemon changes libfuse's reply to INIT before it is sent. CFuse.c
// itself then makes the replies to OPEN and CREATE.

/// Whether libfuse itself supports passthrough.
extern const bool cfuse_passes_through;
/// The version of libfuse's headers, as major × 100 + minor.
extern const int cfuse_header_version;

/// Calls `fuse_session_new`. Since libfuse 3.17 this is a macro, which Swift cannot call.
struct fuse_session *cfuse_session_new(
    struct fuse_args *arguments, const struct fuse_lowlevel_ops *operations, void *userdata);
/// Installs other functions to read and write messages in the session, if the reply to INIT must be changed. Returns 0 or
/// -errno.
int cfuse_take_transport(struct fuse_session *session, const struct fuse_custom_io *transport);
/// Requests features from the kernel and returns those on which both sides agree. A feature is a bit of the kernel's protocol.
/// Returns no feature if the reply to INIT must be changed, because that changed reply requests the features.
uint64_t cfuse_agree(struct fuse_conn_info *connection, uint64_t wanted);

/// Registers the file behind a descriptor as a backing file. `device` is the connection's descriptor. Returns the backing
/// file's number, or -errno.
int32_t cfuse_backing_open(fuse_req_t request, int device, int descriptor);
/// Registers a backing file without a request, which no libfuse supports. The kernel holds the file until its number is closed.
int32_t cfuse_backing_keep(int device, int descriptor);
/// Unregisters a backing file. libfuse can do this only in a request, and a forgotten inode causes no suitable request.
void cfuse_backing_close(int device, int32_t backing);

/// How the kernel treats an open file.
enum cfuse_open_options {
    /// The kernel caches no data, and allows no shared mappings.
    CFUSE_OPEN_DIRECT = 1,
    /// The kernel may use data that it has cached before. Without this option, it drops them.
    CFUSE_OPEN_KEEP_CACHE = 2,
    /// The kernel sends FLUSH for each close(2), and close(2) waits for the answer.
    CFUSE_OPEN_FLUSH = 4,
};

/// Answer an open, with options of `enum cfuse_open_options`. If `backing` is not 0, the kernel reads and writes the data
/// itself.
int cfuse_reply_open(fuse_req_t request, uint64_t handle, int32_t backing, uint32_t options);
int cfuse_reply_create(
    fuse_req_t request, const struct fuse_entry_param *entry, uint64_t handle, int32_t backing,
    uint32_t options);

// Parts of the kernel's protocol 7.40 that libfuse 3.14 lacks, from include/uapi/linux/fuse.h. The copy of this header in
// Debian 12 is older. They are declared in C, because only C guarantees the layout.

struct cfuse_in_header {
    uint32_t len, opcode;
    uint64_t unique, nodeid;
    uint32_t uid, gid, pid;
    uint16_t total_extlen, padding;
};

enum { CFUSE_LOOKUP = 1, CFUSE_FORGET = 2, CFUSE_GETATTR = 3, CFUSE_UNLINK = 10, CFUSE_READ = 15, CFUSE_WRITE = 16 };

struct cfuse_out_header {
    uint32_t len;
    int32_t error;
    uint64_t unique;
};

struct cfuse_init_in {
    uint32_t major, minor, max_readahead, flags, flags2, unused[11];
};

struct cfuse_init_out {
    uint32_t major, minor, max_readahead, flags;
    uint16_t max_background, congestion_threshold;
    uint32_t max_write, time_gran;
    uint16_t max_pages, map_alignment;
    uint32_t flags2, max_stack_depth;
    uint16_t request_timeout, unused[11];
};

_Static_assert(sizeof(struct cfuse_in_header) == 40, "fuse_in_header");
_Static_assert(sizeof(struct cfuse_init_in) == 64, "fuse_init_in");
_Static_assert(sizeof(struct cfuse_init_out) == 64, "fuse_init_out");
#endif
