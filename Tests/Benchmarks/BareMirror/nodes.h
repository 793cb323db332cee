// SPDX-License-Identifier: Apache-2.0
#ifndef NODES_H
#define NODES_H
#include <stdint.h>
#include <sys/stat.h>

// One file or directory that the kernel knows, with a descriptor of its own. A mirror for real use would not spend
// a descriptor on each.
struct node {
    struct node *next;
    int descriptor;
    dev_t device;
    ino_t inode;
    uint64_t lookups;
    // The kernel's number of the backing file, after the first open.
    int32_t backing;
};

/// Called first: `descriptor` becomes the root.
void begin_nodes(int descriptor);
struct node *node_of(uint64_t id);
uint64_t id_of(const struct node *node);
/// The node for the file of `descriptor`, with one lookup more. Takes ownership of `descriptor`.
struct node *introduce(int descriptor, const struct stat *status);
/// Returns the node if it has no lookups left, to be closed and freed by the caller.
struct node *forget(struct node *node, uint64_t lookups);
/// The kernel's number of the backing file; the first call makes it with `make`.
int32_t backing_of(struct node *node, int32_t (*make)(int descriptor));
#endif
