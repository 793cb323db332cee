// SPDX-License-Identifier: Apache-2.0
#ifndef CFUSE_H
#define CFUSE_H
#define FUSE_USE_VERSION 314
#include <fuse3/fuse_lowlevel.h>
#include <stddef.h>
#include <stdint.h>

// What the kernel speaks and libfuse 3.14 does not: protocol 7.40, from include/uapi/linux/fuse.h.
// Debian 12's own copy of that header is older. Declared in C because only C guarantees the layout.

struct cfuse_in_header {
    uint32_t len, opcode;
    uint64_t unique, nodeid;
    uint32_t uid, gid, pid;
    uint16_t total_extlen, padding;
};

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

struct cfuse_attr {
    uint64_t ino, size, blocks, atime, mtime, ctime;
    uint32_t atimensec, mtimensec, ctimensec, mode, nlink, uid, gid, rdev, blksize, flags;
};

struct cfuse_entry_out {
    uint64_t nodeid, generation, entry_valid, attr_valid;
    uint32_t entry_valid_nsec, attr_valid_nsec;
    struct cfuse_attr attr;
};

struct cfuse_open_out {
    uint64_t fh;
    uint32_t open_flags;
    int32_t backing_id;
};

struct cfuse_create_out {
    struct cfuse_entry_out entry;
    struct cfuse_open_out open;
};

struct cfuse_backing_map {
    int32_t fd;
    uint32_t flags;
    uint64_t padding;
};

_Static_assert(sizeof(struct cfuse_in_header) == 40, "fuse_in_header");
_Static_assert(sizeof(struct cfuse_init_in) == 64, "fuse_init_in");
_Static_assert(sizeof(struct cfuse_init_out) == 64, "fuse_init_out");
_Static_assert(sizeof(struct cfuse_entry_out) == 128, "fuse_entry_out");
_Static_assert(sizeof(struct cfuse_create_out) == 144, "fuse_entry_out + fuse_open_out");
_Static_assert(sizeof(struct cfuse_backing_map) == 16, "fuse_backing_map");
#endif
