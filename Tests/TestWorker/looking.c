// SPDX-License-Identifier: Apache-2.0
// Workers that look at a file's name or directory while other programs save the file.
#define _GNU_SOURCE
#include "board.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
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

// Looks up the name in a loop. Each look-up is a round.
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

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int is_listed(const char *path, const char *name) {
    DIR *directory = opendir(path);
    if (directory == NULL) {
        note(errno);
        return 1;
    }
    struct dirent *entry;
    int found = 0;
    while ((entry = readdir(directory)) != NULL) found |= strcmp(entry->d_name, name) == 0;
    closedir(directory);
    return found;
}

// Lists the directory in a loop. Each listing is a round. If a listing without the name took at least 0.25 s, it has waited for
// a pending save. EMPTY counts this listing and the listings without the name right after it. MISSING counts all other listings
// without the name.
int list(const char *path, const char *name) {
    int has_waited = 0;
    while (!is_over()) {
        double start = now();
        int listed = is_listed(path, name);
        has_waited = !listed && (has_waited || now() - start >= 0.25);
        if (!listed) count(has_waited ? EMPTY : MISSING);
        count(ROUNDS);
        if (!counted(READY)) count(READY);
    }
    return 0;
}
