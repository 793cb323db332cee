// SPDX-License-Identifier: Apache-2.0
#ifndef CFUSE_H
#define CFUSE_H
#define FUSE_USE_VERSION 314
#include <fuse3/fuse_lowlevel.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// How passthrough is requested depends on the version of libfuse's headers. Only the code in CFuse.c depends on this version.
// libfuse 3.17 and later versions have functions for passthrough. With an older version, the daemon changes libfuse's reply to
// INIT before the reply is sent. CFuse.c then makes the replies to OPEN and CREATE itself.

/// Whether libfuse itself supports passthrough.
extern const bool cfuse_passes_through;
/// The version of libfuse's headers, as major × 100 + minor.
extern const int cfuse_header_version;

/// Calls `fuse_session_new`. Since libfuse 3.17 this is a macro, which Swift cannot call.
struct fuse_session *cfuse_session_new(
    struct fuse_args *arguments, const struct fuse_lowlevel_ops *operations, void *userdata);
/// Replaces the functions by which the session reads and writes messages, if the reply to INIT must be changed. Returns 0 or
/// -errno.
int cfuse_take_transport(struct fuse_session *session, const struct fuse_custom_io *transport);
/// Requests features from the kernel. Returns the features on which kernel and daemon agree, each as a bit of the kernel's
/// protocol. If the daemon must change the reply to INIT, returns no feature, because the changed reply requests the features.
uint64_t cfuse_agree(struct fuse_conn_info *connection, uint64_t wanted);

/// Registers the file behind a descriptor as a backing file. `device` is the connection's descriptor. Returns the backing
/// file's number, or -errno.
int32_t cfuse_backing_open(fuse_req_t request, int device, int descriptor);
/// Registers a backing file without a request. No version of libfuse has a function for this. The kernel holds the file until
/// the number of the backing file is closed.
int32_t cfuse_backing_keep(int device, int descriptor);
/// Unregisters a backing file. libfuse can do this only within a request, but the daemon does it when the kernel has forgotten
/// an inode.
void cfuse_backing_close(int device, int32_t backing);

/// Options that tell the kernel how to treat an open file.
enum cfuse_open_options {
    /// The kernel caches no data, and allows no shared mappings.
    CFUSE_OPEN_DIRECT = 1,
    /// The kernel may use data of the file that it has already cached. Without this option, the kernel drops this data.
    CFUSE_OPEN_KEEP_CACHE = 2,
    /// The kernel sends FLUSH for each close(2), and close(2) waits for the answer.
    CFUSE_OPEN_FLUSH = 4,
};

/// Answer an open, or the creation of a file, with options of `enum cfuse_open_options`. If `backing` is not 0, the kernel
/// reads and writes the data itself.
int cfuse_reply_open(fuse_req_t request, uint64_t handle, int32_t backing, uint32_t options);
int cfuse_reply_create(
    fuse_req_t request, const struct fuse_entry_param *entry, uint64_t handle, int32_t backing,
    uint32_t options);

// Parts of the kernel's protocol 7.40, from include/uapi/linux/fuse.h. libfuse 3.14 lacks them, and the header in Debian 12 is
// too old. They are declared in C, because Swift does not guarantee the layout of a structure.

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
