// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define MOST_MUTANTS 65536

// Whether each mutant is alive. It is set once, before main, from MUTANT and MUTANT_REACHED.
extern bool mutant_lives[MOST_MUTANTS];
// If MUTANT_REACHED is set, records for each mutant whether a test has reached it.
extern bool *mutant_reached;

// Returns whether a mutant is alive. Callers call it only where the mutant makes a difference, so that it counts as reached
// only there.
static inline bool mutant_is_alive(int number)
{
    if (__builtin_expect(mutant_reached != NULL, 0)) mutant_reached[number % MOST_MUTANTS] = true;
    return __builtin_expect(mutant_lives[number % MOST_MUTANTS], 0);
}
