// SPDX-License-Identifier: Apache-2.0
// What the commands of DataWorker share.
#ifndef SHARED_H
#define SHARED_H

#include <stdint.h>
#include <sys/types.h>

// Memory that all processes of the command see.
void *shared_memory(size_t size);

// Starts a process that runs the body and ends with what it returns; returns nothing else to the caller.
void start(int (*body)(int), int number);

// Waits for all that were started. Returns whether one of them failed.
int any_failed(void);

// Tells what failed, by its errno, and ends the process.
void fail(const char *what) __attribute__((noreturn));

double seconds(void);
uint64_t random_number(uint64_t *state);

// The commands: each returns the exit status.
int ring(const char *path, int count, char **words);
int mixed(const char *path, int count, char **words);

#endif
