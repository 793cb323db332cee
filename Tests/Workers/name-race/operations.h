// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <limits.h>
#include <stddef.h>

// A file, given by a random path that begins at a directory.
struct place {
    // AT_FDCWD, or one of the directories that the process has open.
    int directory;
    char path[PATH_MAX];
};

// The state of one process.
struct racer {
    unsigned long long chance;
    // The absolute path of the directory in which all processes work.
    const char *root;
    // Open directories at which paths can begin. The first is `root`. The others may have been removed since they were opened.
    int directories[4];
    int number;
};

struct operation {
    const char *name;
    // Runs the operation. Returns an errno, or 0 for success.
    int (*run)(struct racer *);
    // The errnos that a plain directory can return for the operation. The list ends with 0.
    const int *allowed;
};

extern const struct operation operations[];
extern const size_t operation_count;

unsigned random_below(struct racer *racer, unsigned limit);
