// SPDX-License-Identifier: Apache-2.0
// A presenter that records each request and answers it immediately.
#ifndef ANSWERING_H
#define ANSWERING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { LINE = 1 << 16 };

// Memory that all processes of a run share.
struct board {
    _Atomic uint64_t asked;  // the number of requests to the presenter
    uint64_t took;           // the time of the last measured step, in nanoseconds
    size_t length;           // the length of `request`, with the end of its line
    char request[LINE];      // the request as the daemon sent it, so that the process `echo` can send the same bytes
};

// Answers every line until the other end closes the connection. If `board` is NULL, no request is recorded.
void answer_all(int descriptor, struct board *board);

// Connects to the socket, and registers a presenter for each of `count` names. The presenters get no questions. The connection
// stays open.
void register_all(const char *socket_path, char *const *names, int count);

// Finds the control socket of the mount that contains the working directory.
void find_socket(char *path, size_t capacity);

// Runs the presenter of a path. It registers over the socket, writes a byte to `ready`, and answers requests until the process
// is ended.
_Noreturn void present(const char *socket_path, const char *name, int ready, struct board *board);

#endif
