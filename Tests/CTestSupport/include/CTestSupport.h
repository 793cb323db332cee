// SPDX-License-Identifier: Apache-2.0
// Functions that the Glibc module does not show to Swift, because it is built without _GNU_SOURCE.
#ifndef CTESTSUPPORT_H
#define CTESTSUPPORT_H

#include <spawn.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/xattr.h>

int ctest_spawn_at(posix_spawn_file_actions_t *actions, const char *directory);
int ctest_spawn_close_from(posix_spawn_file_actions_t *actions, int first);
// In bytes, of the whole process.
size_t ctest_heap_in_use(void);
// Binds the calling thread to a single processor from now on. Returns 0, or -1 with errno.
int ctest_bind_to_one_processor(void);
// Makes sockets that the calling thread connects appear as a user's, while files are opened as before; root may. Returns
// 0, or -1 with errno.
int ctest_appear_as(uid_t user);

#endif
