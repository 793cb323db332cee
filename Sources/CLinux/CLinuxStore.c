// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "CLinuxStore.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

// Enough bytes for "/proc/self/fd/" and any number of a descriptor.
enum { PROC_NAME_BYTES = 32 };

static void proc_name(char name[PROC_NAME_BYTES], int descriptor) {
    snprintf(name, PROC_NAME_BYTES, "/proc/self/fd/%d", descriptor);
}

int clinux_open_beneath(int directory, const char *name, int flags, uint32_t mode) {
    // Without O_CREAT, the mode must be 0: the kernel refuses any other mode.
    struct open_how how = {
        .flags = (uint64_t)(flags | O_CLOEXEC),
        .mode = flags & O_CREAT ? mode : 0,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    return (int)syscall(SYS_openat2, directory, name, &how, sizeof how);
}

int clinux_reflink(int from, int to) { return ioctl(to, FICLONE, from); }

ssize_t clinux_copy_file_range(int from, int to, size_t length) {
    return copy_file_range(from, NULL, to, NULL, length, 0);
}

// The number of bytes that are read from each file for one comparison.
enum { COMPARED_BYTES = 1 << 17 };

// Reads `count` bytes, or fewer bytes if the file ends earlier. Returns the number of bytes, or -1.
static ssize_t read_fully(int descriptor, char *buffer, size_t count, off_t offset) {
    size_t filled = 0;
    while (filled < count) {
        ssize_t got = pread(descriptor, buffer + filled, count - filled, offset + (off_t)filled);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -1;
        if (got == 0) break;
        filled += (size_t)got;
    }
    return (ssize_t)filled;
}

int clinux_same_contents(int one, int other, int64_t offset, int64_t length) {
    char *buffer = malloc(2 * COMPARED_BYTES);
    if (buffer == NULL) return -1;
    int result = 1;
    while (result == 1 && length > 0) {
        size_t count = length < COMPARED_BYTES ? (size_t)length : COMPARED_BYTES;
        ssize_t first = read_fully(one, buffer, count, offset);
        ssize_t second = read_fully(other, buffer + COMPARED_BYTES, count, offset);
        if (first < 0 || second < 0) result = -1;
        else if (first != (ssize_t)count || second != first || memcmp(buffer, buffer + COMPARED_BYTES, count) != 0)
            result = 0;
        offset += (int64_t)count;
        length -= (int64_t)count;
    }
    int error = errno;
    free(buffer);
    errno = error;
    return result;
}

ssize_t clinux_get_attribute(int descriptor, const char *name, void *value, size_t size) {
    char source[PROC_NAME_BYTES];
    proc_name(source, descriptor);
    return getxattr(source, name, value, size);
}

int clinux_reopen_for_reading(int descriptor) {
    char source[PROC_NAME_BYTES];
    proc_name(source, descriptor);
    return open(source, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

int clinux_lock_at_once(int descriptor) { return flock(descriptor, LOCK_EX | LOCK_NB); }
int clinux_lock(int descriptor) { return flock(descriptor, LOCK_EX); }
int clinux_unlock(int descriptor) { return flock(descriptor, LOCK_UN); }
