// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "CLinux.h"
#include <fcntl.h>
#include <stdio.h>

const int32_t CLINUX_O_PATH = O_PATH;
const uint32_t CLINUX_RENAME_NOREPLACE = RENAME_NOREPLACE;
const uint32_t CLINUX_RENAME_EXCHANGE = RENAME_EXCHANGE;

int clinux_renameat2(int od, const char *on, int nd, const char *nn, uint32_t flags) {
    return renameat2(od, on, nd, nn, flags);
}
