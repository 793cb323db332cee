// SPDX-License-Identifier: Apache-2.0
// BareMirror [-f] DIRECTORY MOUNTPOINT: as little as a mirror with passthrough can be. It coordinates nothing, checks
// nothing beyond what the kernel does, keeps a descriptor for each file it knows, and knows no extended attributes: the
// least that a request can cost. It leaves to the kernel what is known and is for long; names of directories and missing
// names it does not. To compare Truce with, for root. With -f it stays in the foreground.
#include "mirror.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static struct fuse_session *session;

static int fail(const char *what, const char *name) {
    fprintf(stderr, "BareMirror: %s %s: %s\n", what, name, strerror(errno));
    return 1;
}

// By one thread: those beside it would only take turns with it.
static void serve(void) {
    struct fuse_buf buffer = {0};
    while (!fuse_session_exited(session)) {
        int count = fuse_session_receive_buf(session, &buffer);
        if (count == -EINTR || count == -EAGAIN) continue;
        if (count <= 0) break;
        fuse_session_process_buf(session, &buffer);
    }
    free(buffer.mem);
}

// One for each file that the kernel knows: root may have more than it was given.
static void allow_descriptors(void) {
    struct rlimit limit = {1 << 20, 1 << 20};
    if (setrlimit(RLIMIT_NOFILE, &limit) == 0) return;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv) {
    int stays = argc == 4 && strcmp(argv[1], "-f") == 0;
    if (argc != 3 + stays) {
        fprintf(stderr, "usage: BareMirror [-f] DIRECTORY MOUNTPOINT\n");
        return 2;
    }
    const char *directory = argv[1 + stays], *mountpoint = argv[2 + stays];
    allow_descriptors();
    int root = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0) return fail("cannot open", directory);
    begin_nodes(root);
    struct fuse_lowlevel_ops operations = {.init = agree};
    add_names(&operations);
    add_files(&operations, &session);
    add_listing(&operations);
    char *words[] = {"BareMirror", "-o", "default_permissions,allow_other,fsname=bare,subtype=bare"};
    struct fuse_args arguments = FUSE_ARGS_INIT(3, words);
    session = cfuse_session_new(&arguments, &operations, NULL);
    if (session == NULL) return fail("cannot begin", "a session");
    if (fuse_session_mount(session, mountpoint) != 0) return fail("cannot mount on", mountpoint);
    if (take_transport(session) != 0 || fuse_daemonize(stays) != 0) return fail("cannot serve", mountpoint);
    serve();
    fuse_session_unmount(session);
    return 0;
}
