// SPDX-License-Identifier: Apache-2.0
// Plants faults between the daemon and the C library, to show that the list of checks can fail. LD_PRELOAD loads this library.
// Each fault is a mistake that a mirror could make and that few programs would notice. FAULTS contains the names of the faults
// to plant, separated by commas. Without FAULTS, all faults are planted.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static bool is_wanted(const char *fault) {
    const char *wanted = getenv("FAULTS");
    size_t length = strlen(fault);
    for (const char *at = wanted; at; at = strchr(at, ',')) {
        if (*at == ',') at++;
        if (strncmp(at, fault, length) == 0 && (at[length] == ',' || at[length] == 0)) return true;
    }
    return !wanted;
}

#define REAL(name, ...) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))(__VA_ARGS__)

static int refuse(int error) {
    errno = error;
    return -1;
}

// `truce mount` starts its daemon with a small environment, without LD_PRELOAD. This function adds LD_PRELOAD again.
int posix_spawn(pid_t *restrict process, const char *restrict path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *restrict attributes, char *const arguments[restrict], char *const environment[restrict]) {
    static char kept[2][4096];
    char *more[64] = {0};
    size_t count = 0;
    for (; environment[count] && count < 60; count++) more[count] = environment[count];
    const char *names[] = {"LD_PRELOAD", "FAULTS"};
    for (int i = 0; i < 2; i++) {
        const char *value = getenv(names[i]);
        if (!value) continue;
        snprintf(kept[i], sizeof kept[i], "%s=%s", names[i], value);
        more[count++] = kept[i];
    }
    return REAL(posix_spawn, process, path, actions, attributes, arguments, more);
}

// Fault: times lose their fractions of a second, and each file has one link.
int statx(int directory, const char *restrict path, int flags, unsigned int mask, struct statx *restrict status) {
    int result = REAL(statx, directory, path, flags, mask, status);
    if (result != 0) return result;
    if (is_wanted("nanoseconds")) status->stx_mtime.tv_nsec = status->stx_atime.tv_nsec = 0;
    if (is_wanted("links") && S_ISREG(status->stx_mode) && status->stx_nlink > 1) status->stx_nlink = 1;
    if (is_wanted("blocks")) status->stx_blocks = (status->stx_size + 511) / 512;
    return result;
}

// Fault: a new file belongs to the daemon's user.
long syscall(long number, ...) {
    va_list list;
    va_start(list, number);
    long a[6];
    for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
    va_end(list);
    if (is_wanted("owner") && (number == SYS_setfsuid || number == SYS_setfsgid) && a[0] != -1) return 0;
    return REAL(syscall, number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

// Fault: a time that should not change becomes the present time, and a time before 1970 becomes 1970.
int utimensat(int directory, const char *path, const struct timespec times[2], int flags) {
    struct timespec wrong[2];
    for (int i = 0; i < 2; i++) {
        wrong[i] = times[i];
        if (is_wanted("omit") && wrong[i].tv_nsec == UTIME_OMIT) wrong[i].tv_nsec = UTIME_NOW;
        if (is_wanted("past") && wrong[i].tv_sec < 0) wrong[i].tv_sec = 0;
    }
    return REAL(utimensat, directory, path, wrong, flags);
}

// Fault: a new directory does not inherit the set-group-ID bit.
int mkdirat(int directory, const char *path, mode_t mode) {
    int result = REAL(mkdirat, directory, path, mode);
    struct stat status;
    if (result == 0 && is_wanted("setgid") && fstatat(directory, path, &status, 0) == 0 && status.st_mode & S_ISGID)
        fchmodat(directory, path, status.st_mode & 01777, 0);
    return result;
}

// Fault: pipes and sockets cannot be made.
int mknodat(int directory, const char *path, mode_t mode, dev_t device) {
    if (is_wanted("pipes") && (S_ISFIFO(mode) || S_ISSOCK(mode))) return refuse(EPERM);
    return REAL(mknodat, directory, path, mode, device);
}

// Fault: wrong errors, EEXIST instead of ENOTEMPTY, and EACCES instead of EROFS.
int unlinkat(int directory, const char *path, int flags) {
    int result = REAL(unlinkat, directory, path, flags);
    if (result != 0 && is_wanted("errors") && errno == ENOTEMPTY) errno = EEXIST;
    if (result != 0 && is_wanted("errors") && errno == EROFS) errno = EACCES;
    return result;
}

// Fault: the flags of a rename are ignored.
int renameat2(int from, const char *name, int to, const char *new_name, unsigned int flags) {
    return REAL(renameat2, from, name, to, new_name, is_wanted("rename") ? 0 : flags);
}

int linkat(int from, const char *name, int to, const char *new_name, int flags) {
    int result = REAL(linkat, from, name, to, new_name, flags);
    if (result != 0 && is_wanted("errors") && (errno == EMLINK || errno == EXDEV)) errno = EPERM;
    return result;
}

// Fault: a new and an existing attribute are treated alike, and a value that does not fit is no error.
int setxattr(const char *path, const char *name, const void *value, size_t size, int flags) {
    return REAL(setxattr, path, name, value, size, is_wanted("attributes") ? 0 : flags);
}

ssize_t getxattr(const char *path, const char *name, void *value, size_t size) {
    ssize_t result = REAL(getxattr, path, name, value, size);
    // The fault concerns only attributes with `user.` names. With faults in other attributes, which the kernel itself uses, the
    // kernel would forbid everything.
    bool is_users = strncmp(name, "user.", 5) == 0;
    if (result < 0 && is_wanted("attributes") && is_users && errno == ENODATA) return refuse(EOPNOTSUPP);
    return result;
}

// Fault: holes are neither made nor found.
int fallocate(int descriptor, int mode, off_t offset, off_t length) {
    if (is_wanted("holes") && mode & FALLOC_FL_PUNCH_HOLE) return refuse(EOPNOTSUPP);
    return REAL(fallocate, descriptor, mode, offset, length);
}

off_t lseek(int descriptor, off_t offset, int whence) {
    if (is_wanted("holes") && (whence == SEEK_DATA || whence == SEEK_HOLE)) return refuse(EINVAL);
    return REAL(lseek, descriptor, offset, whence);
}

ssize_t readlinkat(int directory, const char *restrict path, char *restrict buffer, size_t size) {
    return REAL(readlinkat, directory, path, buffer, is_wanted("targets") && size > 1000 ? 1000 : size);
}

// Fault: a change of the owner ignores the new group.
int fchownat(int directory, const char *path, uid_t user, gid_t group, int flags) {
    return REAL(fchownat, directory, path, user, is_wanted("group") ? (gid_t)-1 : group, flags);
}
