// SPDX-License-Identifier: Apache-2.0
#include "CMutant.h"
#include <stdio.h>
#include <stdlib.h>

bool mutant_lives[MOST_MUTANTS];
bool *mutant_reached = NULL;

static bool reached[MOST_MUTANTS];

// Reads the environment variable MUTANT, which is a number, or several numbers separated by commas.
__attribute__((constructor)) static void read_environment(void)
{
    const char *text = getenv("MUTANT");
    while (text != NULL && *text != '\0') {
        char *end;
        long number = strtol(text, &end, 10);
        if (end == text) break;
        if (number > 0 && number < MOST_MUTANTS) mutant_lives[number] = true;
        text = *end == ',' ? end + 1 : end;
    }
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
