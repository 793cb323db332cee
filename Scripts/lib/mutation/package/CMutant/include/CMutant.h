// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdbool.h>

// Set once, before main, from MUTANT and MUTANT_LAX.
extern int mutant_alive;
extern bool mutant_is_lax;

static inline bool mutant_is_alive(int number) { return __builtin_expect(mutant_alive == number, 0); }
static inline bool mutant_meets_assertions(void) { return !mutant_is_lax; }
