// SPDX-License-Identifier: Apache-2.0
#ifndef NODES_H
#define NODES_H
#include <stdint.h>
#include <sys/stat.h>

// A file or directory that the kernel knows, with a descriptor for it. Because of these descriptors, the mirror is suitable
// only for small directories.
struct node {
    struct node *next;
    int descriptor;
    dev_t device;
    ino_t inode;
    uint64_t lookups;
    // The kernel's number for the backing file, set at the first open.
    int32_t backing;
};

/// Makes `descriptor` the root. This function must be called before the others.
void begin_nodes(int descriptor);
struct node *node_of(uint64_t id);
uint64_t id_of(const struct node *node);
/// Returns the node for the file of `descriptor`, and adds 1 to the node's count of look-ups. Takes ownership of `descriptor`.
struct node *introduce(int descriptor, const struct stat *status);
/// Subtracts `lookups` from a node's count of look-ups. If the count becomes 0, returns the node, and the caller closes and
/// frees it.
struct node *forget(struct node *node, uint64_t lookups);
/// Returns the kernel's number for the backing file. The first call for a node gets this number by a call of `make`.
int32_t backing_of(struct node *node, int32_t (*make)(int descriptor));
#endif
