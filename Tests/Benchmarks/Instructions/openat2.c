// SPDX-License-Identifier: Apache-2.0
// Replaces openat2(2) by openat(2). Some versions of valgrind, such as that of Debian 12, do not know openat2(2). For names
// without hostile links, both calls have the same result. Only Scripts/bench-instructions preloads this library.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <sys/syscall.h>

static long enter(long number, const long words[6]) {
    register long fourth __asm__("r10") = words[3];
    register long fifth __asm__("r8") = words[4];
    register long sixth __asm__("r9") = words[5];
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(words[0]), "S"(words[1]), "d"(words[2]), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "rcx", "r11", "memory");
    if (result >= 0 || result < -4095) return result;
    errno = (int)-result;
    return -1;
}

// Takes the place of the function `syscall` of the C library.
long syscall(long number, ...) {
    long words[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) words[i] = va_arg(list, long);
    va_end(list);
    if (number != SYS_openat2) return enter(number, words);
    const struct open_how *how = (const struct open_how *)words[2];
    const long plain[6] = {words[0], words[1], (long)how->flags, (long)how->mode, 0, 0};
    return enter(SYS_openat, plain);
}
