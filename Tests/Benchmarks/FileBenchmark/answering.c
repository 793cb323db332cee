// SPDX-License-Identifier: Apache-2.0
// The part of the control protocol that a presenter needs. The presenter does not check whether the daemon sends correct JSON.
#define _GNU_SOURCE
#include "answering.h"
#include "measure.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

// Bytes that were received. The bytes from `start` to `end` belong to lines that `next_line` has not returned yet.
struct lines {
    int descriptor;
    size_t start, end;
    char bytes[LINE];
};

// Returns the next line, with a zero byte in place of the newline; NULL if the other end has closed the connection.
static char *next_line(struct lines *lines, size_t *length) {
    size_t searched = lines->start;
    for (;;) {
        char *end = memchr(lines->bytes + searched, '\n', lines->end - searched);
        if (end != NULL) {
            char *line = lines->bytes + lines->start;
            *end = 0;
            *length = (size_t)(end - line);
            lines->start = (size_t)(end + 1 - lines->bytes);
            if (lines->start == lines->end) lines->start = lines->end = 0;
            return line;
        }
        searched = lines->end;
        if (searched == LINE) {
            memmove(lines->bytes, lines->bytes + lines->start, LINE - lines->start);
            searched = lines->end = LINE - lines->start;
            lines->start = 0;
        }
        ssize_t count = read(lines->descriptor, lines->bytes + lines->end, LINE - lines->end);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) fail("cannot receive from", "the socket");
        if (count == 0) return NULL;
        lines->end += (size_t)count;
        if (lines->end - lines->start == LINE) complain("a message is", "too long");
    }
}

static void send_all(int descriptor, const char *bytes, size_t length) {
    while (length > 0) {
        ssize_t count = send(descriptor, bytes, length, MSG_NOSIGNAL);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) fail("cannot send to", "the socket");
        bytes += count;
        length -= (size_t)count;
    }
}

// Answers a request. The answer contains the request's id, which is a number or a text without escapes.
static void answer(int descriptor, const char *request) {
    const char *id = strstr(request, "\"id\":");
    if (id == NULL) complain("a request without an id:", request);
    id += strlen("\"id\":");
    id += strspn(id, " ");
    size_t length = *id == '"' ? strcspn(id + 1, "\"") + 2 : strcspn(id, ", }");
    char reply[256];
    const char *form = "{\"id\":%.*s,\"jsonrpc\":\"2.0\",\"result\":{}}\n";
    int size = snprintf(reply, sizeof reply, form, (int)length, id);
    if (size >= (int)sizeof reply) complain("the id is too long:", request);
    send_all(descriptor, reply, (size_t)size);
}

static void answer_lines(struct lines *lines, struct board *board) {
    char *line;
    size_t length;
    while ((line = next_line(lines, &length)) != NULL) {
        if (strstr(line, "\"presenter/relinquishToReader\"") == NULL) {
            complain("the daemon sent what the presenter did not ask for:", line);
        }
        if (board != NULL && board->length == 0) {
            memcpy(board->request, line, length);
            board->request[length] = '\n';
            board->length = length + 1;
        }
        if (board != NULL) atomic_fetch_add(&board->asked, 1);
        answer(lines->descriptor, line);
    }
}

void answer_all(int descriptor, struct board *board) {
    struct lines *lines = allocate(sizeof *lines);
    lines->descriptor = descriptor;
    answer_lines(lines, board);
    free(lines);
}

// Sends a request and waits for its result. If the result is an error, the program ends, because it has nothing to measure.
static void call(struct lines *lines, const char *method, const char *request) {
    send_all(lines->descriptor, request, strlen(request));
    size_t length;
    char *reply = next_line(lines, &length);
    if (reply == NULL) complain("the daemon closed the socket instead of answering", method);
    if (strstr(reply, "\"result\":") == NULL) {
        fprintf(stderr, "FileBenchmark: the daemon refused %s: %s\n", method, reply);
        exit(1);
    }
}

static int connect_to(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) complain("too long for a socket:", path);
    strcpy(address.sun_path, path);
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) fail("cannot make", "a socket");
    if (connect(descriptor, (const struct sockaddr *)&address, sizeof address) != 0) {
        fail("cannot connect to", path);
    }
    return descriptor;
}

static struct lines *introduce(const char *socket_path) {
    struct lines *lines = allocate(sizeof *lines);
    lines->descriptor = connect_to(socket_path);
    call(lines, "initialize",
         "{\"id\":1,\"jsonrpc\":\"2.0\",\"method\":\"initialize\",\"params\":{"
         "\"client\":{\"name\":\"FileBenchmark\"},\"protocol\":{\"max\":1,\"min\":1}}}\n");
    return lines;
}

static void register_presenter(struct lines *lines, const char *name, const char *messages) {
    char request[512];
    const char *form =
        "{\"id\":2,\"jsonrpc\":\"2.0\",\"method\":\"presenter/register\",\"params\":{"
        "\"messages\":[%s],\"path\":\"%s\"}}\n";
    int size = snprintf(request, sizeof request, form, messages, name);
    if (size >= (int)sizeof request) complain("too long to be presented:", name);
    call(lines, "presenter/register", request);
}

void find_socket(char *path, size_t capacity) {
    ssize_t length = getxattr(".", "user.truce.socket", path, capacity - 1);
    if (length < 0) fail("there is no control socket of", "the working directory");
    path[length] = 0;
}

void register_all(const char *socket_path, char *const *names, int count) {
    struct lines *lines = introduce(socket_path);
    for (int i = 0; i < count; i++) register_presenter(lines, names[i], "");
}

void present(const char *socket_path, const char *name, int ready, struct board *board) {
    struct lines *lines = introduce(socket_path);
    register_presenter(lines, name, "\"relinquishToReader\"");
    if (write(ready, "r", 1) != 1) fail("cannot tell", "that the presenter is there");
    answer_lines(lines, board);
    complain("the daemon closed", "the presenter's socket");
}
