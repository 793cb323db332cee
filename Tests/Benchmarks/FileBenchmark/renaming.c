// SPDX-License-Identifier: Apache-2.0
// Makes, renames and removes names in one directory. The program calls stat(2) for a name before it renames or deletes it.
//
// A run of this program creates, renames or removes files, but never does two of these things to one file. A file system that
// detects saves treats a new file differently if the program that made it renames it at once.
#define _GNU_SOURCE
#include "measure.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME = 48 };

// Returns the paths of the files. Each name contains `generation`, the number of renames so far.
static char (*make_paths(const char *directory, int generation, int files))[NAME] {
    if (strlen(directory) > 24) complain("too long:", directory);
    char(*paths)[NAME] = allocate((size_t)files * NAME);
    for (int i = 0; i < files; i++) {
        snprintf(paths[i], NAME, "%.24s/%d-%07d", directory, generation % 10000, i % 10000000);
    }
    return paths;
}

static void look_at_all(char (*paths)[NAME], int files) {
    struct stat status;
    for (int i = 0; i < files; i++) {
        if (lstat(paths[i], &status) != 0) fail("cannot look at", paths[i]);
    }
}

void create_files(const char *directory, int files, int size) {
    char(*paths)[NAME] = make_paths(directory, 0, files);
    char *contents = allocate((size_t)size + 1);
    if (mkdir(directory, 0755) != 0) fail("cannot make", directory);
    uint64_t began = now();
    for (int i = 0; i < files; i++) {
        int descriptor = open(paths[i], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (descriptor < 0) fail("cannot make", paths[i]);
        if (write(descriptor, contents, (size_t)size) != size) fail("cannot write", paths[i]);
        if (close(descriptor) != 0) fail("cannot close", paths[i]);
    }
    report(now() - began, (uint64_t)files);
    free(contents);
    free(paths);
}

void rename_files(const char *directory, int files, int generation) {
    char(*paths)[NAME] = make_paths(directory, generation - 1, files);
    char(*others)[NAME] = make_paths(directory, generation, files);
    look_at_all(paths, files);
    uint64_t began = now();
    for (int i = 0; i < files; i++) {
        if (rename(paths[i], others[i]) != 0) fail("cannot rename", paths[i]);
    }
    report(now() - began, (uint64_t)files);
    free(others);
    free(paths);
}

void unlink_files(const char *directory, int files) {
    char(*paths)[NAME] = make_paths(directory, 0, files);
    look_at_all(paths, files);
    uint64_t began = now();
    for (int i = 0; i < files; i++) {
        if (unlink(paths[i]) != 0) fail("cannot delete", paths[i]);
    }
    report(now() - began, (uint64_t)files);
    if (rmdir(directory) != 0) fail("cannot remove", directory);
    free(paths);
}
