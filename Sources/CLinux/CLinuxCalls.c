// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "CLinux.h"
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static const long making_calls[] = {
#ifdef SYS_mkdir
    SYS_mkdir, SYS_mknod, SYS_symlink, SYS_link,
#endif
    SYS_mkdirat, SYS_mknodat, SYS_symlinkat, SYS_linkat, SYS_bind,
};

// The number of the call a thread waits in and its first three arguments, by proc(5); or -1.
static long call_of_thread(int32_t thread, unsigned long arguments[3]) {
    char text[256];
    snprintf(text, sizeof text, "/proc/%d/syscall", thread);
    int file = open(text, O_RDONLY | O_CLOEXEC);
    if (file < 0) return -1;
    long number = -1;
    // Who has just sent a request may not sleep yet, which is said to be running.
    for (int look = 0; look < 64 && number < 0; look++) {
        ssize_t size = pread(file, text, sizeof text - 1, 0);
        if (size <= 0) break;
        text[size] = 0;
        int found = sscanf(text, "%ld 0x%lx 0x%lx 0x%lx", &number, &arguments[0], &arguments[1], &arguments[2]);
        if (found >= 1) break;
        number = -1;
        sched_yield();
    }
    close(file);
    return number;
}

int clinux_makes_name(int32_t thread) {
    unsigned long arguments[3] = {0};
    long number = call_of_thread(thread, arguments);
    if (number < 0) return -1;
    for (size_t index = 0; index < sizeof making_calls / sizeof *making_calls; index++)
        if (making_calls[index] == number) return 1;
    return 0;
}

int clinux_may_create(int32_t thread) {
    unsigned long arguments[3] = {0};
    long number = call_of_thread(thread, arguments);
    switch (number) {
#ifdef SYS_open
    case SYS_open: return (arguments[1] & O_CREAT) != 0;
    case SYS_creat: return 1;
#endif
    case SYS_openat: return (arguments[2] & O_CREAT) != 0;
    // The flags of openat2(2) are in the caller's memory, and io_uring's calls are not the thread's own.
    case SYS_openat2: case SYS_io_uring_enter: return 1;
    default: return number < 0;
    }
}
