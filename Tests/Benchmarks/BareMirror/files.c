// SPDX-License-Identifier: Apache-2.0
// Serves files with passthrough. The mirror answers the open, and then the kernel reads and writes the contents without the
// mirror.
#include "mirror.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static struct fuse_session **session;

static int32_t make_backing(int descriptor) { return cfuse_backing_keep(fuse_session_fd(*session), descriptor); }

void let_go(fuse_ino_t id, uint64_t lookups) {
    struct node *gone = forget(node_of(id), lookups);
    if (gone == NULL) return;
    if (gone->backing > 0) cfuse_backing_close(fuse_session_fd(*session), gone->backing);
    close(gone->descriptor);
    free(gone);
}

static void serve_open(fuse_req_t request, fuse_ino_t id, struct fuse_file_info *info) {
    struct node *node = node_of(id);
    int32_t backing = backing_of(node, make_backing);
    struct path path = path_of(node);
    if (backing <= 0) {
        fuse_reply_err(request, EIO);
    } else if (info->flags & O_TRUNC && truncate(path.bytes, 0) != 0) {
        fuse_reply_err(request, errno);
    } else {
        cfuse_reply_open(request, 0, backing, 0);
    }
}

static void serve_create(
    fuse_req_t request, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *info) {
    struct fuse_entry_param entry;
    int flags = (info->flags & ~(O_APPEND | O_DIRECT)) | O_CREAT | O_NOFOLLOW | O_CLOEXEC;
    int made = openat(node_of(parent)->descriptor, name, flags, mode);
    int error = made < 0 ? errno : look_up(node_of(parent), name, &entry);
    if (made >= 0) close(made);
    if (error != 0) {
        fuse_reply_err(request, error);
        return;
    }
    int32_t backing = backing_of(node_of(entry.ino), make_backing);
    if (backing > 0) {
        cfuse_reply_create(request, &entry, 0, backing, 0);
    } else {
        let_go(entry.ino, 1);
        fuse_reply_err(request, EIO);
    }
}

static void serve_release(fuse_req_t request, fuse_ino_t id, struct fuse_file_info *info) {
    (void)id;
    (void)info;
    fuse_reply_err(request, 0);
}

static void serve_fsync(fuse_req_t request, fuse_ino_t id, int data_only, struct fuse_file_info *info) {
    (void)info;
    struct path path = path_of(node_of(id));
    int descriptor = open(path.bytes, O_RDONLY | O_CLOEXEC);
    int result = descriptor < 0 ? -1 : data_only ? fdatasync(descriptor) : fsync(descriptor);
    fuse_reply_err(request, result == 0 ? 0 : errno);
    if (descriptor >= 0) close(descriptor);
}

void add_files(struct fuse_lowlevel_ops *operations, struct fuse_session **of) {
    session = of;
    operations->open = serve_open;
    operations->create = serve_create;
    operations->release = serve_release;
    operations->fsync = serve_fsync;
}
