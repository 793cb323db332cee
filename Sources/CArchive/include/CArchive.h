// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stddef.h>

// Puts a directory and all that is in it into a new zip archive, below the directory's own name; symbolic links as links.
// In C, because libarchive's functions are many and this is the one that is needed. Returns 0, or -1 and one sentence in `why`.
int carchive_zip(const char *directory, const char *archive, char *why, size_t size);
