// SPDX-License-Identifier: Apache-2.0
// The counters of the workers. The test reads the counters while the workers run.
#ifndef BOARD_H
#define BOARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// The columns of a worker's row. The first four columns have the same meaning for all workers.
enum {
    READY,       // 1 once the worker is at work
    ROUNDS,      // rounds that ended without an error
    FAILURES,    // steps that failed
    LAST_ERROR,  // errno of the last step that failed
    WINS,        // writers: rounds in which the writer's own handle read back exactly the bytes that it wrote
    GONE,        // writers: rounds in which the file had lost its name just before the close
    COMPLETE,    // readers: reads of a whole document
    TORN,        // readers: reads of anything else that is not empty
    EMPTY,       // readers: reads of an empty file
    MISSING,     // steps that failed with ENOENT
    STALE,       // steps that failed with ESTALE
    OPENED,      // opens that have returned
    COLUMNS = 16
};

// Adds one to a counter in the worker's own row.
void count(int column);
uint64_t counted(int column);
void note_failure(int error);

// Returns whether the worker must end: the test wants it to end, or the test itself has ended.
bool is_over(void);
// Returns whether readers count their results. The test makes readers count when all other workers have started.
bool is_counting(void);
// Waits until the worker must end. Every millisecond the function checks whether it must.
void wait_until_over(void);

// The commands of the worker. Each function returns the exit status.
int rewrite(const char *path, const char *form, int writer);
int read_documents(const char *path);
int look_up(const char *path);
int open_and_read(const char *path);
int list(const char *path, const char *name);
int hold(const char *habit, const char *path);
int park(const char *path, int number);
int map(const char *habit, const char *path);

#endif
