// SPDX-License-Identifier: Apache-2.0
// Functions of C that tests need and that the Glibc module does not offer, because it is built without _GNU_SOURCE.
#ifndef CTESTSUPPORT_H
#define CTESTSUPPORT_H

#include <spawn.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/xattr.h>

int ctest_spawn_at(posix_spawn_file_actions_t *actions, const char *directory);
int ctest_spawn_close_from(posix_spawn_file_actions_t *actions, int first);
// Returns how many bytes on the heap the whole process uses now.
size_t ctest_heap_in_use(void);
// Binds the calling thread to a single processor. Returns 0, or -1 with errno.
int ctest_bind_to_one_processor(void);
// From now on, sockets that the calling thread connects appear to the other end as sockets of `user`. The thread still opens
// files with its own rights. Only root may call this function. Returns 0, or -1 with errno.
int ctest_appear_as(uid_t user);

#endif
