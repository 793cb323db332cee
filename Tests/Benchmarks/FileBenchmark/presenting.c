// SPDX-License-Identifier: Apache-2.0
// Measures the cost of opening a presented file.
//
// Each round measures three steps, each in a new process. If one process ran all steps, the presenter would be asked only once,
// because the process was granted an access a short time ago.
//
//     echo         sends the bytes of the daemon's request to a process that runs the presenter's own code
//     asked        opens, reads and closes a file with one presenter, which is asked
//     unpresented  opens, reads and closes a file without a presenter
//
// The caches are equally cold at the begin of each step. The three steps take turns as the first step of a round.
#define _GNU_SOURCE
#include "answering.h"
#include "measure.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ECHO, ASKED, UNPRESENTED, STEPS, SKIPPED_ROUNDS = 3, SIZE = 4096 };

static struct board *board;
static const char *names[STEPS];
static int echo_socket;
static char buffer[SIZE];

static void echo(void) {
    if (send(echo_socket, board->request, board->length, MSG_NOSIGNAL) != (ssize_t)board->length) {
        fail("cannot send to", "the echo");
    }
    ssize_t count = 0;
    do {
        ssize_t more = read(echo_socket, buffer + count, SIZE - (size_t)count);
        if (more <= 0) fail("cannot receive from", "the echo");
        count += more;
    } while (buffer[count - 1] != '\n');
}

static void open_and_read(const char *name) {
    int descriptor = open(name, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) fail("cannot open", name);
    if (read(descriptor, buffer, SIZE) != SIZE) fail("cannot read", name);
    close(descriptor);
}

// Runs a step in a new process and measures it. Before the clock starts, the process writes to its buffer, so that the measured
// time contains no page faults for the buffer.
static uint64_t time_step(int step) {
    pid_t child = start_child();
    if (child == 0) {
        memset(buffer, 0, SIZE);
        board->took = now();
        uint64_t began = now();
        if (step == ECHO) {
            echo();
        } else {
            open_and_read(names[step]);
        }
        board->took = now() - began;
        _exit(0);
    }
    finish_child(child);
    return board->took;
}

// Waits until the daemon has ended the reader's access session, so that the next read asks the presenter.
static void pause_between_turns(void) {
    const struct timespec pause = {.tv_nsec = 150 * 1000 * 1000};
    nanosleep(&pause, NULL);
}

static void run_round(int round, uint64_t *took) {
    for (int i = 0; i < STEPS; i++) {
        int step = (i + round) % STEPS;
        uint64_t asked = atomic_load(&board->asked);
        took[step] = time_step(step);
        uint64_t expected = asked + (step == ASKED ? 1 : 0);
        if (atomic_load(&board->asked) == expected) continue;
        if (step == ASKED) complain("the presenter was not asked about", names[step]);
        complain("the presenter was asked without a reason by", step == ECHO ? "the echo" : names[step]);
    }
    pause_between_turns();
}

static pid_t start_presenter(void) {
    char path[256];
    find_socket(path, sizeof path);
    int ready[2];
    if (pipe2(ready, O_CLOEXEC) != 0) fail("cannot make", "a pipe");
    pid_t child = start_child();
    if (child == 0) {
        close(ready[0]);
        present(path, names[ASKED], ready[1], board);
    }
    close(ready[1]);
    char byte;
    if (read(ready[0], &byte, 1) != 1) complain("no presenter could be registered for", names[ASKED]);
    close(ready[0]);
    return child;
}

static pid_t start_echo(void) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) fail("cannot make", "sockets");
    pid_t child = start_child();
    if (child == 0) {
        close(pair[0]);
        answer_all(pair[1], NULL);
        _exit(0);
    }
    close(pair[1]);
    echo_socket = pair[0];
    return child;
}

static void end(pid_t child) {
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static int compare(const void *one, const void *other) {
    uint64_t left = *(const uint64_t *)one, right = *(const uint64_t *)other;
    return left < right ? -1 : left > right;
}

void open_presented(const char *name, const char *elsewhere, int rounds) {
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED) fail("cannot share", "memory");
    names[ASKED] = name;
    names[UNPRESENTED] = elsewhere;
    pid_t presenter = start_presenter();
    // This open makes the daemon send a request. The presenter records the bytes of the request, and the step `echo` sends the
    // same bytes.
    time_step(ASKED);
    if (board->length == 0) complain("the presenter was not asked about", name);
    pause_between_turns();
    pid_t echoing = start_echo();
    uint64_t *took[STEPS], round[STEPS];
    for (int step = 0; step < STEPS; step++) took[step] = allocate((size_t)rounds * sizeof(uint64_t));
    for (int i = -SKIPPED_ROUNDS; i < rounds; i++) {
        run_round(i + SKIPPED_ROUNDS, round);
        for (int step = 0; step < STEPS && i >= 0; step++) took[step][i] = round[step];
    }
    end(presenter);
    end(echoing);
    for (int step = 0; step < STEPS; step++) {
        qsort(took[step], (size_t)rounds, sizeof(uint64_t), compare);
        report(took[step][rounds / 2], 1);
        free(took[step]);
    }
}
