// SPDX-License-Identifier: Apache-2.0
#ifndef CLINUX_STORE_H
#define CLINUX_STORE_H
// Functions for the version store that Swift cannot call. Each comment gives the reason.
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// Calls openat2(2), for which glibc has no function. The name must be beneath the directory, and must not lead through a link
// of any kind.
int clinux_open_beneath(int directory, const char *name, int flags, uint32_t mode);
// Makes `to` share all blocks of `from`. Swift cannot use FICLONE, because it is a macro with arguments.
int clinux_reflink(int from, int to);
// Calls copy_file_range(2), which needs _GNU_SOURCE. Copies bytes from the position of `from` to the position of `to`.
ssize_t clinux_copy_file_range(int from, int to, size_t length);
// Whether two files have the same contents in the range of `length` bytes from `offset` on. Returns 1 if they do, 0 if not, or
// -1 for an error. It is in C because memcmp(3) is fast in every build.
int clinux_same_contents(int one, int other, int64_t offset, int64_t length);
// Reads an extended attribute by getxattr(2), which Swift's Glibc module lacks. fgetxattr(2) does not accept an O_PATH
// descriptor.
ssize_t clinux_get_attribute(int descriptor, const char *name, void *value, size_t size);
// Opens the file of a descriptor for reading, as another descriptor.
int clinux_reopen_for_reading(int descriptor);
// Takes the exclusive lock by flock(2) if it is free, without waiting. Swift cannot call flock(2), because a structure has the
// same name.
int clinux_lock_at_once(int descriptor);
// Takes the exclusive lock by flock(2), and waits for the lock if necessary.
int clinux_lock(int descriptor);
int clinux_unlock(int descriptor);
#endif
