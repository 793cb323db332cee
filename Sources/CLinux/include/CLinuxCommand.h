// SPDX-License-Identifier: Apache-2.0
#ifndef CLINUXCOMMAND_H
#define CLINUXCOMMAND_H
// Functions for the command and for the start of the daemon. Swift cannot call the system's functions directly; each comment
// gives the reason.
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// The same as struct ucred, which needs _GNU_SOURCE.
struct clinux_credentials {
    int32_t pid;
    uint32_t user, group;
};
extern const int32_t CLINUX_SO_PEERCRED;
// Calls accept4(2) with SOCK_CLOEXEC, which needs _GNU_SOURCE.
int clinux_accept(int listener);
int clinux_peer_credentials(int socket, struct clinux_credentials *credentials);
// Returns a pidfd of the process at the other end of the socket, or -1. Uses SO_PEERPIDFD, which came with Linux 6.5 and is
// missing in older headers.
int clinux_peer_pidfd(int socket);

// Creates an epoll descriptor. <sys/epoll.h> is not in Swift's Glibc module. Each descriptor that is added is reported as
// readable only once.
int clinux_epoll(void);
int clinux_epoll_add(int epoll, int descriptor, uint64_t number);
int clinux_epoll_remove(int epoll, int descriptor);
int clinux_epoll_wait(int epoll, uint64_t *number);   // returns 1 and a descriptor's number if a descriptor is readable

// Calls pipe2(2) with O_CLOEXEC, which needs _GNU_SOURCE.
int clinux_pipe(int32_t ends[2]);

// The value of POSIX_SPAWN_SETSID, which needs _GNU_SOURCE.
extern const int16_t CLINUX_POSIX_SPAWN_SETSID;

// Calls openlog(3); syslog(3) takes variable arguments, which Swift cannot pass. The name must exist as long as the process,
// because openlog(3) stores the pointer to the name.
void clinux_open_log(const char *name);
void clinux_log(int error, const char *line);

// Calls makedev(3), which is a macro.
uint64_t clinux_device(uint32_t major_number, uint32_t minor_number);
// Determines the device of the file at a path, if the kernel knows it without asking the server of the file system.
int clinux_device_at_hand(const char *path, uint64_t *device);
// Calls setns(2), which needs _GNU_SOURCE.
int clinux_enter_mount_namespace(int descriptor);

// `clinux_signal_descriptor` calls signalfd(2), which Swift's Glibc module lacks. `set` is a sigset_t. The function after it
// reads a signal, and returns 0 if there is none.
int clinux_signal_descriptor(const void *set);
int clinux_next_signal(int descriptor);

// Calls posix_spawn_file_actions_addclosefrom_np(3), which needs _GNU_SOURCE. `actions` is a posix_spawn_file_actions_t.
int clinux_spawn_close_from(void *actions, int first);
#endif
