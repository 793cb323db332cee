// SPDX-License-Identifier: Apache-2.0
#ifndef CLINUXCOMMAND_H
#define CLINUXCOMMAND_H
// Functions for the command and the daemon's start that Swift's Glibc module does not show.
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// struct ucred needs _GNU_SOURCE.
struct clinux_credentials {
    int32_t pid;
    uint32_t user, group;
};
extern const int32_t CLINUX_SO_PEERCRED;
// accept4(2) with SOCK_CLOEXEC.
int clinux_accept(int listener);
int clinux_peer_credentials(int socket, struct clinux_credentials *credentials);
// SO_PEERPIDFD came with Linux 6.5, and with headers of that time.
int clinux_peer_pidfd(int socket);

// <sys/epoll.h> is not in Swift's Glibc module. A descriptor that is added becomes readable once.
int clinux_epoll(void);
int clinux_epoll_add(int epoll, int descriptor, uint64_t number);
int clinux_epoll_remove(int epoll, int descriptor);
int clinux_epoll_wait(int epoll, uint64_t *number);                  // 1 if one is readable

// pipe2(2) needs _GNU_SOURCE.
int clinux_pipe(int32_t ends[2]);

// POSIX_SPAWN_SETSID needs _GNU_SOURCE.
extern const int16_t CLINUX_POSIX_SPAWN_SETSID;

// syslog(3) is variadic. The name must live as long as the process: openlog keeps the pointer.
void clinux_open_log(const char *name);
void clinux_log(int error, const char *line);

// makedev(3) is a macro.
uint64_t clinux_device(uint32_t major_number, uint32_t minor_number);
// The device of a path's file, as far as the kernel knows it without asking the file system's server.
int clinux_device_at_hand(const char *path, uint64_t *device);
// setns(2) needs _GNU_SOURCE.
int clinux_enter_mount_namespace(int descriptor);

// signalfd(2) is in a header that Glibc's module leaves out; `set` is a sigset_t. The next signal is 0 if there is
// none.
int clinux_signal_descriptor(const void *set);
int clinux_next_signal(int descriptor);

// posix_spawn_file_actions_addclosefrom_np(3) hides behind _GNU_SOURCE; `actions` is a posix_spawn_file_actions_t.
int clinux_spawn_close_from(void *actions, int first);
#endif
