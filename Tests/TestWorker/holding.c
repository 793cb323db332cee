// SPDX-License-Identifier: Apache-2.0
// Workers that hold a file open, and workers that wait to open such a file.
#define _GNU_SOURCE
#include "board.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static int refuse(const char *what) {
    fprintf(stderr, "TestWorker: %s: %s\n", what, strerror(errno));
    return 1;
}

static bool write_line(int descriptor, off_t offset, const char *habit) {
    char line[64];
    int length = snprintf(line, sizeof line, "%s %llu of many\n", habit, (unsigned long long)counted(ROUNDS));
    count(ROUNDS);
    return pwrite(descriptor, line, (size_t)length, offset) == length;
}

// Holds a file open. HABIT is one of these:
//     idle       opens for reading and writing, but neither reads nor writes
//     noted      opens like `idle`, and writes a line at the beginning
//     truncated  opens with O_TRUNC and writes one line
//     progress   opens with O_TRUNC, and writes a line at the beginning ten times a second
int hold(const char *habit, const char *path) {
    bool truncates = strcmp(habit, "truncated") == 0 || strcmp(habit, "progress") == 0;
    int flags = truncates ? O_WRONLY | O_CREAT | O_TRUNC : O_RDWR;
    int descriptor = open(path, flags | O_CLOEXEC, 0644);
    if (descriptor < 0) return refuse(path);
    if (strcmp(habit, "idle") != 0 && !write_line(descriptor, 0, habit)) return refuse(path);
    count(READY);
    while (strcmp(habit, "progress") == 0 && !is_over()) {
        usleep(100 * 1000);
        if (!write_line(descriptor, 0, habit)) return refuse(path);
    }
    wait_until_over();
    return close(descriptor) == 0 ? 0 : refuse(path);
}

// Maps a file and closes its descriptor. HABIT is one of these:
//     shared     writes to the mapping change the file
//     looking    a shared mapping that may only be read
//     private    writes to the mapping change only the memory of the process
int map(const char *habit, const char *path) {
    bool looks = strcmp(habit, "looking") == 0;
    int descriptor = open(path, (looks ? O_RDONLY : O_RDWR) | O_CLOEXEC);
    if (descriptor < 0) return refuse(path);
    int kind = strcmp(habit, "private") == 0 ? MAP_PRIVATE : MAP_SHARED;
    void *memory = mmap(NULL, 1, looks ? PROT_READ : PROT_READ | PROT_WRITE, kind, descriptor, 0);
    if (memory == MAP_FAILED || close(descriptor) != 0) return refuse(path);
    count(READY);
    wait_until_over();
    return 0;
}

static void *open_once(void *path) {
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) {
        note_failure(errno);
        return NULL;
    }
    count(OPENED);
    close(descriptor);
    return NULL;
}

// Starts NUMBER threads, which all open the file at the same time. OPENED counts the opens that have returned.
int park(const char *path, int number) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 * 1024);
    pthread_t *threads = calloc((size_t)number, sizeof *threads);
    for (int i = 0; i < number; i++) {
        errno = pthread_create(&threads[i], &attributes, open_once, (void *)path);
        if (errno != 0) return refuse("pthread_create");
        count(ROUNDS);
    }
    count(READY);
    for (int i = 0; i < number; i++) pthread_join(threads[i], NULL);
    free(threads);
    return 0;
}
