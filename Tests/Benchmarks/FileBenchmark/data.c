// SPDX-License-Identifier: Apache-2.0
// Contents, one mebibyte at a time.
#define _GNU_SOURCE
#include "measure.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MEBIBYTE = 1 << 20 };

// Returns the number of bytes.
static uint64_t read_once(const char *path, char *buffer) {
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) fail("cannot open", path);
    uint64_t total = 0;
    ssize_t count;
    while ((count = read(descriptor, buffer, MEBIBYTE)) > 0) total += (uint64_t)count;
    if (count < 0) fail("cannot read", path);
    close(descriptor);
    if (total < MEBIBYTE) complain(path, "is too short to measure anything");
    return total;
}

void read_file(const char *path, int passes) {
    char *buffer = allocate(MEBIBYTE);
    read_once(path, buffer);
    uint64_t total = 0;
    uint64_t began = now();
    for (int i = 0; i < passes; i++) total += read_once(path, buffer);
    uint64_t took = now() - began;
    report(took, total / MEBIBYTE);
    free(buffer);
}

// Pages of the file that are in the page cache.
static size_t cached_pages(int descriptor, const char *path) {
    struct stat status;
    if (fstat(descriptor, &status) != 0) fail("cannot look at", path);
    size_t size = (size_t)status.st_size, pages = (size + 4095) / 4096, cached = 0;
    void *memory = mmap(NULL, size, PROT_READ, MAP_SHARED, descriptor, 0);
    if (memory == MAP_FAILED) fail("cannot map", path);
    unsigned char *here = allocate(pages);
    if (mincore(memory, size, here) != 0) fail("cannot see the cached pages of", path);
    for (size_t i = 0; i < pages; i++) cached += here[i] & 1;
    free(here);
    munmap(memory, size);
    return cached;
}

static void drop(int descriptor, const char *path) {
    if (fsync(descriptor) != 0) fail("cannot sync", path);
    int error = posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
    if (error != 0) complain("the kernel keeps in its cache", path);
}

// What a program reads may be cached twice: as the mount's file and as the file below. Standard input is the
// latter, which nobody can reach by its name while something is mounted over it.
void read_cold(const char *path) {
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) fail("cannot open", path);
    drop(descriptor, path);
    drop(STDIN_FILENO, "the file below");
    if (cached_pages(descriptor, path) + cached_pages(STDIN_FILENO, "the file below") > 0) {
        complain("not all was dropped from the page cache of", path);
    }
    close(descriptor);
    char *buffer = allocate(MEBIBYTE);
    uint64_t began = now();
    uint64_t total = read_once(path, buffer);
    uint64_t took = now() - began;
    report(took, total / MEBIBYTE);
    free(buffer);
}

// Over what is there: where new blocks lie and how long a disk takes to provide them is another question.
void write_file(const char *path) {
    char *buffer = allocate(MEBIBYTE);
    memset(buffer, 'x', MEBIBYTE);
    struct stat status;
    if (stat(path, &status) != 0) fail("cannot look at", path);
    int mebibytes = (int)(status.st_size / MEBIBYTE);
    if (mebibytes < 1) complain(path, "is too short to measure anything");
    uint64_t began = now();
    int descriptor = open(path, O_WRONLY | O_CLOEXEC);
    if (descriptor < 0) fail("cannot open", path);
    for (int i = 0; i < mebibytes; i++) {
        if (write(descriptor, buffer, MEBIBYTE) != MEBIBYTE) fail("cannot write", path);
    }
    if (fsync(descriptor) != 0) fail("cannot sync", path);
    if (close(descriptor) != 0) fail("cannot close", path);
    report(now() - began, (uint64_t)mebibytes);
    free(buffer);
}
