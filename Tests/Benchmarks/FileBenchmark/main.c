// SPDX-License-Identifier: Apache-2.0
// FileBenchmark WORKLOAD ROOT ARGUMENT…: runs one workload and measures its time. Prints how many nanoseconds one operation
// takes.
//
// ROOT becomes the working directory, so that the measured time contains no look-up of the path of ROOT.
#define _GNU_SOURCE
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char **words;

static int number(int index) {
    char *end;
    long value = strtol(words[index], &end, 10);
    if (*end != 0 || value < 0 || value > 1000 * 1000) complain(words[index], "is not a number from 0 to 1000000");
    return (int)value;
}

// Workloads in data.c. One operation is a mebibyte, or one place in the file.
static void do_read_warm(void) { read_file(words[0], number(1)); }
static void do_read_cold(void) { read_cold(words[0]); }
static void do_read_mapped(void) { read_mapped(words[0], number(1)); }
static void do_read_places(void) { read_places(words[0], number(1)); }
static void do_write(void) { write_file(words[0], 1); }
static void do_overwrite(void) { write_file(words[0], 0); }
static void do_write_new(void) { write_new(words[0], number(1)); }
static void do_write_places(void) { write_places(words[0], number(1)); }
// Workloads in names.c. One operation handles one file or one name.
static void do_make_tree(void) { make_tree(words[0], number(1), number(2), number(3)); }
static void do_open(void) { open_files(number(0), number(1), number(2), number(3)); }
static void do_open_one(void) { open_one(words[0], number(1)); }
static void do_stat_warm(void) { stat_files(number(0), number(1), number(2), 1); }
static void do_stat_fresh(void) { stat_files(number(0), number(1), 1, 0); }
static void do_readdir(void) { read_directory(words[0], number(1), number(2)); }
static void do_readdir_small(void) { read_directories(number(0), number(1), number(2)); }
static void do_list(void) { list_directories(number(0), number(1)); }
// Workloads in renaming.c.
static void do_create(void) { create_files(words[0], number(1), number(2)); }
static void do_rename(void) { rename_files(words[0], number(1), number(2)); }
static void do_unlink(void) { unlink_files(words[0], number(1)); }
// Workloads in programs.c.
static void do_run(void) { run_program(number(0), words + 1); }
static void do_once(void) { run_program_once(words[0], words + 1); }
// Workloads in presenting.c, crowd.c and handing.c. The workload in presenting.c prints three figures, and that in crowd.c
// prints none.
static void do_presenter(void) { open_presented(words[0], words[1], number(2)); }
static void do_crowd(void) { present_crowd(number(0), number(1)); }
static void do_parked(void) { release_parked(words[0], number(1)); }
static void do_hand_over(void) { hand_over(words[0], number(1), number(2)); }

enum { AT_LEAST = 100 };

static const struct {
    const char *name, *arguments;
    int count;
    void (*run)(void);
} workloads[] = {
    {"read-warm", "FILE PASSES", 2, do_read_warm},
    {"read-cold", "FILE <FILE-BELOW", 1, do_read_cold},
    {"read-mapped", "FILE PASSES", 2, do_read_mapped},
    {"read-places", "FILE COUNT", 2, do_read_places},
    {"write", "FILE", 1, do_write},
    {"overwrite", "FILE", 1, do_overwrite},
    {"write-new", "FILE MEBIBYTES", 2, do_write_new},
    {"write-places", "FILE COUNT", 2, do_write_places},
    {"make-tree", "DIRECTORY DIRECTORIES FILES SIZE", 4, do_make_tree},
    {"open", "DIRECTORIES FILES SIZE THREADS", 4, do_open},
    {"open-one", "FILE COUNT", 2, do_open_one},
    {"stat-warm", "DIRECTORIES FILES PASSES", 3, do_stat_warm},
    {"stat-fresh", "DIRECTORIES FILES", 2, do_stat_fresh},
    {"readdir", "DIRECTORY FILES PASSES", 3, do_readdir},
    {"readdir-small", "DIRECTORIES FILES PASSES", 3, do_readdir_small},
    {"list", "DIRECTORIES FILES", 2, do_list},
    {"create", "DIRECTORY FILES SIZE", 3, do_create},
    {"rename", "DIRECTORY FILES GENERATION", 3, do_rename},
    {"unlink", "DIRECTORY FILES", 2, do_unlink},
    {"run", "PASSES PROGRAM WORD…", AT_LEAST + 2, do_run},
    {"once", "DIRECTORY PROGRAM WORD…", AT_LEAST + 2, do_once},
    {"presenter", "NAME OTHER-NAME ROUNDS", 3, do_presenter},
    {"crowd", "DIRECTORIES FILES <UNTIL-ITS-END", 2, do_crowd},
    {"parked", "FILE COUNT <WHEN-TO-LET-GO", 2, do_parked},
    {"hand-over", "FILE ROUNDS LOCKS", 3, do_hand_over},
};

static void explain(void) {
    fprintf(stderr, "usage:\n");
    for (size_t i = 0; i < sizeof workloads / sizeof workloads[0]; i++) {
        fprintf(stderr, "  FileBenchmark %s ROOT %s\n", workloads[i].name, workloads[i].arguments);
    }
    exit(2);
}

int main(int argc, char **argv) {
    if (argc < 3) explain();
    words = argv + 3;
    int given = argc - 3;
    for (size_t i = 0; i < sizeof workloads / sizeof workloads[0]; i++) {
        int needed = workloads[i].count;
        int fits = needed > AT_LEAST ? given >= needed - AT_LEAST : given == needed;
        if (strcmp(argv[1], workloads[i].name) != 0 || !fits) continue;
        if (chdir(argv[2]) != 0) fail("cannot enter", argv[2]);
        workloads[i].run();
        return 0;
    }
    explain();
}
