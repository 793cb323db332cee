// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stddef.h>

// Puts a directory and all that is in it into a new zip archive. In the archive, all names begin with the directory's own name.
// Symbolic links stay links. Returns 0, or -1 and a sentence in `why`. It is in C because libarchive has many functions, and
// only this one is needed.
int carchive_zip(const char *directory, const char *archive, char *why, size_t size);
