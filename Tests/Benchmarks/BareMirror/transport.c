// SPDX-License-Identifier: Apache-2.0
// Agrees with the kernel on passthrough. libfuse before 3.17 does not ask for it: its reply to INIT is amended on the
// way out, as the daemon does it.
#include "mirror.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

// Parallel lookups in one directory, no GETXATTR for each write, passthrough: the kernel's bits.
static const uint64_t wanted = 1ULL << 18 | 1ULL << 28 | 1ULL << 37;
enum { INIT = 26, EXTENDED = 1 << 30 };

static _Atomic uint64_t unanswered;

static ssize_t receive(int descriptor, void *buffer, size_t capacity, void *unused) {
    (void)unused;
    ssize_t count = read(descriptor, buffer, capacity);
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
    return cfuse_take_transport(session, &transport);
}
