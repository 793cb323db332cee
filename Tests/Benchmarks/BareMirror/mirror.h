// SPDX-License-Identifier: Apache-2.0
#ifndef MIRROR_H
#define MIRROR_H
#define _GNU_SOURCE
#include "CFuse.h"
#include "nodes.h"

// How long the kernel may rely on what it was told, in seconds: nobody else changes the tree.
#define VALID 3600.0

// transport.c
void agree(void *unused, struct fuse_conn_info *connection);
int take_transport(struct fuse_session *session);

// names.c, files.c and listing.c
void add_names(struct fuse_lowlevel_ops *operations);
void add_files(struct fuse_lowlevel_ops *operations, struct fuse_session **session);
void add_listing(struct fuse_lowlevel_ops *operations);

/// Looks a name up, and knows it from then on. Returns an error number.
int look_up(struct node *directory, const char *name, struct fuse_entry_param *entry);
/// Takes lookups back, and what nobody knows any more with them.
void let_go(fuse_ino_t id, uint64_t lookups);
/// The path of what a node stands for, for calls that take no bare descriptor.
struct path {
    char bytes[32];
};
struct path path_of(const struct node *node);
#endif
