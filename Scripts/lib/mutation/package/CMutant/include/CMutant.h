// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define MOST_MUTANTS 65536

// For each mutant number, whether the mutant is alive. The values are set before main, from the variable MUTANT.
extern bool mutant_lives[MOST_MUTANTS];
// For each mutant number, whether a test has reached the mutant. Null unless the variable MUTANT_REACHED is set.
extern bool *mutant_reached;

// Returns whether a mutant is alive. It is called only if the mutant would change the result here, so that the mutant counts as
// reached only in this case.
static inline bool mutant_is_alive(int number)
{
    if (__builtin_expect(mutant_reached != NULL, 0)) mutant_reached[number % MOST_MUTANTS] = true;
    return __builtin_expect(mutant_lives[number % MOST_MUTANTS], 0);
}
