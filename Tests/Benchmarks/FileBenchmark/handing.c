// SPDX-License-Identifier: Apache-2.0
// Measures how fast a file goes from one program to the next. A program holds the file, and one or very many other programs
// wait for it. The figure is the time from the release until the waiting programs go on. In Truce the writer releases the file
// by `close`, and the readers wait in `open`. For comparison, the same is measured with a lock of flock(2).
#define _GNU_SOURCE
#include "measure.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static struct {
    _Atomic int begins;
    _Atomic uint64_t lets_go, goes_on;
} *board;

static int open_file(const char *name, int flags, int locks) {
    int descriptor = open(name, flags | O_CLOEXEC);
    if (descriptor < 0) fail("cannot open", name);
    if (locks && flock(descriptor, LOCK_EX) != 0) fail("cannot lock", name);
    return descriptor;
}

// Writes a byte. If a writer has written nothing, or nothing for a while, Truce soon lets other programs go ahead of it.
static void change(int descriptor) {
    if (pwrite(descriptor, "x", 1, 0) != 1) fail("cannot write", "what is handed over");
}

static void sleep_milliseconds(long count) {
    const struct timespec time = {.tv_nsec = count * 1000000};
    nanosleep(&time, NULL);
}

static int sleeps(pid_t process) {
    char path[64], line[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", process);
    FILE *file = fopen(path, "r");
    if (file == NULL) fail("cannot look at", path);
    if (fgets(line, sizeof line, file) == NULL) line[0] = 0;
    fclose(file);
    const char *end = strrchr(line, ')');
    return end != NULL && (end[2] == 'S' || end[2] == 'D');
}

static void wait_until_it_waits(pid_t process) {
    for (int tries = 0; tries < 10000; tries++) {
        sleep_milliseconds(1);
        if (board->begins && sleeps(process)) {
            sleep_milliseconds(2);
            return;
        }
    }
    complain("the other program did not wait", "for ten seconds");
}

// Starts a process that holds the file until it is told to release it. The holder must be neither the parent of the waiting
// programs nor a thread of their process. Truce makes no program wait for its parent or for its own threads.
static pid_t hold(const char *name, int locks, int *release) {
    int ends[2], ready[2];
    char byte;
    if (pipe(ends) != 0 || pipe(ready) != 0) fail("cannot make", "a pipe");
    pid_t child = start_child();
    if (child == 0) {
        close(ends[1]);
        int held = open_file(name, O_WRONLY, locks);
        struct pollfd end = {.fd = ends[0], .events = POLLIN};
        change(held);
        if (write(ready[1], "r", 1) != 1) fail("cannot tell", "that the file is held");
        while (poll(&end, 1, 100) == 0) change(held);
        board->lets_go = now();
        close(held);
        _exit(0);
    }
    close(ends[0]);
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1) complain("no program could open", name);
    close(ready[0]);
    *release = ends[1];
    return child;
}

static void let_go(pid_t holder, int release) {
    if (write(release, "r", 1) != 1) fail("cannot tell", "that the file is to be let go");
    finish_child(holder);
    close(release);
}

static uint64_t hand_over_once(const char *name, int locks) {
    int release;
    board->begins = 0;
    pid_t holder = hold(name, locks, &release), waiter = start_child();
    if (waiter == 0) {
        close(release);
        board->begins = 1;
        int descriptor = open_file(name, O_RDONLY, locks);
        board->goes_on = now();
        close(descriptor);
        _exit(0);
    }
    wait_until_it_waits(waiter);
    let_go(holder, release);
    finish_child(waiter);
    if (board->goes_on < board->lets_go) complain("no program waited for", name);
    return board->goes_on - board->lets_go;
}

static void make_board(void) {
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED) fail("cannot share", "memory");
}

static int compare(const void *one, const void *other) {
    uint64_t left = *(const uint64_t *)one, right = *(const uint64_t *)other;
    return left < right ? -1 : left > right;
}

void hand_over(const char *name, int rounds, int locks) {
    make_board();
    uint64_t *took = allocate((size_t)rounds * sizeof *took);
    for (int i = 0; i < rounds; i++) took[i] = hand_over_once(name, locks);
    qsort(took, (size_t)rounds, sizeof *took, compare);
    report(took[rounds / 2], 1);
    free(took);
}

static const char *waited_for;
static _Atomic int have_begun;

static void *wait_for_it(void *unused) {
    have_begun++;
    int descriptor = open(waited_for, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) fail("cannot open", waited_for);
    if (board->lets_go == 0) complain("a program did not wait for", waited_for);
    close(descriptor);
    return unused;
}

static void open_by_threads(int count, int release) {
    pthread_t *threads = allocate((size_t)count * sizeof *threads);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 * 1024);
    for (int i = 0; i < count; i++) {
        if (pthread_create(&threads[i], &small, wait_for_it, NULL) != 0) complain("cannot start", "a thread");
    }
    while (have_begun < count) sleep_milliseconds(1);
    puts("begun");
    fflush(stdout);
    char byte;
    if (read(STDIN_FILENO, &byte, 1) != 1) complain("the caller does not say", "when to let go");
    if (write(release, "r", 1) != 1) fail("cannot release", waited_for);
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    report(now() - board->lets_go, (uint64_t)count);
    free(threads);
}

void release_parked(const char *name, int count) {
    int release;
    make_board();
    waited_for = name;
    pid_t holder = hold(name, 0, &release), waiters = start_child();
    if (waiters == 0) {
        open_by_threads(count, release);
        exit(0);
    }
    finish_child(waiters);
    finish_child(holder);
}
