// SPDX-License-Identifier: Apache-2.0
// The numbers that a worker counts and the test reads while it runs.
#ifndef BOARD_H
#define BOARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// Columns of a worker's row. The first four mean the same for all.
enum {
    READY,       // 1 once it does its work
    ROUNDS,      // completed without an error
    FAILURES,    // steps that failed
    LAST_ERROR,  // errno of the last one
    WINS,        // writers: rounds after which the own handle read back the written bytes exactly
    GONE,        // writers: rounds after which the file was no longer at its name at the close
    COMPLETE,    // readers: whole documents
    TORN,        // readers: anything else that is not empty
    EMPTY,       // readers: no byte
    MISSING,     // ENOENT
    STALE,       // ESTALE
    OPENED,      // opens that returned
    COLUMNS = 16
};

// Adds one in the worker's own row.
void count(int column);
uint64_t counted(int column);
void note_failure(int error);

// Returns whether the test wants the worker to end; also true once the test is gone.
bool is_over(void);
// Returns whether readers count their results: once all others are at work.
bool is_counting(void);
// Polls every millisecond, until the test wants the worker to end.
void wait_until_over(void);

// The commands: each returns the exit status.
int rewrite(const char *path, const char *form, int writer);
int read_documents(const char *path);
int look_up(const char *path);
int open_and_read(const char *path);
int list(const char *path, const char *name);
int hold(const char *habit, const char *path);
int park(const char *path, int number);
int map(const char *habit, const char *path);

#endif
