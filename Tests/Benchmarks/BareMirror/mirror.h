// SPDX-License-Identifier: Apache-2.0
#ifndef MIRROR_H
#define MIRROR_H
#define _GNU_SOURCE
#include "CFuse.h"
#include "nodes.h"

// The number of seconds for which the kernel may cache an answer. It is large, because no other program changes the directory.
#define VALID 3600.0

// Functions in transport.c.
void agree(void *unused, struct fuse_conn_info *connection);
int take_transport(struct fuse_session *session);

// Functions in names.c, files.c and listing.c.
void add_names(struct fuse_lowlevel_ops *operations);
void add_files(struct fuse_lowlevel_ops *operations, struct fuse_session **session);
void add_listing(struct fuse_lowlevel_ops *operations);

/// Looks up a name, and adds a look-up to the node of its file. Returns 0 on success, or an error number.
int look_up(struct node *directory, const char *name, struct fuse_entry_param *entry);
/// Subtracts `lookups` from a node's count of look-ups. If the count becomes 0, frees the node.
void let_go(fuse_ino_t id, uint64_t lookups);
/// The path of a node in `/proc`, for system calls that accept no descriptor of a node.
struct path {
    char bytes[32];
};
struct path path_of(const struct node *node);
#endif
