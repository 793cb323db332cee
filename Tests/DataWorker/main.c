// SPDX-License-Identifier: Apache-2.0
// DataWorker FILE COMMAND…: several processes read and write one file at the same time, and check the result of each read.
//
//     ring SECONDS WRITERS READERS OFFSET    ring.c
//     mixed SECONDS PROCESSES SEED           mixed.c
//
// The program prints the number of operations. It ends with code 1 if a process read wrong bytes, and with 2 if a call failed.
#define _GNU_SOURCE
#include "shared.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int started, children;
static pid_t processes[64];

void *shared_memory(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail("mmap");
    return memory;
}

void start(int (*body)(int), int number) {
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) fail("fork");
    if (child > 0) {
        started += 1;
        if (children < 64) processes[children++] = child;
        return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    exit(body(number));
}

int any_failed(void) {
    int failed = 0;
    for (; started > 0; started -= 1) {
        int status = 0;
        if (wait(&status) < 0) fail("wait");
        if (status == 0) continue;
        // One process has failed. Ends all other processes, because they may wait for a lock that this process held.
        for (int child = 0; !failed && child < children; child++) kill(processes[child], SIGKILL);
        failed = 1;
    }
    return failed;
}

void fail(const char *what) {
    perror(what);
    exit(2);
}

double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

uint64_t random_number(uint64_t *state) {
    *state += 0x9E3779B97F4A7C15;
    uint64_t mixed = *state;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB;
    return mixed ^ (mixed >> 31);
}

int main(int count, char **words) {
    if (count == 7 && strcmp(words[2], "ring") == 0) return ring(words[1], count - 3, words + 3);
    if (count == 6 && strcmp(words[2], "mixed") == 0) return mixed(words[1], count - 3, words + 3);
    fprintf(stderr, "DataWorker: no such command\n");
    return 64;
}
