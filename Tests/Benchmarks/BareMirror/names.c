// SPDX-License-Identifier: Apache-2.0
// Serves names and attributes.
#include "mirror.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

struct path path_of(const struct node *node) {
    struct path path;
    snprintf(path.bytes, sizeof path.bytes, "/proc/self/fd/%d", node->descriptor);
    return path;
}

int look_up(struct node *directory, const char *name, struct fuse_entry_param *entry) {
    *entry = (struct fuse_entry_param){.attr_timeout = VALID, .entry_timeout = VALID};
    int descriptor = openat(directory->descriptor, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (descriptor < 0) return errno;
    if (fstatat(descriptor, "", &entry->attr, AT_EMPTY_PATH) != 0) {
        int error = errno;
        close(descriptor);
        return error;
    }
    entry->ino = id_of(introduce(descriptor, &entry->attr));
    return 0;
}

static void answer(fuse_req_t request, int result) { fuse_reply_err(request, result == 0 ? 0 : errno); }

static void answer_entry(fuse_req_t request, fuse_ino_t parent, const char *name, int result) {
    struct fuse_entry_param entry;
    int error = result == 0 ? look_up(node_of(parent), name, &entry) : errno;
    if (error == 0) {
        fuse_reply_entry(request, &entry);
    } else {
        fuse_reply_err(request, error);
    }
}

static void serve_lookup(fuse_req_t request, fuse_ino_t parent, const char *name) {
    answer_entry(request, parent, name, 0);
}

static void serve_getattr(fuse_req_t request, fuse_ino_t id, struct fuse_file_info *info) {
    (void)info;
    struct stat status;
    if (fstatat(node_of(id)->descriptor, "", &status, AT_EMPTY_PATH) == 0) {
        fuse_reply_attr(request, &status, VALID);
    } else {
        fuse_reply_err(request, errno);
    }
}

static struct timespec time_for(int which, int given, int now, struct timespec time) {
    if (which & now) return (struct timespec){.tv_nsec = UTIME_NOW};
    return which & given ? time : (struct timespec){.tv_nsec = UTIME_OMIT};
}

static int set_attributes(struct node *node, const struct stat *status, int which) {
    struct path path = path_of(node);
    if (which & FUSE_SET_ATTR_MODE && chmod(path.bytes, status->st_mode) != 0) return -1;
    if (which & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) {
        uid_t user = which & FUSE_SET_ATTR_UID ? status->st_uid : (uid_t)-1;
        gid_t group = which & FUSE_SET_ATTR_GID ? status->st_gid : (gid_t)-1;
        if (fchownat(node->descriptor, "", user, group, AT_EMPTY_PATH) != 0) return -1;
    }
    if (which & FUSE_SET_ATTR_SIZE && truncate(path.bytes, status->st_size) != 0) return -1;
    if ((which & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME)) == 0) return 0;
    const struct timespec times[2] = {
        time_for(which, FUSE_SET_ATTR_ATIME, FUSE_SET_ATTR_ATIME_NOW, status->st_atim),
        time_for(which, FUSE_SET_ATTR_MTIME, FUSE_SET_ATTR_MTIME_NOW, status->st_mtim)};
    return utimensat(AT_FDCWD, path.bytes, times, 0);
}

static void serve_setattr(
    fuse_req_t request, fuse_ino_t id, struct stat *status, int which, struct fuse_file_info *info) {
    if (set_attributes(node_of(id), status, which) == 0) {
        serve_getattr(request, id, info);
    } else {
        fuse_reply_err(request, errno);
    }
}

static void serve_readlink(fuse_req_t request, fuse_ino_t id) {
    char target[PATH_MAX + 1];
    ssize_t length = readlinkat(node_of(id)->descriptor, "", target, PATH_MAX);
    if (length < 0) {
        fuse_reply_err(request, errno);
    } else {
        target[length] = 0;
        fuse_reply_readlink(request, target);
    }
}

static void serve_mkdir(fuse_req_t request, fuse_ino_t parent, const char *name, mode_t mode) {
    answer_entry(request, parent, name, mkdirat(node_of(parent)->descriptor, name, mode));
}

static void serve_mknod(fuse_req_t request, fuse_ino_t parent, const char *name, mode_t mode, dev_t device) {
    answer_entry(request, parent, name, mknodat(node_of(parent)->descriptor, name, mode, device));
}

static void serve_symlink(fuse_req_t request, const char *target, fuse_ino_t parent, const char *name) {
    answer_entry(request, parent, name, symlinkat(target, node_of(parent)->descriptor, name));
}

static void serve_link(fuse_req_t request, fuse_ino_t id, fuse_ino_t parent, const char *name) {
    int directory = node_of(parent)->descriptor;
    struct path path = path_of(node_of(id));
    answer_entry(request, parent, name, linkat(AT_FDCWD, path.bytes, directory, name, AT_SYMLINK_FOLLOW));
}

static void serve_unlink(fuse_req_t request, fuse_ino_t parent, const char *name) {
    answer(request, unlinkat(node_of(parent)->descriptor, name, 0));
}

static void serve_rmdir(fuse_req_t request, fuse_ino_t parent, const char *name) {
    answer(request, unlinkat(node_of(parent)->descriptor, name, AT_REMOVEDIR));
}

static void serve_rename(fuse_req_t request, fuse_ino_t parent, const char *name, fuse_ino_t other_parent,
                         const char *other, unsigned int flags) {
    int from = node_of(parent)->descriptor, to = node_of(other_parent)->descriptor;
    answer(request, renameat2(from, name, to, other, flags));
}

static void serve_statfs(fuse_req_t request, fuse_ino_t id) {
    struct statvfs statistics;
    if (fstatvfs(node_of(id)->descriptor, &statistics) == 0) {
        fuse_reply_statfs(request, &statistics);
    } else {
        fuse_reply_err(request, errno);
    }
}

static void serve_forget(fuse_req_t request, fuse_ino_t id, uint64_t lookups) {
    let_go(id, lookups);
    fuse_reply_none(request);
}

static void serve_forget_multi(fuse_req_t request, size_t count, struct fuse_forget_data *forgotten) {
    for (size_t i = 0; i < count; i++) let_go(forgotten[i].ino, forgotten[i].nlookup);
    fuse_reply_none(request);
}

void add_names(struct fuse_lowlevel_ops *operations) {
    operations->lookup = serve_lookup;
    operations->getattr = serve_getattr;
    operations->setattr = serve_setattr;
    operations->readlink = serve_readlink;
    operations->mkdir = serve_mkdir;
    operations->mknod = serve_mknod;
    operations->symlink = serve_symlink;
    operations->link = serve_link;
    operations->unlink = serve_unlink;
    operations->rmdir = serve_rmdir;
    operations->rename = serve_rename;
    operations->statfs = serve_statfs;
    operations->forget = serve_forget;
    operations->forget_multi = serve_forget_multi;
}
