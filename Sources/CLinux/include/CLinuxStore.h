// SPDX-License-Identifier: Apache-2.0
#ifndef CLINUX_STORE_H
#define CLINUX_STORE_H
// Functions for the version store that Swift cannot call. A comment gives the reason for each.
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// Calls openat2(2), for which glibc has no function. The name must be beneath the directory, and must lead through no link of
// any kind.
int clinux_open_beneath(int directory, const char *name, int flags, uint32_t mode);
// FICLONE is a macro with arguments. Makes `to` share all blocks of `from`.
int clinux_reflink(int from, int to);
// copy_file_range(2) needs _GNU_SOURCE. Copies from the position of one file to the position of the other.
ssize_t clinux_copy_file_range(int from, int to, size_t length);
// Whether two files have the same contents in the range from `offset` on: 1, 0, or -1 for an error. It is in C because
// memcmp(3) is fast in every build.
int clinux_same_contents(int one, int other, int64_t offset, int64_t length);
// getxattr(2) is in a header that Swift's Glibc module leaves out. fgetxattr(2) does not accept an O_PATH descriptor.
ssize_t clinux_get_attribute(int descriptor, const char *name, void *value, size_t size);
// Opens the file of a descriptor once more, for reading.
int clinux_reopen_for_reading(int descriptor);
// flock(2) has the same name as a structure. Takes the exclusive lock if it is free, without waiting.
int clinux_lock_at_once(int descriptor);
// Takes the exclusive lock, and waits for it if necessary.
int clinux_lock(int descriptor);
int clinux_unlock(int descriptor);
#endif
