// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "CLinuxCommand.h"
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <syslog.h>
#include <unistd.h>

const int32_t CLINUX_SO_PEERCRED = SO_PEERCRED;
const int16_t CLINUX_POSIX_SPAWN_SETSID = POSIX_SPAWN_SETSID;

_Static_assert(sizeof(struct clinux_credentials) == sizeof(struct ucred), "struct ucred");

int clinux_accept(int listener) { return accept4(listener, NULL, NULL, SOCK_CLOEXEC); }

int clinux_peer_credentials(int socket, struct clinux_credentials *credentials) {
    socklen_t size = sizeof *credentials;
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, credentials, &size);
}

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
int clinux_peer_pidfd(int socket) {
    int descriptor = -1;
    socklen_t size = sizeof descriptor;
    return getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &descriptor, &size) == 0 ? descriptor : -1;
}

int clinux_epoll(void) { return epoll_create1(EPOLL_CLOEXEC); }
int clinux_epoll_add(int epoll, int descriptor, uint64_t number) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.u64 = number};
    return epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event);
}
int clinux_epoll_remove(int epoll, int descriptor) {
    struct epoll_event unused = {0};
    return epoll_ctl(epoll, EPOLL_CTL_DEL, descriptor, &unused);
}
int clinux_epoll_wait(int epoll, uint64_t *number) {
    struct epoll_event event;
    int count = epoll_wait(epoll, &event, 1, -1);
    if (count == 1) *number = event.data.u64;
    return count;
}

int clinux_pipe(int32_t ends[2]) { return pipe2(ends, O_CLOEXEC); }

// LOG_NDELAY opens /dev/log now. After the mount, /dev/log might be below the mount.
void clinux_open_log(const char *name) { openlog(name, LOG_PID | LOG_NDELAY, LOG_DAEMON); }

void clinux_log(int error, const char *line) { syslog(error ? LOG_ERR : LOG_NOTICE, "%s", line); }

uint64_t clinux_device(uint32_t major_number, uint32_t minor_number) {
    return makedev(major_number, minor_number);
}

int clinux_device_at_hand(const char *path, uint64_t *device) {
    struct statx s;
    if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, 0, &s) != 0) return -1;
    *device = makedev(s.stx_dev_major, s.stx_dev_minor);
    return 0;
}

int clinux_enter_mount_namespace(int descriptor) { return setns(descriptor, CLONE_NEWNS); }

int clinux_signal_descriptor(const void *set) { return signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK); }

int clinux_next_signal(int descriptor) {
    struct signalfd_siginfo information;
    return read(descriptor, &information, sizeof information) == sizeof information ? (int)information.ssi_signo : 0;
}

int clinux_spawn_close_from(void *actions, int first) {
    return posix_spawn_file_actions_addclosefrom_np(actions, first);
}
