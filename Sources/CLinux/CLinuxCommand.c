// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "CLinuxCommand.h"
#include <fcntl.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <syslog.h>
#include <unistd.h>

const int32_t CLINUX_MNT_DETACH = MNT_DETACH;
const int32_t CLINUX_SO_PEERCRED = SO_PEERCRED;
const int16_t CLINUX_POSIX_SPAWN_SETSID = POSIX_SPAWN_SETSID;

_Static_assert(sizeof(struct clinux_credentials) == sizeof(struct ucred), "struct ucred");

int clinux_unmount(const char *path, int32_t flags) { return umount2(path, flags | UMOUNT_NOFOLLOW); }

ssize_t clinux_getxattr(const char *path, const char *name, void *value, size_t size) {
    return getxattr(path, name, value, size);
}

int clinux_peer_credentials(int socket, struct clinux_credentials *credentials) {
    socklen_t size = sizeof *credentials;
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, credentials, &size);
}

int clinux_pipe(int32_t ends[2]) { return pipe2(ends, O_CLOEXEC); }

int clinux_pidfd_open(pid_t pid) { return pidfd_open(pid, 0); }

// LOG_NDELAY: after the mount, /dev/log might lie below it.
void clinux_open_log(const char *name) { openlog(name, LOG_PID | LOG_NDELAY, LOG_DAEMON); }

void clinux_log(int error, const char *line) { syslog(error ? LOG_ERR : LOG_NOTICE, "%s", line); }

uint64_t clinux_device(uint32_t major_number, uint32_t minor_number) {
    return makedev(major_number, minor_number);
}
