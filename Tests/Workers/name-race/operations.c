// SPDX-License-Identifier: Apache-2.0
// The operations, and the errnos that each of them may return.
#define _GNU_SOURCE
#include "operations.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { DIRECTORIES = sizeof((struct racer *)0)->directories / sizeof(int) };

// Returns a random number by SplitMix64. The whole state of this algorithm is one number, which begins as the seed.
unsigned random_below(struct racer *racer, unsigned limit) {
    unsigned long long mixed = racer->chance += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    return (unsigned)((mixed ^ mixed >> 31) % limit);
}

// Returns one of only three names, so that the processes often use the same name.
static const char *any_name(struct racer *racer) {
    static const char *names[] = {"a", "b", "c"};
    return names[random_below(racer, 3)];
}

static void add_names(struct racer *racer, char *path, size_t room) {
    switch (random_below(racer, 8)) {
    case 0: case 1: snprintf(path, room, "%s/%s", any_name(racer), any_name(racer)); break;
    case 2: snprintf(path, room, "%s/../%s", any_name(racer), any_name(racer)); break;
    case 3: snprintf(path, room, "%s/", any_name(racer)); break;
    default: snprintf(path, room, "%s", any_name(racer));
    }
}

// Returns a random path that begins at the current directory or at the root, for calls that take no descriptor.
static struct place any_path(struct racer *racer) {
    struct place place = {.directory = AT_FDCWD};
    size_t used = 0;
    if (random_below(racer, 2)) used = (size_t)snprintf(place.path, sizeof place.path, "%s/", racer->root);
    add_names(racer, place.path + used, sizeof place.path - used);
    return place;
}

static struct place any_place(struct racer *racer) {
    if (random_below(racer, 3)) return any_path(racer);
    struct place place = {.directory = racer->directories[random_below(racer, DIRECTORIES)]};
    add_names(racer, place.path, sizeof place.path);
    return place;
}

static int result(int returned) { return returned < 0 ? errno : 0; }

// Opens a file, uses it and closes it. Returns the errno of the first call that fails.
static int use(struct racer *racer, int flags) {
    struct place place = any_place(racer);
    int file = openat(place.directory, place.path, flags | O_CLOEXEC, 0755);
    if (file < 0) return errno;
    char text[16] = "race\n";
    struct stat status;
    int error = result(fstat(file, &status));
    if (!error && !(flags & (O_PATH | O_DIRECTORY)) && S_ISREG(status.st_mode)) {
        int writes = (flags & O_ACCMODE) != O_RDONLY;
        error = result((int)(writes ? write(file, text, 5) : read(file, text, sizeof text)));
    }
    int closing = result(close(file));
    return error ? error : closing;
}

static int open_read(struct racer *racer) { return use(racer, O_RDONLY); }
static int open_write(struct racer *racer) { return use(racer, O_WRONLY); }
static int open_append(struct racer *racer) { return use(racer, O_RDWR | O_APPEND); }
static int open_truncate(struct racer *racer) { return use(racer, O_WRONLY | O_TRUNC); }
static int open_create(struct racer *racer) { return use(racer, O_RDWR | O_CREAT); }
static int open_new(struct racer *racer) { return use(racer, O_WRONLY | O_CREAT | O_TRUNC); }
static int open_exclusive(struct racer *racer) { return use(racer, O_WRONLY | O_CREAT | O_EXCL); }
static int open_directory(struct racer *racer) { return use(racer, O_RDONLY | O_DIRECTORY); }
static int open_nofollow(struct racer *racer) { return use(racer, O_RDONLY | O_NOFOLLOW); }
static int open_path(struct racer *racer) { return use(racer, O_PATH); }

static int do_stat(struct racer *racer) {
    struct place place = any_place(racer);
    struct stat status;
    return result(fstatat(place.directory, place.path, &status, 0));
}

static int do_lstat(struct racer *racer) {
    struct place place = any_place(racer);
    struct stat status;
    return result(fstatat(place.directory, place.path, &status, AT_SYMLINK_NOFOLLOW));
}

static int do_access(struct racer *racer) {
    struct place place = any_place(racer);
    return result(faccessat(place.directory, place.path, R_OK, 0));
}

static int do_link(struct racer *racer) {
    struct place from = any_place(racer), to = any_place(racer);
    return result(linkat(from.directory, from.path, to.directory, to.path, 0));
}

static int do_symlink(struct racer *racer) {
    struct place place = any_place(racer);
    return result(symlinkat(any_name(racer), place.directory, place.path));
}

static int do_readlink(struct racer *racer) {
    struct place place = any_place(racer);
    char text[16];
    return result((int)readlinkat(place.directory, place.path, text, sizeof text));
}

static int do_unlink(struct racer *racer) {
    struct place place = any_place(racer);
    return result(unlinkat(place.directory, place.path, 0));
}

static int rename_with(struct racer *racer, unsigned flags) {
    struct place from = any_place(racer), to = any_place(racer);
    return result(renameat2(from.directory, from.path, to.directory, to.path, flags));
}

static int do_rename(struct racer *racer) { return rename_with(racer, 0); }
static int rename_to_free(struct racer *racer) { return rename_with(racer, RENAME_NOREPLACE); }
static int exchange(struct racer *racer) { return rename_with(racer, RENAME_EXCHANGE); }

// Makes the steps of a save: writes a new file under a name of its own, and then renames it over the document.
static int save(struct racer *racer) {
    char side[32];
    snprintf(side, sizeof side, "side-%d", racer->number);
    int file = openat(racer->directories[0], side, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
    if (file < 0) return errno;
    int error = result((int)write(file, "saved\n", 6));
    int closing = result(close(file));
    struct place to = any_place(racer);
    int renaming = result(renameat(racer->directories[0], side, to.directory, to.path));
    if (renaming && unlinkat(racer->directories[0], side, 0) < 0) return errno;
    return error ? error : closing ? closing : renaming;
}

static int make_directory(struct racer *racer) {
    struct place place = any_place(racer);
    return result(mkdirat(place.directory, place.path, 0755));
}

static int remove_directory(struct racer *racer) {
    struct place place = any_place(racer);
    return result(unlinkat(place.directory, place.path, AT_REMOVEDIR));
}

static int make_node(struct racer *racer) {
    struct place place = any_place(racer);
    return result(mknodat(place.directory, place.path, S_IFREG | 0755, 0));
}

static int list(struct racer *racer) {
    struct place place = any_path(racer);
    DIR *directory = opendir(place.path);
    if (!directory) return errno;
    do errno = 0;
    while (readdir(directory));
    int reading = errno, closing = result(closedir(directory));
    return reading ? reading : closing;
}

static int do_truncate(struct racer *racer) { return result(truncate(any_path(racer).path, 3)); }

static int do_chmod(struct racer *racer) {
    struct place place = any_place(racer);
    return result(fchmodat(place.directory, place.path, random_below(racer, 2) ? 0755 : 0700, 0));
}

static int do_chown(struct racer *racer) {
    struct place place = any_place(racer);
    return result(fchownat(place.directory, place.path, geteuid(), (gid_t)-1, AT_SYMLINK_NOFOLLOW));
}

static int set_times(struct racer *racer) {
    struct place place = any_place(racer);
    return result(utimensat(place.directory, place.path, NULL, AT_SYMLINK_NOFOLLOW));
}

static int list_attributes(struct racer *racer) {
    char names[4096];
    return result((int)llistxattr(any_path(racer).path, names, sizeof names));
}

// Changes into a random directory, or back to the first directory, which is never removed.
static int change_directory(struct racer *racer) {
    if (random_below(racer, 2)) return result(fchdir(racer->directories[0]));
    return result(chdir(any_path(racer).path));
}

static int tell_directory(struct racer *racer) {
    (void)racer;
    char path[PATH_MAX];
    return getcwd(path, sizeof path) ? 0 : errno;
}

// Opens another directory as a start of later paths: in half of the cases for reading, else with O_PATH.
static int keep_directory(struct racer *racer) {
    int *slot = &racer->directories[1 + random_below(racer, DIRECTORIES - 1)];
    struct place place = any_place(racer);
    int flags = (random_below(racer, 2) ? O_PATH : O_RDONLY) | O_DIRECTORY | O_CLOEXEC;
    int directory = openat(place.directory, place.path, flags);
    if (directory < 0) return errno;
    int closing = result(close(*slot));
    *slot = directory;
    return closing;
}

// Removes a tree like `rm -r`, which keeps the tree small. Names that other processes have removed or added meanwhile are no
// errors.
static int remove_tree(int directory, const char *name) {
    if (unlinkat(directory, name, 0) == 0) return 0;
    if (errno != EISDIR) return errno == ENOENT ? 0 : errno;
    int inside = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *stream = inside < 0 ? NULL : fdopendir(inside);
    if (!stream) return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 : errno;
    int error = 0;
    for (struct dirent *entry; !error;) {
        errno = 0;
        if (!(entry = readdir(stream))) {
            error = errno;
            break;
        }
        if (entry->d_name[0] != '.') error = remove_tree(inside, entry->d_name);
    }
    closedir(stream);
    if (error || unlinkat(directory, name, AT_REMOVEDIR) == 0) return error;
    return errno == ENOENT || errno == ENOTEMPTY || errno == ENOTDIR ? 0 : errno;
}

static int remove_all(struct racer *racer) {
    return remove_tree(racer->directories[0], any_name(racer));
}

// The errnos that a path can cause: a name is missing, is no directory, or is a link that leads to itself.
#define PATH ENOENT, ENOTDIR, ELOOP
#define ALLOW(...) (const int[]){__VA_ARGS__, 0}

const struct operation operations[] = {
    {"open-read", open_read, ALLOW(PATH)},
    {"open-write", open_write, ALLOW(PATH, EISDIR)},
    {"open-append", open_append, ALLOW(PATH, EISDIR)},
    {"open-truncate", open_truncate, ALLOW(PATH, EISDIR)},
    {"open-create", open_create, ALLOW(PATH, EISDIR)},
    {"open-new", open_new, ALLOW(PATH, EISDIR)},
    {"open-exclusive", open_exclusive, ALLOW(PATH, EISDIR, EEXIST)},
    {"open-directory", open_directory, ALLOW(PATH)},
    {"open-nofollow", open_nofollow, ALLOW(PATH)},
    {"open-path", open_path, ALLOW(PATH)},
    {"stat", do_stat, ALLOW(PATH)},
    {"lstat", do_lstat, ALLOW(PATH)},
    {"access", do_access, ALLOW(PATH)},
    // EPERM: a directory can have only one name.
    {"link", do_link, ALLOW(PATH, EEXIST, EPERM)},
    {"symlink", do_symlink, ALLOW(PATH, EEXIST)},
    {"readlink", do_readlink, ALLOW(PATH, EINVAL)},
    {"unlink", do_unlink, ALLOW(PATH, EISDIR)},
    // EINVAL is allowed, because a directory cannot be moved into itself.
    {"rename", do_rename, ALLOW(PATH, EISDIR, ENOTEMPTY, EINVAL)},
    {"rename-to-free", rename_to_free, ALLOW(PATH, EEXIST, EINVAL)},
    {"exchange", exchange, ALLOW(PATH, EINVAL)},
    {"save", save, ALLOW(PATH, EISDIR)},
    {"mkdir", make_directory, ALLOW(PATH, EEXIST)},
    {"rmdir", remove_directory, ALLOW(PATH, ENOTEMPTY)},
    {"mknod", make_node, ALLOW(PATH, EEXIST)},
    {"list", list, ALLOW(PATH)},
    {"truncate", do_truncate, ALLOW(PATH, EISDIR)},
    {"chmod", do_chmod, ALLOW(PATH)},
    {"chown", do_chown, ALLOW(PATH)},
    {"set-times", set_times, ALLOW(PATH)},
    {"list-attributes", list_attributes, ALLOW(PATH)},
    {"chdir", change_directory, ALLOW(PATH)},
    {"getcwd", tell_directory, ALLOW(ENOENT)},
    {"keep-directory", keep_directory, ALLOW(PATH)},
    {"remove-all", remove_all, ALLOW(PATH)},
};

const size_t operation_count = sizeof operations / sizeof *operations;
