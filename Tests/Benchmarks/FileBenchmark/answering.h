// SPDX-License-Identifier: Apache-2.0
// A presenter that answers every request at once, and records it.
#ifndef ANSWERING_H
#define ANSWERING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { LINE = 1 << 16 };

// Shared by all processes of one run.
struct board {
    _Atomic uint64_t asked;  // number of requests to the presenter
    uint64_t took;           // time of the last timed step, in nanoseconds
    size_t length;           // of `request`, with the end of its line
    char request[LINE];      // the request as the daemon sent it, so that the echo sends the same
};

// Answers every line until the other end closes. `board` may be NULL.
void answer_all(int descriptor, struct board *board);

// Connects, and registers presenters of `count` names, which are asked nothing; the connection stays open.
void register_all(const char *socket_path, char *const *names, int count);

// Finds the control socket of the mount that contains the working directory.
void find_socket(char *path, size_t capacity);

// The presenter of one path: registers over the socket, writes one byte to `ready`, answers until it is
// ended.
_Noreturn void present(const char *socket_path, const char *name, int ready, struct board *board);

#endif
