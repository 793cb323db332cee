// SPDX-License-Identifier: Apache-2.0
// name-race [--seed N] [--steps N] [--processes N] DIRECTORY
//
// Several processes do random operations on a few names in DIRECTORY. An operation may only fail with an errno that a plain
// directory can return for it. operations.c lists these errnos, which were found by runs of 8,000,000 steps on tmpfs and
// 400,000 on ext4. None of them needs special timing. A race makes them frequent, but no other errno possible.
//
// Prints a line for each operation, 'ok NAME' or 'failed NAME', and on standard error how often each of its results occurred.
// Exits with 1 if an operation had another result, never succeeded, or took longer than 30 s.
#define _GNU_SOURCE
#include "operations.h"
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_PROCESSES = 64, MOST_OPERATIONS = 64, ERRNOS = 4096, LONGEST_STEP = 30 };

static struct {
    unsigned long long seed;
    long steps;
    int processes;
    char root[PATH_MAX];
} options = {.steps = 20000, .processes = 4};

// Memory that all processes share.
static struct {
    _Atomic long answers[MOST_OPERATIONS][ERRNOS];
    struct {
        _Atomic long step;
        _Atomic size_t operation;
    } progress[MOST_PROCESSES];
} *shared;

static void fail(const char *what) {
    perror(what);
    exit(2);
}

static void read_options(int count, char **words) {
    static const struct option names[] = {
        {"seed", required_argument, NULL, 's'},
        {"steps", required_argument, NULL, 'n'},
        {"processes", required_argument, NULL, 'p'},
        {0},
    };
    options.seed = (unsigned long long)time(NULL);
    for (int option; (option = getopt_long(count, words, "", names, NULL)) != -1;) {
        if (option == 's') options.seed = strtoull(optarg, NULL, 10);
        else if (option == 'n') options.steps = atol(optarg);
        else if (option == 'p') options.processes = atoi(optarg);
        else exit(64);
    }
    int is_wrong = optind + 1 != count || options.steps < 1 || options.processes < 1;
    if (is_wrong || options.processes > MOST_PROCESSES) {
        fprintf(stderr, "usage: name-race [--seed N] [--steps N] [--processes N] DIRECTORY\n");
        exit(64);
    }
    if (!realpath(words[optind], options.root)) fail(words[optind]);
}

static void race(int number) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    umask(022);
    struct racer racer = {.chance = options.seed * 1000 + (unsigned)number, .root = options.root, .number = number};
    if (chdir(options.root) < 0) fail(options.root);
    for (size_t i = 0; i < sizeof racer.directories / sizeof(int); i++) {
        racer.directories[i] = open(options.root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (racer.directories[i] < 0) fail(options.root);
    }
    for (long step = 1; step <= options.steps; step++) {
        size_t chosen = random_below(&racer, (unsigned)operation_count);
        shared->progress[number].operation = chosen;
        shared->progress[number].step = step;
        int error = operations[chosen].run(&racer);
        shared->answers[chosen][error > 0 && error < ERRNOS ? error : 0]++;
    }
    exit(0);
}

// Returns whether a process has been at the same step for half a minute. If so, prints the process and the step.
static int is_stuck(long *steps, time_t *since) {
    time_t now = time(NULL);
    for (int i = 0; i < options.processes; i++) {
        long step = shared->progress[i].step;
        if (step != steps[i] || step == options.steps) since[i] = now;
        steps[i] = step;
        if (now - since[i] <= LONGEST_STEP) continue;
        const char *name = operations[shared->progress[i].operation].name;
        fprintf(stderr, "process %d: step %ld, %s, takes longer than %d s\n", i, step, name, LONGEST_STEP);
        return 1;
    }
    return 0;
}

// Starts the processes. Returns whether all of them reached their last step. Processes that are left end together with this
// process.
static int run_all(void) {
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    for (int i = 0; i < options.processes; i++) {
        pid_t pid = fork();
        if (pid < 0) fail("fork");
        if (pid == 0) race(i);
    }
    long steps[MOST_PROCESSES] = {0};
    time_t since[MOST_PROCESSES];
    for (int i = 0; i < options.processes; i++) since[i] = time(NULL);
    int running = options.processes, is_whole = 1;
    while (running > 0) {
        const struct timespec second = {.tv_sec = 1};
        if (sigtimedwait(&child, NULL, &second) < 0 && is_stuck(steps, since)) return 0;
        int status;
        while (running > 0 && waitpid(-1, &status, WNOHANG) > 0) {
            running--;
            if (status != 0) is_whole = 0;
        }
    }
    if (!is_whole) fprintf(stderr, "a process ended before its last step\n");
    return is_whole;
}

static int is_allowed(const struct operation *operation, int error) {
    for (const int *allowed = operation->allowed; *allowed; allowed++)
        if (*allowed == error) return 1;
    return error == 0;
}

// Prints the results of an operation. Returns whether a plain directory may have all of these results.
static int report(size_t index) {
    const struct operation *operation = &operations[index];
    int is_right = shared->answers[index][0] > 0;
    fprintf(stderr, "%-16s%10ld", operation->name, (long)shared->answers[index][0]);
    for (int error = 1; error < ERRNOS; error++) {
        long count = shared->answers[index][error];
        if (!count) continue;
        int is_expected = is_allowed(operation, error);
        if (!is_expected) is_right = 0;
        const char *name = strerrorname_np(error);
        fprintf(stderr, "  %s%s %ld", is_expected ? "" : "NOT ALLOWED: ", name ? name : "?", count);
    }
    fprintf(stderr, "%s\n", shared->answers[index][0] ? "" : "  NEVER SUCCEEDED");
    printf("%s %s\n", is_right ? "ok" : "failed", operation->name);
    return is_right;
}

int main(int count, char **words) {
    read_options(count, words);
    if (operation_count > MOST_OPERATIONS) return 2;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) fail("mmap");
    fprintf(stderr, "name-race: %d processes, %ld steps each, seed %llu\n", options.processes, options.steps, options.seed);
    int is_right = run_all();
    for (size_t i = 0; i < operation_count; i++)
        if (!report(i)) is_right = 0;
    if (!is_right) fprintf(stderr, "once more: --seed %llu\n", options.seed);
    return is_right ? 0 : 1;
}
