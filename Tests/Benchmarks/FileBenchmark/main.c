// SPDX-License-Identifier: Apache-2.0
// FileBenchmark WORKLOAD ARGUMENT…: one workload, timed inside. Prints nanoseconds per operation.
//
//     make-tree DIRECTORY DIRECTORIES FILES SIZE       names.c; prints nothing
//     read-warm FILE PASSES                            data.c; a mebibyte is an operation
//     read-cold FILE <FILE-BELOW                       data.c
//     write FILE                                       data.c
//     open ROOT DIRECTORIES FILES SIZE PASSES          names.c
//     stat-warm ROOT DIRECTORIES FILES PASSES          names.c
//     stat-fresh ROOT DIRECTORIES FILES                names.c
//     readdir ROOT DIRECTORY FILES PASSES              names.c
//     readdir-small ROOT DIRECTORIES FILES PASSES      names.c
//     create ROOT DIRECTORY FILES                      renaming.c
//     rename ROOT DIRECTORY FILES GENERATION           renaming.c
//     unlink ROOT DIRECTORY FILES                      renaming.c
//     run ROOT PASSES PROGRAM WORD…                    programs.c
//     presenter ROOT NAME OTHER-NAME ROUNDS            presenting.c; prints three figures
//
// A ROOT becomes the working directory, so that the way to it is not measured.
#define _GNU_SOURCE
#include "measure.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int number(const char *word) {
    char *end;
    long value = strtol(word, &end, 10);
    if (*end != 0 || value < 1 || value > 1000 * 1000) complain(word, "is not a number from 1 to 1000000");
    return (int)value;
}

static const char *command;
static int words_count;

static bool is_called(const char *name, int count) {
    return strcmp(command, name) == 0 && words_count == count;
}

static bool run_on_data(char **words) {
    if (is_called("make-tree", 4)) {
        make_tree(words[0], number(words[1]), number(words[2]), number(words[3]));
    } else if (is_called("read-warm", 2)) {
        read_file(words[0], number(words[1]));
    } else if (is_called("read-cold", 1)) {
        read_cold(words[0]);
    } else if (is_called("write", 1)) {
        write_file(words[0]);
    } else {
        return false;
    }
    return true;
}

static void enter(const char *root) {
    if (chdir(root) != 0) fail("cannot enter", root);
}

static bool run_on_root(char **words) {
    if (is_called("open", 5)) {
        enter(words[0]);
        open_files(number(words[1]), number(words[2]), number(words[3]), number(words[4]));
    } else if (is_called("stat-warm", 4)) {
        enter(words[0]);
        stat_files(number(words[1]), number(words[2]), number(words[3]), true);
    } else if (is_called("stat-fresh", 3)) {
        enter(words[0]);
        stat_files(number(words[1]), number(words[2]), 1, false);
    } else if (is_called("readdir", 4)) {
        enter(words[0]);
        read_directory(words[1], number(words[2]), number(words[3]));
    } else if (is_called("readdir-small", 4)) {
        enter(words[0]);
        read_directories(number(words[1]), number(words[2]), number(words[3]));
    } else if (is_called("create", 3)) {
        enter(words[0]);
        create_files(words[1], number(words[2]));
    } else if (is_called("rename", 4)) {
        enter(words[0]);
        rename_files(words[1], number(words[2]), number(words[3]));
    } else if (is_called("unlink", 3)) {
        enter(words[0]);
        unlink_files(words[1], number(words[2]));
    } else if (is_called("presenter", 4)) {
        enter(words[0]);
        open_presented(words[0], words[1], words[2], number(words[3]));
    } else if (strcmp(command, "run") == 0 && words_count > 2) {
        enter(words[0]);
        run_program(number(words[1]), words + 2);
    } else {
        return false;
    }
    return true;
}

int main(int argc, char **argv) {
    if (argc < 2) complain("name a workload", "");
    command = argv[1];
    words_count = argc - 2;
    if (!run_on_data(argv + 2) && !run_on_root(argv + 2)) {
        complain(command, "is no workload with these arguments");
    }
    return fflush(stdout) == 0 ? 0 : 1;
}
