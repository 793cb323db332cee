// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <limits.h>
#include <stddef.h>

// A file named by a random path: one descriptor and the path from there.
struct place {
    // AT_FDCWD, or a directory of `descriptors`.
    int directory;
    char path[PATH_MAX];
};

// The state of one process.
struct racer {
    unsigned long long chance;
    // The directory in which all race, absolute.
    const char *root;
    // Directories as starts of paths. The first is `root`; the others may have been removed meanwhile.
    int directories[4];
    int number;
};

struct operation {
    const char *name;
    // Returns an errno, 0 for success.
    int (*run)(struct racer *);
    // The errnos that a plain directory gives, ended by 0.
    const int *allowed;
};

extern const struct operation operations[];
extern const size_t operation_count;

unsigned random_below(struct racer *racer, unsigned limit);
