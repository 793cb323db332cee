// SPDX-License-Identifier: Apache-2.0
// The numbers a worker counts and the test looks at while it runs.
#ifndef BOARD_H
#define BOARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// Columns of a worker's row. The first four mean the same for all.
enum {
    READY,       // 1 once it does what it was started for
    ROUNDS,      // completed without an error
    FAILURES,    // steps that failed
    LAST_ERROR,  // errno of the last one
    WINS,        // writers: rounds after which the own handle read back what it wrote, and nothing else
    GONE,        // writers: rounds whose file was no longer at its name when they closed it
    COMPLETE,    // readers: whole documents
    TORN,        // readers: anything else that is not empty
    EMPTY,       // readers: no byte
    MISSING,     // ENOENT
    STALE,       // ESTALE
    OPENED,      // opens that returned
    COLUMNS = 16
};

// Counts one more in the worker's own row.
void count(int column);
uint64_t counted(int column);
void note_failure(int error);

// Whether the test wants it to end; also true once the test is gone.
bool is_over(void);
// Whether readers count what they see: once all others are at work.
bool is_counting(void);
// Looks every millisecond, until the test wants it to end.
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
