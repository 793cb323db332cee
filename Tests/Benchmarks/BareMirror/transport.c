// SPDX-License-Identifier: Apache-2.0
// Asks the kernel for passthrough. Before version 3.17, libfuse does not ask for it. So this code changes libfuse's reply to
// INIT before the reply is sent. Truce's daemon does the same.
#include "mirror.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

// The kernel's bits for parallel look-ups in one directory, for no GETXATTR before each write, and for passthrough.
static const uint64_t wanted = 1ULL << 18 | 1ULL << 28 | 1ULL << 37;
enum { INIT = 26, EXTENDED = 1 << 30 };

static _Atomic uint64_t unanswered;

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

// Whether the mirror may poll. On a machine with a single processor, a thread that polls would stop the clients. So neither the
// mirror nor Truce's daemon polls on such a machine.
static int has_processors(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) > 1;
}

// Reads a request. If there is none, the thread polls for some time before it sleeps, as long as Truce's daemon does for a
// single client.
static ssize_t take(int descriptor, void *buffer, size_t capacity) {
    enum { LONGEST = 100000 };
    int64_t end = now() + LONGEST;
    for (;;) {
        ssize_t count = read(descriptor, buffer, capacity);
        if (count >= 0 || errno != EAGAIN) return count;
        struct pollfd request = {.fd = descriptor, .events = POLLIN};
        if (now() >= end && poll(&request, 1, -1) < 0) return -1;
    }
}

static ssize_t receive(int descriptor, void *buffer, size_t capacity, void *unused) {
    (void)unused;
    ssize_t count = take(descriptor, buffer, capacity);
    const struct cfuse_in_header *header = buffer;
    if (count >= (ssize_t)sizeof *header && header->opcode == INIT) unanswered = header->unique;
    return count;
}

static ssize_t answer(int descriptor, struct iovec *parts, int count, void *unused) {
    (void)unused;
    const struct cfuse_out_header *header = parts[0].iov_base;
    if (unanswered != 0 && header->unique == unanswered && header->error == 0 && count > 1) {
        struct cfuse_init_out *reply = parts[1].iov_base;
        unanswered = 0;
        reply->flags |= (uint32_t)wanted | EXTENDED;
        reply->flags2 |= (uint32_t)(wanted >> 32);
        reply->max_stack_depth = 1;
    }
    return writev(descriptor, parts, count);
}

void agree(void *unused, struct fuse_conn_info *connection) {
    (void)unused;
    cfuse_agree(connection, wanted);
}

int take_transport(struct fuse_session *session) {
    const struct fuse_custom_io transport = {.read = receive, .writev = answer};
    int device = fuse_session_fd(session);
    if (has_processors() && fcntl(device, F_SETFL, fcntl(device, F_GETFL) | O_NONBLOCK) != 0) return -1;
    return cfuse_take_transport(session, &transport);
}
