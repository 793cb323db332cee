// SPDX-License-Identifier: Apache-2.0
// Functions that every workload needs: a clock, the report of a figure, and the end after an error.
#ifndef MEASURE_H
#define MEASURE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// Returns the time in nanoseconds on CLOCK_MONOTONIC.
uint64_t now(void);

// Prints the nanoseconds for an operation, on a line of its own.
void report(uint64_t nanoseconds, uint64_t operations);

// These functions print a sentence and end the program, because a workload that failed has nothing to report.
_Noreturn void fail(const char *what, const char *name);        // adds the text for errno
_Noreturn void complain(const char *what, const char *detail);  // adds no text for errno

void *allocate(size_t size);

// Starts a child that ends when this process ends. Returns 0 in the child.
pid_t start_child(void);
// Waits until a child ends. If the child failed, this process fails too.
void finish_child(pid_t child);

// Workloads in data.c.
void read_file(const char *path, int passes);
void read_cold(const char *path);
void read_places(const char *path, int count);
void read_mapped(const char *path, int passes);
void write_file(const char *path, int syncs);
void write_new(const char *path, int mebibytes);
void write_places(const char *path, int count);

// Workloads in names.c.
void make_tree(const char *directory, int directories, int files, int size);
void open_files(int directories, int files, int size, int threads);
void open_one(const char *name, int count);
void stat_files(int directories, int files, int passes, int is_warm);
void read_directory(const char *name, int files, int passes);
void read_directories(int directories, int files, int passes);
void list_directories(int directories, int files);

// Workloads in renaming.c.
void create_files(const char *directory, int files, int size);
void rename_files(const char *directory, int files, int generation);
void unlink_files(const char *directory, int files);

// Workloads in programs.c.
void run_program(int passes, char **words);
void run_program_once(const char *directory, char **words);

// Workloads in presenting.c.
void open_presented(const char *name, const char *elsewhere, int rounds);

// Workloads in crowd.c.
void present_crowd(int directories, int files);

// Workloads in handing.c.
void hand_over(const char *name, int rounds, int locks);
void release_parked(const char *name, int count);

#endif
