// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stddef.h>

// Puts a directory and everything in it into a new zip archive. In the archive, all names begin with the directory's own name.
// Symbolic links are stored as links. Returns 0, or -1 and a sentence in `why`. The function is in C, so Swift need not import
// all of libarchive's functions.
int carchive_zip(const char *directory, const char *archive, char *why, size_t size);
