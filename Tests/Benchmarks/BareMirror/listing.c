// SPDX-License-Identifier: Apache-2.0
// Lists directories. The entries come from readdir(3) streams.
#include "mirror.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct listing {
    DIR *stream;
    long offset;
    // An entry that the mirror has read from the stream but not returned yet, because the page was full.
    struct dirent *next;
};

static void serve_opendir(fuse_req_t request, fuse_ino_t id, struct fuse_file_info *info) {
    int descriptor = openat(node_of(id)->descriptor, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct listing *listing = calloc(1, sizeof *listing);
    if (descriptor < 0 || listing == NULL || (listing->stream = fdopendir(descriptor)) == NULL) {
        fuse_reply_err(request, descriptor < 0 ? errno : ENOMEM);
        if (descriptor >= 0) close(descriptor);
        free(listing);
        return;
    }
    info->fh = (uintptr_t)listing;
    fuse_reply_open(request, info);
}

static int is_here_or_above(const char *name) { return strcmp(name, ".") == 0 || strcmp(name, "..") == 0; }

// Adds an entry to the page. Returns the size of the entry, or 0 if the directory does not contain the name any more.
static size_t add(fuse_req_t request, struct node *directory, const struct dirent *found, char *at, size_t space,
                  int has_attributes) {
    if (!has_attributes) {
        const struct stat status = {.st_ino = found->d_ino, .st_mode = (mode_t)found->d_type << 12};
        return fuse_add_direntry(request, at, space, found->d_name, &status, found->d_off);
    }
    struct fuse_entry_param entry = {.attr = {.st_ino = found->d_ino, .st_mode = (mode_t)found->d_type << 12}};
    if (!is_here_or_above(found->d_name) && look_up(directory, found->d_name, &entry) != 0) return 0;
    size_t size = fuse_add_direntry_plus(request, at, space, found->d_name, &entry, found->d_off);
    if (size > space && entry.ino != 0) let_go(entry.ino, 1);
    return size;
}

static void list(
    fuse_req_t request, fuse_ino_t id, size_t space, off_t offset, uint64_t handle, int has_attributes) {
    struct listing *listing = (struct listing *)(uintptr_t)handle;
    char *page = malloc(space);
    if (page == NULL) {
        fuse_reply_err(request, ENOMEM);
        return;
    }
    if (offset != listing->offset) {
        seekdir(listing->stream, offset);
        listing->next = NULL;
    }
    size_t used = 0;
    for (;;) {
        if (listing->next == NULL) listing->next = readdir(listing->stream);
        if (listing->next == NULL) break;
        size_t size = add(request, node_of(id), listing->next, page + used, space - used, has_attributes);
        if (size > space - used) break;
        used += size;
        listing->offset = listing->next->d_off;
        listing->next = NULL;
    }
    fuse_reply_buf(request, page, used);
    free(page);
}

static void serve_readdir(
    fuse_req_t request, fuse_ino_t id, size_t space, off_t offset, struct fuse_file_info *info) {
    list(request, id, space, offset, info->fh, 0);
}

static void serve_readdirplus(
    fuse_req_t request, fuse_ino_t id, size_t space, off_t offset, struct fuse_file_info *info) {
    list(request, id, space, offset, info->fh, 1);
}

static void serve_releasedir(fuse_req_t request, fuse_ino_t id, struct fuse_file_info *info) {
    (void)id;
    struct listing *listing = (struct listing *)(uintptr_t)info->fh;
    closedir(listing->stream);
    free(listing);
    fuse_reply_err(request, 0);
}

void add_listing(struct fuse_lowlevel_ops *operations) {
    operations->opendir = serve_opendir;
    operations->readdir = serve_readdir;
    operations->readdirplus = serve_readdirplus;
    operations->releasedir = serve_releasedir;
}
