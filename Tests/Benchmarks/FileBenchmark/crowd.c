// SPDX-License-Identifier: Apache-2.0
// Registers presenters of files that are not measured. A mount accepts a limited number of presenters for each user. So if root
// runs the program, it registers some of the presenters as users that do not exist.
#define _GNU_SOURCE
#include "answering.h"
#include "measure.h"

#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// The limits of Sources/ControlProtocol/Limits.swift, without a few connections that other programs need. No user of the
// machine has a number from FIRST_USER on.
enum { PRESENTERS = 1024, CONNECTIONS = 48, FIRST_USER = 2000000000, NAME = 32 };

static void become(uid_t user) {
    if (setgroups(0, NULL) != 0 || setgid(user) != 0 || setuid(user) != 0) fail("cannot become", "another user");
}

// Divides the names into shares that one connection may present, and opens a connection for each share.
static void register_shares(const char *socket_path, char *const *names, int count) {
    for (int first = 0; first < count; first += PRESENTERS) {
        int share = count - first < PRESENTERS ? count - first : PRESENTERS;
        register_all(socket_path, names + first, share);
    }
}

// Starts a child of another user that registers presenters. The child ends when the parent closes its end of `life`. No signal
// at the parent's death would end the child, because it has another user.
static pid_t register_as(
    uid_t user, const char *socket_path, char *const *names, int count, int ready, const int *life) {
    char byte;
    pid_t child = start_child();
    if (child != 0) return child;
    close(life[1]);
    become(user);
    register_shares(socket_path, names, count);
    if (write(ready, "r", 1) != 1) fail("cannot tell", "that the presenters are there");
    while (read(life[0], &byte, 1) > 0) {}
    _exit(0);
}

void present_crowd(int directories, int files) {
    int count = directories * files, own = CONNECTIONS * PRESENTERS, children = 0, ready[2], life[2];
    pid_t *started = allocate((size_t)count * sizeof *started);
    char **names = allocate((size_t)count * sizeof *names), socket_path[256], byte;
    for (int i = 0; i < count; i++) {
        names[i] = allocate(NAME);
        snprintf(names[i], NAME, "crowd/d%03d/f%03d", i / files % 1000, i % files % 1000);
    }
    find_socket(socket_path, sizeof socket_path);
    if (pipe(ready) != 0 || pipe(life) != 0) fail("cannot make", "a pipe");
    for (int first = own; first < count; first += PRESENTERS, children++) {
        int share = count - first < PRESENTERS ? count - first : PRESENTERS;
        started[children] =
            register_as((uid_t)(FIRST_USER + children), socket_path, names + first, share, ready[1], life);
    }
    register_shares(socket_path, names, count < own ? count : own);
    for (int i = 0; i < children; i++) {
        if (read(ready[0], &byte, 1) != 1) complain("not all presenters", "could be registered");
    }
    puts("ready");
    fflush(stdout);
    // Waits until the parent closes the standard input of this process.
    while (read(STDIN_FILENO, &byte, 1) > 0) {}
    close(life[1]);
    for (int i = 0; i < children; i++) finish_child(started[i]);
}
