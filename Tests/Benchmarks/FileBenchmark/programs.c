// SPDX-License-Identifier: Apache-2.0
// Measures whole programs, from their start to their end.
#define _GNU_SOURCE
#include "measure.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static void run_once(char **words) {
    pid_t child = start_child();
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        if (nowhere < 0 || dup2(nowhere, STDOUT_FILENO) < 0) _exit(1);
        execvp(words[0], words);
        fail("cannot run", words[0]);
    }
    finish_child(child);
}

void run_program(int passes, char **words) {
    // This run fills the caches and is not measured. Git can write its index again in this run, so that all measured runs find
    // the new index.
    run_once(words);
    run_once(words);
    uint64_t began = now();
    for (int i = 0; i < passes; i++) run_once(words);
    report(now() - began, (uint64_t)passes);
}

void run_program_once(const char *directory, char **words) {
    if (mkdir(directory, 0755) != 0 && errno != EEXIST) fail("cannot make", directory);
    if (chdir(directory) != 0) fail("cannot enter", directory);
    uint64_t began = now();
    run_once(words);
    report(now() - began, 1);
}
