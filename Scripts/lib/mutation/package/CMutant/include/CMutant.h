// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define MOST_MUTANTS 65536

// Set once, before main, from MUTANT and MUTANT_REACHED.
extern bool mutant_lives[MOST_MUTANTS];
// Records each mutant that was reached, if requested.
extern bool *mutant_reached;

// Called only where it makes a difference, so that an unreached mutant changes nothing.
static inline bool mutant_is_alive(int number)
{
    if (__builtin_expect(mutant_reached != NULL, 0)) mutant_reached[number % MOST_MUTANTS] = true;
    return __builtin_expect(mutant_lives[number % MOST_MUTANTS], 0);
}
