// SPDX-License-Identifier: Apache-2.0
#ifndef CLINUX_H
#define CLINUX_H
// Swift's Glibc module is compiled without _GNU_SOURCE, so O_PATH, renameat2(2) and friends are
// invisible to it. Only what is missing there is declared here.
#include "CLinuxCommand.h"
#include <stdint.h>

extern const int32_t CLINUX_O_PATH;
extern const uint32_t CLINUX_RENAME_NOREPLACE;
extern const uint32_t CLINUX_RENAME_EXCHANGE;
int clinux_renameat2(int old_directory, const char *old_name, int new_directory, const char *new_name, uint32_t flags);
#endif
