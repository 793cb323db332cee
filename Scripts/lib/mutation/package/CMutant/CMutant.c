// SPDX-License-Identifier: Apache-2.0
#include "CMutant.h"
#include <stdio.h>
#include <stdlib.h>

int mutant_alive = 0;
bool mutant_is_lax = false;
unsigned char *mutant_reached = NULL;

static unsigned char reached[MOST_MUTANTS];

__attribute__((constructor)) static void read_environment(void)
{
    const char *number = getenv("MUTANT");
    if (number != NULL) mutant_alive = atoi(number);
    mutant_is_lax = getenv("MUTANT_LAX") != NULL;
    if (getenv("MUTANT_REACHED") != NULL) mutant_reached = reached;
}

__attribute__((destructor)) static void write_reached(void)
{
    const char *path = getenv("MUTANT_REACHED");
    FILE *file = path == NULL ? NULL : fopen(path, "w");
    if (file == NULL) return;
    for (int number = 0; number < MOST_MUTANTS; number++)
        if (reached[number]) fprintf(file, "%d\n", number);
    fclose(file);
}
