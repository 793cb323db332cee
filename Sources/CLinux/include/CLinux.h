// SPDX-License-Identifier: Apache-2.0
#ifndef CLINUX_H
#define CLINUX_H
// Swift's Glibc module is compiled without _GNU_SOURCE, so O_PATH, renameat2(2), statx(2) and friends are invisible to it. C
// structures that would belong to two modules at once (struct stat and the like) are flattened into own structures here. Only
// functions that Swift lacks are declared.
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

// An empty name means the descriptor itself. Symbolic links are never followed. With `at_hand` the kernel answers from its own
// knowledge, without asking the server of the file system.
int clinux_statx(int directory, const char *name, bool at_hand, struct clinux_status *out);
// Whether the file system stores birth times; -1 and errno if that cannot be determined.
int clinux_records_birth(int descriptor);
// Takes a read lease and gives it back: the kernel grants it only if no process has the file open for writing.
bool clinux_has_no_writer(int descriptor);
bool clinux_has_writer(int descriptor);                                // the opposite, and no if it cannot be determined
int clinux_statfs(int descriptor, struct clinux_filesystem *out);
int clinux_openat2(int directory, const char *name, uint64_t flags, uint64_t mode, uint64_t resolve);
extern const uint64_t CLINUX_RESOLVE_ONE_NAME;   // BENEATH | NO_SYMLINKS | NO_MAGICLINKS
extern const uint64_t CLINUX_RESOLVE_NO_SYMLINKS; // nor magic ones
extern const uint64_t CLINUX_RESOLVE_AT_HAND;    // CACHED | NO_XDEV
// The mount API by descriptors: fsopen(2), then fsconfig(2) with a string or, for NULL, a flag. fsmount(2) creates the file
// system. move_mount(2) mounts it over an open directory, or beneath the mount of an open root.
int clinux_fsopen(const char *type);
int clinux_fsconfig(int context, const char *key, const char *value);
int clinux_fsmount(int context, uint32_t attributes);
int clinux_move_onto(int mount, int directory);
int clinux_move_beneath(int mount, int root);
extern const uint32_t CLINUX_MOUNT_RDONLY, CLINUX_MOUNT_NOSUID, CLINUX_MOUNT_NODEV, CLINUX_MOUNT_NOEXEC;
int clinux_clone_mount(int directory);   // open_tree(2), from the directory on and without mounts below it
// name_to_handle_at(2) and open_by_handle_at(2). `handle` has room for CLINUX_HANDLE_SIZE bytes; the first
// function returns the number of used bytes.
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
int clinux_processors(void);                                          // processors of the calling thread
int clinux_change_processor(void);                                    // for the calling thread; 0 without another processor
int clinux_running(int load_average);                                 // threads that run or are ready, by /proc/loadavg
int clinux_fallocate(int descriptor, int mode, int64_t offset, int64_t length);
int64_t clinux_copy_range_at(int in, int64_t in_offset, int out, int64_t out_offset, uint64_t length);
int64_t clinux_read_now(int descriptor, void *buffer, size_t count, int64_t offset);   // preadv2 RWF_NOWAIT
int64_t clinux_append(int descriptor, const void *buffer, size_t count);                // pwritev2 RWF_APPEND

// The identity of the calling thread for the file system below. It uses raw calls, because glibc's wrappers would change every
// thread. It is in C, because only C has thread-local variables.
int clinux_prepare_thread(void);
int clinux_is_prepared(void);
void clinux_become(uint32_t user, uint32_t group, uint32_t umask);
// The same without the umask; and as the daemon again.
void clinux_use(uint32_t user, uint32_t group);
void clinux_become_oneself(void);
// Gives up the right to exceed quotas and to use blocks reserved for root, for this thread and its later children.
int clinux_give_up_resources(void);
// Makes the calling thread another user for the kernel, with no more rights than that user has, and back. The second ends the
// process if it fails.
int clinux_act_as(uint32_t user, uint32_t group, const uint32_t *groups, size_t count);
void clinux_act_as_oneself(uint32_t user, uint32_t group, const uint32_t *groups, size_t count);
int clinux_acts_as(uint32_t user, uint32_t group);
int clinux_may_access(int descriptor, int mask);                      // with the thread's own effective rights
int32_t clinux_gettid(void);
int clinux_pidfd_open(int32_t process);
// A descriptor of any thread, not only the first of its process; and the thread's present data, in this namespace's numbers.
// Both fail if the kernel is too old.
struct clinux_thread {
    int32_t process, parent;
    uint32_t user;                                                   // the real user
};
int clinux_pidfd_of_thread(int32_t thread);
int clinux_pidfd_look(int descriptor, struct clinux_thread *out);
// Whether a thread waits in mkdir(2), mknod(2), symlink(2), link(2) or bind(2): 1, 0, or -1 if that is not visible.
int clinux_makes_name(int32_t thread);
// Whether a thread waits in a call that opens a file and may create it: 0 if it does not, else 1, also if that is not visible.
int clinux_may_create(int32_t thread);
// Whether the first thread of a process has the kernel's lowest priority: nice 19, SCHED_IDLE, or the I/O class idle.
int clinux_has_lowest_priority(int32_t process);
// Whether a thread waits in stat(2), lstat(2), newfstatat(2) or statx(2) of a path and asks for attributes that a save changes.
// Returns 1; 0 if it does not, or if that is not visible; -1 if the thread does not sleep yet.
int clinux_looks_by_path(int32_t thread);
int clinux_close_range(uint32_t first, uint32_t last, uint32_t flags);
int clinux_event(int counts_each);                                   // eventfd(2), non-blocking unless it counts
int clinux_poll_until(int descriptor, int64_t nanoseconds);          // a negative time waits for ever
int clinux_umount(const char *path, int lazily);
int clinux_umount_in(int directory, const char *name);   // the mount under a name, if no process uses it
int clinux_detach(int root);   // the mount of the open root, lazily
void clinux_name_thread(const char *name);
#endif
