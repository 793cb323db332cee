// SPDX-License-Identifier: Apache-2.0
// Shared parts of DataWorker's commands.
#ifndef SHARED_H
#define SHARED_H

#include <stdint.h>
#include <sys/types.h>

// Memory that all processes of the command see.
void *shared_memory(size_t size);

// Starts a process that runs the body and ends with its result. Returns in the caller only.
void start(int (*body)(int), int number);

// Waits for all processes that were started. Returns whether any of them failed.
int any_failed(void);

// Prints the failed call with its errno, and ends the process.
void fail(const char *what) __attribute__((noreturn));

double seconds(void);
uint64_t random_number(uint64_t *state);

// The commands: each returns the exit status.
int ring(const char *path, int count, char **words);
int mixed(const char *path, int count, char **words);

#endif
