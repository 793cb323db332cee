// SPDX-License-Identifier: Apache-2.0
#ifndef NODES_H
#define NODES_H
#include <stdint.h>
#include <sys/stat.h>

// One file or directory that the kernel knows, by a descriptor of its own: a mirror that has to last would not
// spend one on each.
struct node {
    struct node *next;
    int descriptor;
    dev_t device;
    ino_t inode;
    uint64_t lookups;
    // The kernel's number of the file below, once it was opened.
    int32_t backing;
};

/// Before anything else: the root is what `descriptor` is about.
void begin_nodes(int descriptor);
struct node *node_of(uint64_t id);
uint64_t id_of(const struct node *node);
/// The node for what `descriptor` is about, which is taken over, with one lookup more.
struct node *introduce(int descriptor, const struct stat *status);
/// Returns what is left to be closed: the node itself, if nobody knows it any more. Free it.
struct node *forget(struct node *node, uint64_t lookups);
/// The kernel's number of the file below; the first to ask has it made by `make`.
int32_t backing_of(struct node *node, int32_t (*make)(int descriptor));
#endif
