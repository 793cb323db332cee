// SPDX-License-Identifier: Apache-2.0
// Reads and writes contents in three ways: a mebibyte at a time, in scattered pages, and by a mapping.
#define _GNU_SOURCE
#include "measure.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MEBIBYTE = 1 << 20, PAGE = 4096 };

// Reads the file once. Returns the number of bytes.
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

// Returns how many pages of the file are in the page cache.
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

// Reads a file that is not in the page cache. The kernel can cache the contents twice: for the file of the mount and for the
// source file. Standard input is the source file, because the mount hides its name.
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

static off_t size_of(const char *path) {
    struct stat status;
    if (stat(path, &status) != 0) fail("cannot look at", path);
    if (status.st_size < MEBIBYTE) complain(path, "is too short to measure anything");
    return status.st_size;
}

// Writes blocks and measures the time until `close` has returned. If `syncs` is true, the measured time also includes `fsync`.
static void write_blocks(const char *path, int flags, int mebibytes, int syncs) {
    char *buffer = allocate(MEBIBYTE);
    memset(buffer, 'x', MEBIBYTE);
    uint64_t began = now();
    int descriptor = open(path, O_WRONLY | O_CLOEXEC | flags, 0644);
    if (descriptor < 0) fail("cannot open", path);
    for (int i = 0; i < mebibytes; i++) {
        if (write(descriptor, buffer, MEBIBYTE) != MEBIBYTE) fail("cannot write", path);
    }
    if (syncs && fsync(descriptor) != 0) fail("cannot sync", path);
    if (close(descriptor) != 0) fail("cannot close", path);
    report(now() - began, (uint64_t)mebibytes);
    free(buffer);
}

void write_file(const char *path, int syncs) {
    write_blocks(path, 0, (int)(size_of(path) / MEBIBYTE), syncs);
}

// Writes a new file without a sync. So the data need not reach the disk, and the speed of the disk does not count.
void write_new(const char *path, int mebibytes) {
    write_blocks(path, O_CREAT | O_EXCL, mebibytes, 0);
    if (unlink(path) != 0) fail("cannot delete", path);
}

// Returns the next pseudorandom offset in the file. In every run and every directory, the sequence of offsets is the same.
static off_t next_place(uint64_t *state, off_t size) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (off_t)((*state >> 33) % (uint64_t)(size / PAGE)) * PAGE;
}

static void visit_places(const char *path, int count, int writes) {
    char *buffer = allocate(MEBIBYTE);
    off_t size = size_of(path);
    read_once(path, buffer);
    int descriptor = open(path, (writes ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
    if (descriptor < 0) fail("cannot open", path);
    uint64_t state = 1, began = now();
    for (int i = 0; i < count; i++) {
        off_t place = next_place(&state, size);
        ssize_t moved = writes ? pwrite(descriptor, buffer, PAGE, place) : pread(descriptor, buffer, PAGE, place);
        if (moved != PAGE) fail(writes ? "cannot write" : "cannot read", path);
    }
    report(now() - began, (uint64_t)count);
    close(descriptor);
    free(buffer);
}

void read_places(const char *path, int count) { visit_places(path, count, 0); }
void write_places(const char *path, int count) { visit_places(path, count, 1); }

void read_mapped(const char *path, int passes) {
    size_t size = (size_t)size_of(path);
    char *buffer = allocate(MEBIBYTE);
    read_once(path, buffer);
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) fail("cannot open", path);
    uint64_t began = now();
    for (int i = 0; i < passes; i++) {
        char *memory = mmap(NULL, size, PROT_READ, MAP_SHARED, descriptor, 0);
        if (memory == MAP_FAILED) fail("cannot map", path);
        for (size_t at = 0; at < size; at += MEBIBYTE) {
            memcpy(buffer, memory + at, size - at < MEBIBYTE ? size - at : MEBIBYTE);
        }
        munmap(memory, size);
    }
    report(now() - began, size / MEBIBYTE * (uint64_t)passes);
    close(descriptor);
    free(buffer);
}
