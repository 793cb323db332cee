// SPDX-License-Identifier: Apache-2.0
#include "CMutant.h"
#include <stdlib.h>

int mutant_alive = 0;
bool mutant_is_lax = false;

__attribute__((constructor)) static void read_environment(void)
{
    const char *number = getenv("MUTANT");
    if (number != NULL) mutant_alive = atoi(number);
    mutant_is_lax = getenv("MUTANT_LAX") != NULL;
}
