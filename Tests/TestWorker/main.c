// SPDX-License-Identifier: Apache-2.0
// TestWorker BOARD ROW COMMAND…: a program that competes for files in the mounted tests. Each command, with its source file:
//
//     rewrite FILE FORM WRITER    documents.c
//     read FILE                   documents.c
//     look FILE                   looking.c
//     scan FILE                   looking.c
//     hold HABIT FILE             holding.c
//     park FILE NUMBER            holding.c
//     map HABIT FILE              holding.c
#define _GNU_SOURCE
#include "board.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic uint64_t *board;
static _Atomic uint64_t *own;
static pid_t parent;

void count(int column) { atomic_fetch_add(&own[column], 1); }

uint64_t counted(int column) { return atomic_load(&own[column]); }

void note_failure(int error) {
    count(FAILURES);
    atomic_store(&own[LAST_ERROR], (uint64_t)error);
}

bool is_over(void) { return atomic_load(&board[0]) != 0 || getppid() != parent; }

bool is_counting(void) { return atomic_load(&board[1]) != 0; }

void wait_until_over(void) {
    while (!is_over()) usleep(1000);
}

static int run(int count, char **words) {
    const char *command = words[0];
    if (count == 4 && strcmp(command, "rewrite") == 0) return rewrite(words[1], words[2], atoi(words[3]));
    if (count == 2 && strcmp(command, "read") == 0) return read_documents(words[1]);
    if (count == 2 && strcmp(command, "look") == 0) return look_up(words[1]);
    if (count == 2 && strcmp(command, "scan") == 0) return open_and_read(words[1]);
    if (count == 3 && strcmp(command, "list") == 0) return list(words[1], words[2]);
    if (count == 3 && strcmp(command, "hold") == 0) return hold(words[1], words[2]);
    if (count == 3 && strcmp(command, "park") == 0) return park(words[1], atoi(words[2]));
    if (count == 3 && strcmp(command, "map") == 0) return map(words[1], words[2]);
    fprintf(stderr, "TestWorker: no such command: %s\n", command);
    return 64;
}

int main(int argc, char **argv) {
    if (argc < 4) return 64;
    parent = getppid();
    int descriptor = open(argv[1], O_RDWR | O_CLOEXEC);
    size_t size = 64 * COLUMNS * sizeof(uint64_t);
    void *memory = descriptor < 0 ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (memory == MAP_FAILED) {
        fprintf(stderr, "TestWorker: %s: %s\n", argv[1], strerror(errno));
        return 1;
    }
    close(descriptor);
    board = memory;
    own = board + atoi(argv[2]) * COLUMNS;
    return run(argc - 3, argv + 3);
}
