// SPDX-License-Identifier: Apache-2.0
#ifndef CLINUX_STORE_H
#define CLINUX_STORE_H
// Functions for the version store that Swift cannot call: each line gives the reason.
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// openat2(2) has no glibc wrapper. Resolves beneath the directory and through no link of any kind.
int clinux_open_beneath(int directory, const char *name, int flags, uint32_t mode);
// FICLONE is a function-like macro. Makes `to` share all of `from`'s blocks.
int clinux_reflink(int from, int to);
// copy_file_range(2) hides behind _GNU_SOURCE. Copies from both files' positions.
ssize_t clinux_copy_file_range(int from, int to, size_t length);
// Whether two files have the same contents from an offset on, for a length: 1, 0, or -1 for an error. In C, since memcmp(3) is
// quick in any build.
int clinux_same_contents(int one, int other, int64_t offset, int64_t length);
// getxattr(2) is in a header that Glibc's module leaves out; an O_PATH descriptor has no fgetxattr(2).
ssize_t clinux_get_attribute(int descriptor, const char *name, void *value, size_t size);
// open(2) of the descriptor's file again, for reading.
int clinux_reopen_for_reading(int descriptor);
// flock(2) shares its name with a struct. Takes the exclusive lock if it is free.
int clinux_lock_at_once(int descriptor);
// The same, but waits for the lock.
int clinux_lock(int descriptor);
int clinux_unlock(int descriptor);
#endif
