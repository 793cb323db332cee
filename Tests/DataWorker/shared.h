// SPDX-License-Identifier: Apache-2.0
// Functions that several commands of DataWorker use.
#ifndef SHARED_H
#define SHARED_H

#include <stdint.h>
#include <sys/types.h>

// Returns memory that this process shares with all processes that it starts.
void *shared_memory(size_t size);

// Starts a process that runs the body, and exits with the body's result. In the new process this function does not return.
void start(int (*body)(int), int number);

// Waits for all processes that `start` has started. Returns whether any of them failed.
int any_failed(void);

// Prints the name of a failed call with its errno, and ends the process.
void fail(const char *what) __attribute__((noreturn));

double seconds(void);
uint64_t random_number(uint64_t *state);

// The commands of DataWorker. Each function returns the exit status.
int ring(const char *path, int count, char **words);
int mixed(const char *path, int count, char **words);

#endif
