// SPDX-License-Identifier: Apache-2.0
// BareMirror [-f] DIRECTORY MOUNTPOINT: a minimal mirror with passthrough. Truce is compared with it, because no file system of
// this kind can have a much lower cost for a request. Only root runs it.
// - It coordinates no programs, and checks nothing that the kernel does not check.
// - It holds a descriptor for each known file, and has no extended attributes.
// - The kernel may cache attributes for long, but neither the names in directories nor missing names.
// With -f the program stays in the foreground.
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

// Serves requests with a single thread. Several threads would only take turns, so they would not be faster.
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

// Raises the limit of descriptors, because the mirror needs a descriptor for each file that the kernel knows. Only root may do
// this.
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
