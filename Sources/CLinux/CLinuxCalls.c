// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "CLinux.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/ioprio.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const long making_calls[] = {
#ifdef SYS_mkdir
    SYS_mkdir, SYS_mknod, SYS_symlink, SYS_link,
#endif
    SYS_mkdirat, SYS_mknodat, SYS_symlinkat, SYS_linkat, SYS_bind,
};

enum { UNKNOWN_CALL = -1, CALL_NOT_SEEN_YET = -2 };

// Returns the number of the system call in which a thread waits, and the call's first four arguments, by proc(5). Returns
// UNKNOWN_CALL if the daemon may not see the call. Returns CALL_NOT_SEEN_YET if the thread does not sleep yet.
static long call_of_thread(int32_t thread, unsigned long arguments[4]) {
    char text[256];
    snprintf(text, sizeof text, "/proc/%d/syscall", thread);
    int file = open(text, O_RDONLY | O_CLOEXEC);
    if (file < 0) return UNKNOWN_CALL;
    long number = CALL_NOT_SEEN_YET;
    // A thread that has just sent a request may still be running. Then `syscall` in /proc shows no system call of the thread
    // yet, so that file is read several times.
    for (int look = 0; look < 64 && number < 0; look++) {
        ssize_t size = pread(file, text, sizeof text - 1, 0);
        if (size <= 0) {
            number = UNKNOWN_CALL;
            break;
        }
        text[size] = 0;
        int found = sscanf(
            text, "%ld 0x%lx 0x%lx 0x%lx 0x%lx", &number, &arguments[0], &arguments[1], &arguments[2], &arguments[3]);
        if (found >= 1) break;
        number = CALL_NOT_SEEN_YET;
        sched_yield();
    }
    close(file);
    return number;
}

int clinux_makes_name(int32_t thread) {
    unsigned long arguments[4] = {0};
    long number = call_of_thread(thread, arguments);
    if (number < 0) return -1;
    for (size_t index = 0; index < sizeof making_calls / sizeof *making_calls; index++)
        if (making_calls[index] == number) return 1;
    return 0;
}

// System calls that look names up and create no file. The numbers are those of 64-bit programs. In a 32-bit program, these
// numbers belong to other system calls, but to none that creates files.
static const long looking_calls[] = {
#ifdef SYS_stat
    SYS_stat, SYS_lstat, SYS_access, SYS_readlink, SYS_unlink, SYS_rmdir, SYS_rename, SYS_chmod, SYS_chown, SYS_lchown,
#endif
    SYS_newfstatat, SYS_statx, SYS_faccessat, SYS_faccessat2, SYS_readlinkat, SYS_unlinkat, SYS_renameat2, SYS_fchmodat,
    SYS_fchownat, SYS_utimensat, SYS_truncate, SYS_execve, SYS_execveat, SYS_chdir, SYS_getxattr, SYS_lgetxattr,
};

int clinux_may_create(int32_t thread) {
    unsigned long arguments[4] = {0};
    long number = call_of_thread(thread, arguments);
#ifdef SYS_open
    if (number == SYS_open) return (arguments[1] & O_CREAT) != 0;
#endif
    if (number == SYS_openat) return (arguments[2] & O_CREAT) != 0;
    for (size_t index = 0; index < sizeof looking_calls / sizeof *looking_calls; index++)
        if (looking_calls[index] == number) return 0;
    return 1;
}

int clinux_has_lowest_priority(int32_t process) {
    if (process <= 0) return 0;
    // -1 is also a valid nice value, so only `errno` shows an error.
    errno = 0;
    int nice = getpriority(PRIO_PROCESS, (id_t)process);
    if (errno == 0 && nice >= 19) return 1;
    int policy = sched_getscheduler(process);
    if (policy >= 0 && (policy & ~SCHED_RESET_ON_FORK) == SCHED_IDLE) return 1;
    long priority = syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, process);
    return priority >= 0 && IOPRIO_PRIO_CLASS((unsigned long)priority) == IOPRIO_CLASS_IDLE;
}

// The attributes of a file that change when a program saves the file.
#define SAVED_ATTRIBUTES (STATX_SIZE | STATX_BLOCKS | STATX_MTIME | STATX_CTIME)

// The numbers are those of 64-bit programs. In a 32-bit program, these numbers belong to other system calls. Of those, only
// write(2) can make the kernel ask for a regular file's attributes. The kernel's request for write(2) contains a handle, and a
// request for a stat of a path contains none. So the two are not confused.
int clinux_looks_by_path(int32_t thread) {
    unsigned long arguments[4] = {0};
    long number = call_of_thread(thread, arguments);
    if (number == CALL_NOT_SEEN_YET) return -1;
#ifdef SYS_stat
    if (number == SYS_stat || number == SYS_lstat) return 1;
#endif
    if (number == SYS_newfstatat) return (arguments[3] & AT_EMPTY_PATH) == 0;
    if (number == SYS_statx)
        return (arguments[2] & AT_EMPTY_PATH) == 0 && (arguments[3] & SAVED_ATTRIBUTES) != 0;
    return 0;
}
