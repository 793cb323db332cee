// SPDX-License-Identifier: Apache-2.0
#include "nodes.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { CHAINS = 1 << 16, ROOT = 1 };

static struct node root;
static struct node *chains[CHAINS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct node **chain_of(dev_t device, ino_t inode) {
    return &chains[((inode * 0x9E3779B97F4A7C15u >> 40) ^ device) % CHAINS];
}

void begin_nodes(int descriptor) { root = (struct node){.descriptor = descriptor, .lookups = 1}; }

struct node *node_of(uint64_t id) { return id == ROOT ? &root : (struct node *)(uintptr_t)id; }

uint64_t id_of(const struct node *node) { return node == &root ? ROOT : (uintptr_t)node; }

struct node *introduce(int descriptor, const struct stat *status) {
    struct node **chain = chain_of(status->st_dev, status->st_ino);
    pthread_mutex_lock(&lock);
    struct node *node = *chain;
    while (node != NULL && (node->inode != status->st_ino || node->device != status->st_dev)) node = node->next;
    if (node == NULL) {
        node = calloc(1, sizeof *node);
        if (node == NULL) abort();
        *node = (struct node){.next = *chain, .descriptor = descriptor, .device = status->st_dev,
                              .inode = status->st_ino};
        *chain = node;
        descriptor = -1;
    }
    node->lookups++;
    pthread_mutex_unlock(&lock);
    if (descriptor >= 0) close(descriptor);
    return node;
}

struct node *forget(struct node *node, uint64_t lookups) {
    if (node == &root) return NULL;
    pthread_mutex_lock(&lock);
    node->lookups -= lookups;
    int is_gone = node->lookups == 0;
    if (is_gone) {
        struct node **link = chain_of(node->device, node->inode);
        while (*link != node) link = &(*link)->next;
        *link = node->next;
    }
    pthread_mutex_unlock(&lock);
    return is_gone ? node : NULL;
}

int32_t backing_of(struct node *node, int32_t (*make)(int descriptor)) {
    int32_t backing = __atomic_load_n(&node->backing, __ATOMIC_ACQUIRE);
    if (backing > 0) return backing;
    pthread_mutex_lock(&lock);
    if (node->backing <= 0) __atomic_store_n(&node->backing, make(node->descriptor), __ATOMIC_RELEASE);
    backing = node->backing;
    pthread_mutex_unlock(&lock);
    return backing;
}
