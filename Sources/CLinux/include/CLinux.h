// SPDX-License-Identifier: Apache-2.0
#ifndef CLINUX_H
#define CLINUX_H
// Swift's Glibc module is compiled without _GNU_SOURCE, so O_PATH, renameat2(2), statx(2) and friends are
// invisible to it. C structures that would belong to two modules at once (struct stat and the like) are
// flattened into our own here. Only what is missing in Swift is declared.
#include "CLinuxCommand.h"
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/xattr.h>
#include "CLinuxSleep.h"
#include "CLinuxStore.h"
#include "CLinuxWatch.h"

extern const int32_t CLINUX_O_PATH;
extern const int32_t CLINUX_O_DIRECT;
extern const int32_t CLINUX_O_TMPFILE;
extern const int32_t CLINUX_O_NOATIME;
extern const uint32_t CLINUX_RENAME_NOREPLACE;
extern const uint32_t CLINUX_RENAME_EXCHANGE;

// statx(2), flattened.
struct clinux_status {
    uint64_t device, inode, links, special_device, size, blocks, attributes, mount;
    uint32_t mode, user, group, block_size;
    int64_t accessed, modified, changed, born;                       // seconds
    uint32_t accessed_ns, modified_ns, changed_ns, born_ns;
};
extern const uint64_t CLINUX_ATTR_IMMUTABLE, CLINUX_ATTR_APPEND, CLINUX_ATTR_VERITY;

// statvfs(3), flattened.
struct clinux_filesystem {
    uint64_t block_size, fragment_size, blocks, free, available, files, files_free, files_available;
    uint64_t id, flags, name_max;
    int64_t magic;
};

// An empty name means the descriptor itself. Symbolic links are never followed. What is `at_hand` is what the kernel knows, without
// asking whoever serves the file system.
int clinux_statx(int directory, const char *name, bool at_hand, struct clinux_status *out);
// Whether the file system has room for when a file was made; -1 and errno if that cannot be told.
int clinux_records_birth(int descriptor);
// Takes a lease, which nobody gets while somebody may write, and gives it back.
bool clinux_has_no_writer(int descriptor);
bool clinux_has_writer(int descriptor);                                // the other way round, and no if it cannot be told
int clinux_statfs(int descriptor, struct clinux_filesystem *out);
int clinux_openat2(int directory, const char *name, uint64_t flags, uint64_t mode, uint64_t resolve);
extern const uint64_t CLINUX_RESOLVE_ONE_NAME;   // BENEATH | NO_SYMLINKS | NO_MAGICLINKS
extern const uint64_t CLINUX_RESOLVE_NO_SYMLINKS; // nor magic ones
extern const uint64_t CLINUX_RESOLVE_AT_HAND;    // CACHED | NO_XDEV
// The mount API by descriptors: fsopen(2), fsconfig(2) with a string or, for NULL, a flag, the creation of the file system
// with fsmount(2), and move_mount(2) over a directory that is open, or beneath the mount of which a root is open.
int clinux_fsopen(const char *type);
int clinux_fsconfig(int context, const char *key, const char *value);
int clinux_fsmount(int context, uint32_t attributes);
int clinux_move_onto(int mount, int directory);
int clinux_move_beneath(int mount, int root);
extern const uint32_t CLINUX_MOUNT_RDONLY, CLINUX_MOUNT_NOSUID, CLINUX_MOUNT_NODEV, CLINUX_MOUNT_NOEXEC;
int clinux_clone_mount(int directory);   // open_tree(2), from the directory on and without what is mounted below
// name_to_handle_at(2) and open_by_handle_at(2). `handle` has room for CLINUX_HANDLE_SIZE bytes; the first gives how
// many of them are used.
extern const int32_t CLINUX_HANDLE_SIZE;
int clinux_file_handle(int descriptor, void *handle);
int clinux_open_handle(int directory, const void *handle);
int clinux_renameat2(int od, const char *on, int nd, const char *nn, uint32_t flags);
int clinux_link_descriptor(int descriptor, int directory, const char *name);
int clinux_fchmod_path(int descriptor, uint32_t mode);              // works on O_PATH
int clinux_fchown_path(int descriptor, uint32_t user, uint32_t group);
// A nanosecond field may be CLINUX_TIME_NOW or CLINUX_TIME_OMIT.
extern const int64_t CLINUX_TIME_NOW, CLINUX_TIME_OMIT;
int clinux_utimens_path(int descriptor, int64_t as, int64_t an, int64_t ms, int64_t mn);
void clinux_release_free_memory(void);                               // malloc_trim(3)
void clinux_keep_little_free_memory(void);                           // mallopt(3)
int clinux_processors(void);                                          // those the calling thread may run on
int clinux_change_processor(void);                                    // the calling thread; 0 if there is no other one
int clinux_running(int load_average);                                 // threads that run or want to, by /proc/loadavg
int clinux_fallocate(int descriptor, int mode, int64_t offset, int64_t length);
int64_t clinux_copy_range_at(int in, int64_t in_offset, int out, int64_t out_offset, uint64_t length);
int64_t clinux_read_now(int descriptor, void *buffer, size_t count, int64_t offset);   // preadv2 RWF_NOWAIT
int64_t clinux_append(int descriptor, const void *buffer, size_t count);                // pwritev2 RWF_APPEND

// What the calling thread is to the file system below. By the raw calls, because glibc's wrappers would
// change every thread; in C, because only C has thread-local variables.
int clinux_prepare_thread(void);
int clinux_is_prepared(void);
void clinux_become(uint32_t user, uint32_t group, uint32_t umask);
// The same but for the umask; and as the daemon again.
void clinux_use(uint32_t user, uint32_t group);
void clinux_become_oneself(void);
// Gives up the right to go beyond quotas and into what is kept for root, for this thread and those it makes.
int clinux_give_up_resources(void);
// Makes the calling thread somebody else to the kernel, with no more rights than that user has, and back. The second
// ends the process if it fails.
int clinux_act_as(uint32_t user, uint32_t group, const uint32_t *groups, size_t count);
void clinux_act_as_oneself(uint32_t user, uint32_t group, const uint32_t *groups, size_t count);
int clinux_acts_as(uint32_t user, uint32_t group);
int clinux_may_access(int descriptor, int mask);                      // with the thread's own effective rights
int32_t clinux_gettid(void);
int clinux_pidfd_open(int32_t process);
// Any thread, not only the first of its process; and what is true of the thread now, in our numbers. Both fail where
// the kernel is too old for them.
struct clinux_thread {
    int32_t process, parent;
    uint32_t user;                                                   // the real one
};
int clinux_pidfd_of_thread(int32_t thread);
int clinux_pidfd_look(int descriptor, struct clinux_thread *out);
// Whether a thread waits in mkdir(2), mknod(2), symlink(2), link(2) or bind(2): 1, 0, or -1 if that cannot be seen.
int clinux_makes_name(int32_t thread);
// Whether a thread waits in a call that opens a file and may create it: 0 if it does not, else 1, as where that cannot be seen.
int clinux_may_create(int32_t thread);
// Whether the kernel runs a process last of all: nice 19, SCHED_IDLE, or the I/O class idle; of its first thread.
int clinux_has_lowest_priority(int32_t process);
// Whether a thread waits in stat(2), lstat(2), newfstatat(2) or statx(2) of a path and wants to know what a save changes: 1; 0 if
// it does not, or if that cannot be seen; -1 if the thread does not sleep yet.
int clinux_looks_by_path(int32_t thread);
int clinux_close_range(uint32_t first, uint32_t last, uint32_t flags);
int clinux_event(int counts_each);                                   // eventfd(2), non-blocking unless it counts
int clinux_poll_until(int descriptor, int64_t nanoseconds);          // a negative time waits for ever
int clinux_umount(const char *path, int lazily);
int clinux_umount_in(int directory, const char *name);   // what is mounted under a name, if nothing uses it
int clinux_detach(int root);   // the mount of which the root is open, lazily
void clinux_name_thread(const char *name);
#endif
