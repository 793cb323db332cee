// SPDX-License-Identifier: Apache-2.0
// Workloads with many small files: in directories d000, d001, … below the working directory, each with files f000, f001, ….
#define _GNU_SOURCE
#include "measure.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { NAME = 16 };

// Returns the paths of all files. The workload makes the paths before it starts the clock.
static char (*make_paths(int directories, int files))[NAME] {
    char(*paths)[NAME] = allocate((size_t)directories * (size_t)files * NAME);
    for (int i = 0; i < directories * files; i++) {
        snprintf(paths[i], NAME, "d%03d/f%03d", i / files % 1000, i % files % 1000);
    }
    return paths;
}

static void make_file(const char *path, const char *contents, int size) {
    // The files get an old date. If a file is as new as git's index, git cannot find out by the times whether the file has
    // changed.
    const struct timespec times[2] = {{.tv_sec = 1577836800}, {.tv_sec = 1577836800}};
    int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (descriptor < 0) fail("cannot make", path);
    if (write(descriptor, contents, (size_t)size) != size) fail("cannot write", path);
    if (futimens(descriptor, times) != 0) fail("cannot set the times of", path);
    if (close(descriptor) != 0) fail("cannot close", path);
}

void make_tree(const char *directory, int directories, int files, int size) {
    if (directories > 1000 || files > 1000) complain("a tree has at most", "1000 directories of 1000 files");
    if (mkdir(directory, 0755) != 0) fail("cannot make", directory);
    if (chdir(directory) != 0) fail("cannot enter", directory);
    char(*paths)[NAME] = make_paths(directories, files);
    char *contents = allocate((size_t)size + 64);
    for (int i = 0; i < directories * files; i++) {
        for (int at = 0, line = 1; at < size; line++) {
            at += snprintf(contents + at, 64, "line %d of file %d\n", line, i);
        }
        if (i % files == 0) {
            char name[NAME];
            snprintf(name, sizeof name, "%.4s", paths[i]);
            if (mkdir(name, 0755) != 0) fail("cannot make", name);
        }
        make_file(paths[i], contents, size);
    }
    free(contents);
    free(paths);
}

static void open_all(char (*paths)[NAME], int count, int size, char *buffer) {
    for (int i = 0; i < count; i++) {
        int descriptor = open(paths[i], O_RDONLY | O_CLOEXEC);
        if (descriptor < 0) fail("cannot open", paths[i]);
        if (read(descriptor, buffer, (size_t)size) != size) fail("cannot read", paths[i]);
        close(descriptor);
    }
}

// A share of the files. Each thread opens the files of one share.
struct share {
    pthread_t thread;
    char (*paths)[NAME];
    int count, size;
};

static void *open_share(void *argument) {
    const struct share *share = argument;
    char *buffer = allocate((size_t)share->size);
    open_all(share->paths, share->count, share->size, buffer);
    free(buffer);
    return NULL;
}

void open_files(int directories, int files, int size, int threads) {
    int count = directories * files;
    char(*paths)[NAME] = make_paths(directories, files);
    struct share whole = {.paths = paths, .count = count, .size = size};
    open_share(&whole);
    struct share *shares = allocate((size_t)threads * sizeof *shares);
    uint64_t began = now();
    for (int i = 0; i < threads; i++) {
        int first = (int)((int64_t)count * i / threads), next = (int)((int64_t)count * (i + 1) / threads);
        shares[i] = (struct share){.paths = paths + first, .count = next - first, .size = size};
        if (threads == 1) {
            open_share(&shares[i]);
        } else if (pthread_create(&shares[i].thread, NULL, open_share, &shares[i]) != 0) {
            complain("cannot start", "a thread");
        }
    }
    for (int i = 0; threads > 1 && i < threads; i++) pthread_join(shares[i].thread, NULL);
    report(now() - began, (uint64_t)count);
    free(shares);
    free(paths);
}

void open_one(const char *name, int count) {
    uint64_t began = now();
    for (int i = 0; i < count; i++) {
        int descriptor = open(name, O_RDONLY | O_CLOEXEC);
        if (descriptor < 0) fail("cannot open", name);
        close(descriptor);
    }
    report(now() - began, (uint64_t)count);
}

static void stat_all(char (*paths)[NAME], int count) {
    struct stat status;
    for (int i = 0; i < count; i++) {
        if (lstat(paths[i], &status) != 0) fail("cannot look at", paths[i]);
    }
}

void stat_files(int directories, int files, int passes, int is_warm) {
    int count = directories * files;
    char(*paths)[NAME] = make_paths(directories, files);
    if (is_warm) stat_all(paths, count);
    uint64_t began = now();
    for (int i = 0; i < passes; i++) stat_all(paths, count);
    report(now() - began, (uint64_t)count * (uint64_t)passes);
    free(paths);
}

static void list(const char *name, int files) {
    DIR *directory = opendir(name);
    if (directory == NULL) fail("cannot open", name);
    int found = 0;
    while (readdir(directory) != NULL) found++;
    closedir(directory);
    if (found != files + 2) complain("not all names were found in", name);
}

static void list_all(int directories, int files) {
    char name[NAME];
    for (int i = 0; i < directories; i++) {
        snprintf(name, sizeof name, "d%03d", i % 1000);
        list(name, files);
    }
}

void read_directory(const char *name, int files, int passes) {
    list(name, files);
    uint64_t began = now();
    for (int i = 0; i < passes; i++) list(name, files);
    report(now() - began, (uint64_t)(files + 2) * (uint64_t)passes);
}

void read_directories(int directories, int files, int passes) {
    list_all(directories, files);
    uint64_t began = now();
    for (int i = 0; i < passes; i++) list_all(directories, files);
    report(now() - began, (uint64_t)directories * (uint64_t)(files + 2) * (uint64_t)passes);
}

// Makes the same system calls as `ls -l`.
static void list_with_attributes(const char *name) {
    DIR *directory = opendir(name);
    if (directory == NULL) fail("cannot open", name);
    struct stat status;
    for (struct dirent *found; (found = readdir(directory)) != NULL;) {
        if (fstatat(dirfd(directory), found->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
            fail("cannot look at", found->d_name);
        }
    }
    closedir(directory);
}

void list_directories(int directories, int files) {
    char name[NAME];
    uint64_t began = now();
    for (int i = 0; i < directories; i++) {
        snprintf(name, sizeof name, "d%03d", i % 1000);
        list_with_attributes(name);
    }
    report(now() - began, (uint64_t)directories * (uint64_t)files);
}
