// SPDX-License-Identifier: Apache-2.0
#ifndef CLINUX_H
#define CLINUX_H
// Functions and structures that Swift cannot get from its Glibc module. This module is compiled without _GNU_SOURCE, so it
// lacks O_PATH, renameat2(2), statx(2) and others. Some C structures, such as struct stat, would belong to two modules at the
// same time. This header has other structures with the same values.
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

// The result of statx(2). Times are in seconds, with nanoseconds in the fields ending with `_ns`.
struct clinux_status {
    uint64_t device, inode, links, special_device, size, blocks, attributes, mount;
    uint32_t mode, user, group, block_size;
    int64_t accessed, modified, changed, born;
    uint32_t accessed_ns, modified_ns, changed_ns, born_ns;
};
extern const uint64_t CLINUX_ATTR_IMMUTABLE, CLINUX_ATTR_APPEND, CLINUX_ATTR_VERITY;

// The result of fstatfs(2), with the names of statvfs(3).
struct clinux_filesystem {
    uint64_t block_size, fragment_size, blocks, free, available, files, files_free, files_available;
    uint64_t id, flags, name_max;
    int64_t magic;
};

// Calls statx(2). An empty name means the file of the descriptor itself. Symbolic links are never followed. With `at_hand`, the
// kernel answers from its memory, without asking the server of the file system.
int clinux_statx(int directory, const char *name, bool at_hand, struct clinux_status *out);
// Returns 1 if the file system records times of birth, 0 if it does not, or -1 and errno if this cannot be determined.
int clinux_records_birth(int descriptor);
// Whether no process has the file open for writing. The function takes a read lease on the file and releases it immediately.
// The kernel grants this lease only if no process has the file open for writing. The result is false if the kernel grants no
// leases on this file.
bool clinux_has_no_writer(int descriptor);
// Whether a process has the file open for writing. Returns false if this cannot be determined.
bool clinux_has_writer(int descriptor);
int clinux_statfs(int descriptor, struct clinux_filesystem *out);
int clinux_openat2(int directory, const char *name, uint64_t flags, uint64_t mode, uint64_t resolve);
extern const uint64_t CLINUX_RESOLVE_ONE_NAME;     // RESOLVE_BENEATH, NO_SYMLINKS and NO_MAGICLINKS
extern const uint64_t CLINUX_RESOLVE_NO_SYMLINKS;  // RESOLVE_NO_SYMLINKS and NO_MAGICLINKS
extern const uint64_t CLINUX_RESOLVE_AT_HAND;      // RESOLVE_CACHED and NO_XDEV
// These functions make a mount by descriptors. fsopen(2) prepares a file system. fsconfig(2) sets a string option of it, or a
// flag if `value` is NULL. fsmount(2) creates the file system. move_mount(2) mounts it over an open directory, or beneath the
// mount with the open root.
int clinux_fsopen(const char *type);
int clinux_fsconfig(int context, const char *key, const char *value);
int clinux_fsmount(int context, uint32_t attributes);
int clinux_move_onto(int mount, int directory);
int clinux_move_beneath(int mount, int root);
extern const uint32_t CLINUX_MOUNT_RDONLY, CLINUX_MOUNT_NOSUID, CLINUX_MOUNT_NODEV, CLINUX_MOUNT_NOEXEC;
// Calls open_tree(2). Clones the part of a mount that begins at an open directory, without other mounts in this part.
int clinux_clone_mount(int directory);
// Call name_to_handle_at(2) and open_by_handle_at(2). `handle` must have room for CLINUX_HANDLE_SIZE bytes. The function for
// name_to_handle_at(2) returns the number of bytes that it has used.
extern const int32_t CLINUX_HANDLE_SIZE;
int clinux_file_handle(int descriptor, void *handle);
int clinux_open_handle(int directory, const void *handle);
int clinux_renameat2(int od, const char *on, int nd, const char *nn, uint32_t flags);
int clinux_link_descriptor(int descriptor, int directory, const char *name);
// Changes the mode of a file that was opened with O_PATH.
int clinux_fchmod_path(int descriptor, uint32_t mode);
int clinux_fchown_path(int descriptor, uint32_t user, uint32_t group);
// Two values for a nanosecond field: CLINUX_TIME_NOW means the present time, and CLINUX_TIME_OMIT means no change.
extern const int64_t CLINUX_TIME_NOW, CLINUX_TIME_OMIT;
int clinux_utimens_path(int descriptor, int64_t as, int64_t an, int64_t ms, int64_t mn);
void clinux_release_free_memory(void);       // malloc_trim(3)
void clinux_keep_little_free_memory(void);   // mallopt(3)
// The number of processors on which the calling thread may run.
int clinux_processors(void);
// Moves the calling thread to another processor. Returns 1, or 0 if the thread may run on no other processor.
int clinux_change_processor(void);
// The number of threads that are running or ready to run, or -1 for an error. `load_average` is a descriptor of /proc/loadavg.
int clinux_running(int load_average);
int clinux_fallocate(int descriptor, int mode, int64_t offset, int64_t length);
int64_t clinux_copy_range_at(int in, int64_t in_offset, int out, int64_t out_offset, uint64_t length);
int64_t clinux_read_now(int descriptor, void *buffer, size_t count, int64_t offset);   // preadv2(2) with RWF_NOWAIT
int64_t clinux_append(int descriptor, const void *buffer, size_t count);               // pwritev2(2) with RWF_APPEND

// Functions for the identity with which the calling thread accesses files below. They make system calls directly, because
// glibc's functions would change the identity of every thread. They are in C, because they need thread-local variables.
int clinux_prepare_thread(void);
int clinux_is_prepared(void);
void clinux_become(uint32_t user, uint32_t group, uint32_t umask);
// `clinux_use` changes the user and the group, but not the umask. `clinux_become_oneself` sets the daemon's own user and group.
void clinux_use(uint32_t user, uint32_t group);
void clinux_become_oneself(void);
// Gives up the right to exceed quotas and to use blocks that are reserved for root. The calling thread loses this right, and so
// do the threads and processes that it creates later.
int clinux_give_up_resources(void);
// `clinux_act_as` makes the calling thread another user for file access, with no more rights than that user has.
// `clinux_act_as_oneself` makes it the former user, and ends the process if this fails. `clinux_acts_as` returns whether the
// thread acts as the given user.
int clinux_act_as(uint32_t user, uint32_t group, const uint32_t *groups, size_t count);
void clinux_act_as_oneself(uint32_t user, uint32_t group, const uint32_t *groups, size_t count);
int clinux_acts_as(uint32_t user, uint32_t group);
// Whether the calling thread may access the file, with its present rights for file access.
int clinux_may_access(int descriptor, int mask);
int32_t clinux_gettid(void);
int clinux_pidfd_open(int32_t process);
// Data of a thread, which need not be the first thread of its process. `clinux_pidfd_of_thread` returns a descriptor of a
// thread, and `clinux_pidfd_look` reads the present data of this thread. Process numbers are those of the daemon's PID
// namespace. Both functions fail if the kernel is too old.
struct clinux_thread {
    int32_t process, parent;
    uint32_t user;  // the real user, not the effective one
};
int clinux_pidfd_of_thread(int32_t thread);
int clinux_pidfd_look(int descriptor, struct clinux_thread *out);
// Whether a thread waits in mkdir(2), mknod(2), symlink(2), link(2) or bind(2). Returns 1 if it does, 0 if not, or -1 if the
// thread's system call is not visible.
int clinux_makes_name(int32_t thread);
// Whether a thread waits in a call that opens a file and may create the file. Returns 0 if it does not. Returns 1 if it does,
// or if the call is not visible.
int clinux_may_create(int32_t thread);
// Whether the first thread of a process has the kernel's lowest priority: nice 19, SCHED_IDLE, or the I/O class idle.
int clinux_has_lowest_priority(int32_t process);
// Whether a thread waits in a stat of a path that asks for attributes which a save changes: stat(2), lstat(2), newfstatat(2) or
// statx(2). Returns 1 if it does. Returns 0 if it does not, or if the call is not visible. Returns -1 if the thread does not
// sleep yet.
int clinux_looks_by_path(int32_t thread);
int clinux_close_range(uint32_t first, uint32_t last, uint32_t flags);
// Calls eventfd(2). With `counts_each`, each read subtracts 1 from the count, and blocks at 0. Without `counts_each`, a read
// sets the count to 0 and never blocks.
int clinux_event(int counts_each);
// Waits until the descriptor is readable, but at most for the given time. A negative time means no limit.
int clinux_poll_until(int descriptor, int64_t nanoseconds);
int clinux_umount(const char *path, int lazily);
// Removes the mount that covers a name in the directory. Fails if a process uses this mount.
int clinux_umount_in(int directory, const char *name);
// Detaches a mount by its open root, even if processes use the mount.
int clinux_detach(int root);
void clinux_name_thread(const char *name);
#endif
