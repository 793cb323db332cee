// SPDX-License-Identifier: Apache-2.0
#ifndef MIRROR_H
#define MIRROR_H
#define _GNU_SOURCE
#include "CFuse.h"
#include "nodes.h"

// The time for which the kernel may cache answers, in seconds: no other program changes the tree.
#define VALID 3600.0

// transport.c
void agree(void *unused, struct fuse_conn_info *connection);
int take_transport(struct fuse_session *session);

// names.c, files.c and listing.c
void add_names(struct fuse_lowlevel_ops *operations);
void add_files(struct fuse_lowlevel_ops *operations, struct fuse_session **session);
void add_listing(struct fuse_lowlevel_ops *operations);

/// Looks a name up, and keeps a node for it from then on. Returns an error number.
int look_up(struct node *directory, const char *name, struct fuse_entry_param *entry);
/// Takes lookups back, and frees nodes without lookups.
void let_go(fuse_ino_t id, uint64_t lookups);
/// The path of a node, for calls that take no bare descriptor.
struct path {
    char bytes[32];
};
struct path path_of(const struct node *node);
#endif
