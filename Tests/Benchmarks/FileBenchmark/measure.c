// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "measure.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

void report(uint64_t nanoseconds, uint64_t operations) {
    printf("%.1f\n", (double)nanoseconds / (double)operations);
}

void fail(const char *what, const char *name) {
    fprintf(stderr, "FileBenchmark: %s %s: %s\n", what, name, strerror(errno));
    exit(1);
}

void complain(const char *what, const char *detail) {
    fprintf(stderr, "FileBenchmark: %s %s\n", what, detail);
    exit(1);
}

void *allocate(size_t size) {
    void *memory = calloc(1, size);
    if (memory == NULL) fail("cannot allocate", "memory");
    return memory;
}

pid_t start_child(void) {
    pid_t parent = getpid();
    // Empties the buffer before the fork. Otherwise the child would print the text in the buffer a second time.
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) fail("cannot start", "a process");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        // If the parent ended before this process asked for a signal at the parent's death, no signal comes.
        if (getppid() != parent) _exit(1);
    }
    return child;
}

void finish_child(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) fail("cannot wait for", "a process");
    }
    if (status != 0) complain("a process it started", "has failed");
}
