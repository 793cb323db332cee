// SPDX-License-Identifier: Apache-2.0
#ifndef MIRROR_H
#define MIRROR_H
#define _GNU_SOURCE
#include "CFuse.h"
#include "nodes.h"

// The seconds for which the kernel may cache answers. The time is long, because no other program changes the tree.
#define VALID 3600.0

// Functions in transport.c.
void agree(void *unused, struct fuse_conn_info *connection);
int take_transport(struct fuse_session *session);

// Functions in names.c, files.c and listing.c.
void add_names(struct fuse_lowlevel_ops *operations);
void add_files(struct fuse_lowlevel_ops *operations, struct fuse_session **session);
void add_listing(struct fuse_lowlevel_ops *operations);

/// Looks up a name, and holds a node for its file from then on. Returns an error number, 0 on success.
int look_up(struct node *directory, const char *name, struct fuse_entry_param *entry);
/// Takes `lookups` look-ups off a node's count, and frees the node when none is left.
void let_go(fuse_ino_t id, uint64_t lookups);
/// The path of a node in `/proc`, for system calls that accept no descriptor of a node.
struct path {
    char bytes[32];
};
struct path path_of(const struct node *node);
#endif
