// SPDX-License-Identifier: Apache-2.0
// Functions that tests need from C. The Glibc module does not show them to Swift, because it is built without _GNU_SOURCE.
#ifndef CTESTSUPPORT_H
#define CTESTSUPPORT_H

#include <spawn.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/xattr.h>

int ctest_spawn_at(posix_spawn_file_actions_t *actions, const char *directory);
int ctest_spawn_close_from(posix_spawn_file_actions_t *actions, int first);
// Returns how many bytes of the heap the whole process uses.
size_t ctest_heap_in_use(void);
// Binds the calling thread to a single processor. Returns 0, or -1 with errno.
int ctest_bind_to_one_processor(void);
// Makes the sockets that the calling thread connects from now on appear as sockets of `user`. The thread still opens files as
// before. Only root may do this. Returns 0, or -1 with errno.
int ctest_appear_as(uid_t user);

#endif
