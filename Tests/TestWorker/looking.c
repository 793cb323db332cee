// SPDX-License-Identifier: Apache-2.0
// Those who only look at a file while others save it.
#define _GNU_SOURCE
#include "board.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static void note(int error) {
    if (error == ENOENT) {
        count(MISSING);
    } else if (error == ESTALE) {
        count(STALE);
    } else {
        note_failure(error);
    }
}

// Every round is one look-up of the name.
int look_up(const char *path) {
    while (!is_over()) {
        struct stat status;
        if (stat(path, &status) < 0) note(errno);
        count(ROUNDS);
        if (!counted(READY)) count(READY);
    }
    return 0;
}

static void read_once(const char *path) {
    char buffer[65536];
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) {
        note(errno);
        return;
    }
    ssize_t part, length = 0;
    while ((part = read(descriptor, buffer, sizeof buffer)) > 0) length += part;
    if (part < 0) {
        note(errno);
    } else {
        count(length == 0 ? EMPTY : COMPLETE);
    }
    close(descriptor);
}

int open_and_read(const char *path) {
    while (!is_over()) {
        read_once(path);
        count(ROUNDS);
        if (!counted(READY)) count(READY);
    }
    return 0;
}
