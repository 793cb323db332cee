// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "CLinuxStore.h"
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

// Long enough for "/proc/self/fd/" and any int.
enum { PROC_NAME_BYTES = 32 };

static void proc_name(char name[PROC_NAME_BYTES], int descriptor) {
    snprintf(name, PROC_NAME_BYTES, "/proc/self/fd/%d", descriptor);
}

int clinux_open_beneath(int directory, const char *name, int flags, uint32_t mode) {
    // The kernel refuses a mode without O_CREAT.
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
