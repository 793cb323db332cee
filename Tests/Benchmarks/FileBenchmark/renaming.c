// SPDX-License-Identifier: Apache-2.0
// Names that come, change and go, in a directory of their own. What was there before was made by a process
// that has ended, as it usually was.
#define _GNU_SOURCE
#include "measure.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME = 16 };
static const char *const directory = "names";

static char (*make_paths(char letter, int files))[NAME] {
    char(*paths)[NAME] = allocate((size_t)files * NAME);
    for (int i = 0; i < files; i++) snprintf(paths[i], NAME, "names/%c%05d", letter, i % 100000);
    return paths;
}

static void make_directory(void) {
    if (mkdir(directory, 0755) != 0) fail("cannot make", directory);
}

static void remove_directory(void) {
    if (rmdir(directory) != 0) fail("cannot remove", directory);
}

static void create_all(char (*paths)[NAME], int files) {
    for (int i = 0; i < files; i++) {
        int descriptor = open(paths[i], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (descriptor < 0) fail("cannot make", paths[i]);
        if (close(descriptor) != 0) fail("cannot close", paths[i]);
    }
}

static void unlink_all(char (*paths)[NAME], int files) {
    for (int i = 0; i < files; i++) {
        if (unlink(paths[i]) != 0) fail("cannot delete", paths[i]);
    }
}

static void let_another_create(char (*paths)[NAME], int files) {
    pid_t child = start_child();
    if (child == 0) {
        create_all(paths, files);
        _exit(0);
    }
    finish_child(child);
}

void create_files(int files) {
    char(*paths)[NAME] = make_paths('a', files);
    make_directory();
    uint64_t began = now();
    create_all(paths, files);
    report(now() - began, (uint64_t)files);
    unlink_all(paths, files);
    remove_directory();
    free(paths);
}

void rename_files(int files) {
    char(*paths)[NAME] = make_paths('a', files);
    char(*others)[NAME] = make_paths('b', files);
    make_directory();
    let_another_create(paths, files);
    uint64_t began = now();
    for (int i = 0; i < files; i++) {
        if (rename(paths[i], others[i]) != 0) fail("cannot rename", paths[i]);
    }
    report(now() - began, (uint64_t)files);
    unlink_all(others, files);
    remove_directory();
    free(others);
    free(paths);
}

void unlink_files(int files) {
    char(*paths)[NAME] = make_paths('a', files);
    make_directory();
    let_another_create(paths, files);
    uint64_t began = now();
    unlink_all(paths, files);
    report(now() - began, (uint64_t)files);
    remove_directory();
    free(paths);
}
