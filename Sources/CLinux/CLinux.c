// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "CLinux.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/openat2.h>
#include <linux/securebits.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

const int32_t CLINUX_O_PATH = O_PATH;
const int32_t CLINUX_O_DIRECT = O_DIRECT;
const int32_t CLINUX_O_TMPFILE = O_TMPFILE;
const int32_t CLINUX_O_NOATIME = O_NOATIME;
const uint32_t CLINUX_RENAME_NOREPLACE = RENAME_NOREPLACE;
const uint32_t CLINUX_RENAME_EXCHANGE = RENAME_EXCHANGE;
const uint64_t CLINUX_ATTR_IMMUTABLE = STATX_ATTR_IMMUTABLE;
const uint64_t CLINUX_ATTR_APPEND = STATX_ATTR_APPEND;
const uint64_t CLINUX_ATTR_VERITY = STATX_ATTR_VERITY;
const uint64_t CLINUX_RESOLVE_ONE_NAME = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
const uint64_t CLINUX_RESOLVE_NO_SYMLINKS = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
const uint64_t CLINUX_RESOLVE_AT_HAND = RESOLVE_CACHED | RESOLVE_NO_XDEV;
const int64_t CLINUX_TIME_NOW = UTIME_NOW;
const int64_t CLINUX_TIME_OMIT = UTIME_OMIT;

int clinux_statx(int directory, const char *name, bool at_hand, struct clinux_status *out) {
    struct statx s;
    int flags = AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT;
    flags |= at_hand ? AT_STATX_DONT_SYNC : AT_STATX_SYNC_AS_STAT;
    if (statx(directory, name, flags, STATX_BASIC_STATS | STATX_BTIME | STATX_MNT_ID, &s) != 0) return -1;
    out->device = makedev(s.stx_dev_major, s.stx_dev_minor);
    out->inode = s.stx_ino;
    out->links = s.stx_nlink;
    out->special_device = makedev(s.stx_rdev_major, s.stx_rdev_minor);
    out->size = s.stx_size;
    out->blocks = s.stx_blocks;
    out->attributes = s.stx_attributes & s.stx_attributes_mask;
    out->mount = s.stx_mnt_id;
    out->mode = s.stx_mode;
    out->user = s.stx_uid;
    out->group = s.stx_gid;
    out->block_size = s.stx_blksize;
    out->accessed = s.stx_atime.tv_sec;
    out->accessed_ns = s.stx_atime.tv_nsec;
    out->modified = s.stx_mtime.tv_sec;
    out->modified_ns = s.stx_mtime.tv_nsec;
    out->changed = s.stx_ctime.tv_sec;
    out->changed_ns = s.stx_ctime.tv_nsec;
    int has_birth = (s.stx_mask & STATX_BTIME) != 0;
    out->born = has_birth ? s.stx_btime.tv_sec : 0;
    out->born_ns = has_birth ? s.stx_btime.tv_nsec : 0;
    return 0;
}

int clinux_records_birth(int descriptor) {
    struct statx s;
    if (statx(descriptor, "", AT_EMPTY_PATH, STATX_BTIME, &s) != 0) return -1;
    return (s.stx_mask & STATX_BTIME) != 0;
}

bool clinux_has_no_writer(int descriptor) {
    if (fcntl(descriptor, F_SETLEASE, F_RDLCK) != 0) return false;
    fcntl(descriptor, F_SETLEASE, F_UNLCK);
    return true;
}

bool clinux_has_writer(int descriptor) { return !clinux_has_no_writer(descriptor) && errno == EAGAIN; }

int clinux_statfs(int descriptor, struct clinux_filesystem *out) {
    struct statfs s;
    if (fstatfs(descriptor, &s) != 0) return -1;
    out->block_size = s.f_bsize;
    out->fragment_size = s.f_frsize ? s.f_frsize : s.f_bsize;
    out->blocks = s.f_blocks;
    out->free = s.f_bfree;
    out->available = s.f_bavail;
    out->files = s.f_files;
    out->files_free = s.f_ffree;
    out->files_available = s.f_ffree;
    memcpy(&out->id, &s.f_fsid, sizeof out->id);
    out->flags = s.f_flags;
    out->name_max = s.f_namelen;
    out->magic = s.f_type;
    return 0;
}

int clinux_openat2(int directory, const char *name, uint64_t flags, uint64_t mode, uint64_t resolve) {
    struct open_how how = {.flags = flags, .mode = mode, .resolve = resolve};
    return (int)syscall(SYS_openat2, directory, name, &how, sizeof how);
}

int clinux_fsopen(const char *type) { return fsopen(type, FSOPEN_CLOEXEC); }

int clinux_fsconfig(int context, const char *key, const char *value) {
    return fsconfig(context, value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG, key, value, 0);
}

int clinux_fsmount(int context, uint32_t attributes) {
    if (fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) != 0) return -1;
    return fsmount(context, FSMOUNT_CLOEXEC, attributes);
}

int clinux_move_onto(int mount, int directory) {
    return move_mount(mount, "", directory, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}

int clinux_move_beneath(int mount, int root) {
    // 0x200 is MOVE_MOUNT_BENEATH, which came with Linux 6.5 and is missing in older headers of glibc.
    return move_mount(mount, "", root, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH | 0x200);
}

const uint32_t CLINUX_MOUNT_RDONLY = MOUNT_ATTR_RDONLY, CLINUX_MOUNT_NOSUID = MOUNT_ATTR_NOSUID,
               CLINUX_MOUNT_NODEV = MOUNT_ATTR_NODEV, CLINUX_MOUNT_NOEXEC = MOUNT_ATTR_NOEXEC;

int clinux_clone_mount(int directory) {
    return open_tree(directory, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
}

void clinux_release_free_memory(void) { malloc_trim(0); }

void clinux_keep_little_free_memory(void) {
    mallopt(M_MMAP_THRESHOLD, 4 << 20);
    mallopt(M_TRIM_THRESHOLD, 1 << 20);
    mallopt(M_TOP_PAD, 64 << 10);
}

int clinux_processors(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : get_nprocs();
}

int clinux_change_processor(void) {
    static _Thread_local int is_stuck;
    cpu_set_t all;
    int current = sched_getcpu();
    if (is_stuck || current < 0 || current >= CPU_SETSIZE || sched_getaffinity(0, sizeof all, &all) != 0) return 0;
    cpu_set_t others = all;
    CPU_CLR(current, &others);
    // The call fails if the thread may run on no other processor.
    if (sched_setaffinity(0, sizeof others, &others) != 0) return 0;
    // The kernel remembers which processors the thread has requested. A thread that may run on all processors requests all bits
    // of the mask. Then the thread may also run on processors that are added later.
    if (CPU_COUNT(&all) == get_nprocs()) memset(&all, 0xff, sizeof all);
    // If both calls fail, the thread may run on fewer processors than before. The thread does not move again, because each move
    // would take another processor from it.
    is_stuck = sched_setaffinity(0, sizeof all, &all) != 0 && sched_setaffinity(0, sizeof all, &all) != 0;
    return 1;
}

int clinux_running(int load_average) {
    char text[128];
    ssize_t length = pread(load_average, text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = 0;
    int running;
    return sscanf(text, "%*s %*s %*s %d/", &running) == 1 ? running : -1;
}

const int32_t CLINUX_HANDLE_SIZE = sizeof(struct file_handle) + MAX_HANDLE_SZ;

int clinux_file_handle(int descriptor, void *handle) {
    struct file_handle *out = handle;
    int mount;
    out->handle_bytes = MAX_HANDLE_SZ;
    if (name_to_handle_at(descriptor, "", out, &mount, AT_EMPTY_PATH) != 0) return -1;
    return (int)(sizeof *out + out->handle_bytes);
}

int clinux_open_handle(int directory, const void *handle) {
    // open_by_handle_at(2) only reads the handle, so the cast that removes `const` is safe.
    return open_by_handle_at(directory, (struct file_handle *)handle, O_PATH | O_CLOEXEC);
}

int clinux_renameat2(int od, const char *on, int nd, const char *nn, uint32_t flags) {
    return renameat2(od, on, nd, nn, flags);
}

int clinux_link_descriptor(int descriptor, int directory, const char *name) {
    char path[32];
    if (linkat(descriptor, "", directory, name, AT_EMPTY_PATH) == 0) return 0;
    // AT_EMPTY_PATH requires CAP_DAC_READ_SEARCH. If the daemon lacks this capability, it follows the link in /proc instead.
    if (errno != ENOENT && errno != EPERM) return -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    return linkat(AT_FDCWD, path, directory, name, AT_SYMLINK_FOLLOW);
}

int clinux_fchmod_path(int descriptor, uint32_t mode) {
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    return chmod(path, mode);
}

int clinux_fchown_path(int descriptor, uint32_t user, uint32_t group) {
    return fchownat(descriptor, "", user, group, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW);
}

int clinux_utimens_path(int descriptor, int64_t as, int64_t an, int64_t ms, int64_t mn) {
    struct timespec times[2] = {{.tv_sec = as, .tv_nsec = an}, {.tv_sec = ms, .tv_nsec = mn}};
    if (utimensat(descriptor, "", times, AT_EMPTY_PATH) == 0) return 0;
    if (errno != EINVAL) return -1;
    // Before Linux 5.8, utimensat(2) does not accept AT_EMPTY_PATH.
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    return utimensat(AT_FDCWD, path, times, 0);
}

int clinux_fallocate(int descriptor, int mode, int64_t offset, int64_t length) {
    return fallocate(descriptor, mode, offset, length);
}

int64_t clinux_copy_range_at(int in, int64_t in_offset, int out, int64_t out_offset, uint64_t length) {
    off64_t from = in_offset, to = out_offset;
    return copy_file_range(in, &from, out, &to, length, 0);
}

int64_t clinux_read_now(int descriptor, void *buffer, size_t count, int64_t offset) {
    struct iovec vector = {.iov_base = buffer, .iov_len = count};
    return preadv2(descriptor, &vector, 1, offset, RWF_NOWAIT);
}

int64_t clinux_append(int descriptor, const void *buffer, size_t count) {
    struct iovec vector = {.iov_base = (void *)buffer, .iov_len = count};
    return pwritev2(descriptor, &vector, 1, 0, RWF_APPEND);
}

static _Thread_local struct {
    uint32_t user, group, mask, own_user, own_group;
    int is_prepared, can_change;
} thread_identity;

int clinux_prepare_thread(void) {
    // umask(2) changes the umask of all threads that share a file-system context. So this thread gets a context of its own.
    if (unshare(CLONE_FS) != 0) return -1;
    umask(0);
    thread_identity.user = thread_identity.own_user = geteuid();
    thread_identity.group = thread_identity.own_group = getegid();
    thread_identity.mask = 0;
    if (geteuid() == 0) {
        // The kernel has already checked the rights of the requester. So the thread keeps root's capabilities when it acts as
        // another user.
        int bits = prctl(PR_GET_SECUREBITS);
        if (bits < 0 || prctl(PR_SET_SECUREBITS, bits | SECBIT_NO_SETUID_FIXUP) != 0) return -1;
        thread_identity.can_change = 1;
    }
    thread_identity.is_prepared = 1;
    return 0;
}

int clinux_is_prepared(void) { return thread_identity.is_prepared; }

void clinux_become(uint32_t user, uint32_t group, uint32_t mask) {
    if (!thread_identity.is_prepared) return;
    if (mask != thread_identity.mask) {
        umask(mask);
        thread_identity.mask = mask;
    }
    clinux_use(user, group);
}

void clinux_become_oneself(void) { clinux_use(thread_identity.own_user, thread_identity.own_group); }

void clinux_use(uint32_t user, uint32_t group) {
    if (!thread_identity.can_change) return;
    if (user == thread_identity.user && group == thread_identity.group) return;
    // These calls return no error. They succeed, because the thread keeps its capabilities by SECBIT_NO_SETUID_FIXUP.
    syscall(SYS_setfsgid, group);
    syscall(SYS_setfsuid, user);
    thread_identity.user = user;
    thread_identity.group = group;
}

int clinux_give_up_resources(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) != 0) return -1;
    data[CAP_TO_INDEX(CAP_SYS_RESOURCE)].effective &= ~CAP_TO_MASK(CAP_SYS_RESOURCE);
    return (int)syscall(SYS_capset, &header, data);
}

int clinux_act_as(uint32_t user, uint32_t group, const uint32_t *groups, size_t count) {
    // With SECBIT_NO_SETUID_FIXUP, the thread would keep root's capabilities as another user, and so could access all files.
    int bits = prctl(PR_GET_SECUREBITS);
    if (bits < 0) return -1;
    if (bits & SECBIT_NO_SETUID_FIXUP) {
        errno = EPERM;
        return -1;
    }
    // Only the user for file access is changed. If the effective user were changed, programs of that user could slow the thread
    // down.
    if (syscall(SYS_setgroups, count, groups) != 0) return -1;
    syscall(SYS_setfsgid, group);
    syscall(SYS_setfsuid, user);
    return 0;
}

void clinux_act_as_oneself(uint32_t user, uint32_t group, const uint32_t *groups, size_t count) {
    syscall(SYS_setfsuid, user);
    syscall(SYS_setfsgid, group);
    // setfsuid(2) and setfsgid(2) report no error, but return the number before the call. So another call with an invalid
    // number shows whether the change has succeeded.
    if ((uint32_t)syscall(SYS_setfsuid, -1) != user || (uint32_t)syscall(SYS_setfsgid, -1) != group ||
        syscall(SYS_setgroups, count, groups) != 0)
        abort();
}

int clinux_acts_as(uint32_t user, uint32_t group) {
    return (uint32_t)syscall(SYS_setfsuid, -1) == user && (uint32_t)syscall(SYS_setfsgid, -1) == group;
}

int clinux_may_access(int descriptor, int mask) {
    return (int)syscall(SYS_faccessat2, descriptor, "", mask, AT_EACCESS | AT_EMPTY_PATH);
}

int32_t clinux_gettid(void) { return (int32_t)syscall(SYS_gettid); }
int clinux_pidfd_open(int32_t process) { return (int)syscall(SYS_pidfd_open, process, 0); }
// The flag O_EXCL has the value of PIDFD_THREAD, which came with Linux 6.9 and is missing in older headers.
int clinux_pidfd_of_thread(int32_t thread) { return (int)syscall(SYS_pidfd_open, thread, O_EXCL); }

int clinux_pidfd_look(int descriptor, struct clinux_thread *out) {
    // The first version of struct pidfd_info. It is declared here, because PIDFD_GET_INFO came with Linux 6.13 and is missing
    // in older headers.
    struct {
        uint64_t mask, control_group;
        uint32_t thread, process, parent, user, group, effective_user, effective_group, saved_user, saved_group;
        uint32_t file_user, file_group;
        int32_t exit_code;
    } found = {.mask = 1 | 2};  // PIDFD_INFO_PID and PIDFD_INFO_CREDS: the numbers and the users
    _Static_assert(sizeof found == 64, "struct pidfd_info");
    if (ioctl(descriptor, _IOWR(0xFF, 11, char[64]), &found) != 0) return -1;
    out->process = (int32_t)found.process;
    out->parent = (int32_t)found.parent;
    out->user = found.user;
    return 0;
}
int clinux_close_range(uint32_t first, uint32_t last, uint32_t flags) {
    return (int)syscall(SYS_close_range, first, last, flags);
}
int clinux_event(int counts_each) {
    return eventfd(0, EFD_CLOEXEC | (counts_each ? EFD_SEMAPHORE : EFD_NONBLOCK));
}
int clinux_poll_until(int descriptor, int64_t nanoseconds) {
    struct pollfd entry = {.fd = descriptor, .events = POLLIN};
    struct timespec time = {.tv_sec = nanoseconds / 1000000000, .tv_nsec = nanoseconds % 1000000000};
    return ppoll(&entry, 1, nanoseconds < 0 ? NULL : &time, NULL);
}
int clinux_umount(const char *path, int lazily) {
    return umount2(path, UMOUNT_NOFOLLOW | (lazily ? MNT_DETACH : 0));
}
int clinux_umount_in(int directory, const char *name) {
    char path[64 + NAME_MAX];
    int length = snprintf(path, sizeof path, "/proc/self/fd/%d/%s", directory, name);
    if (length < 0 || (size_t)length >= sizeof path) return errno = ENAMETOOLONG, -1;
    return umount2(path, UMOUNT_NOFOLLOW);
}
int clinux_detach(int root) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", root);
    // umount2(2) follows the link in /proc. The link leads to the open directory itself, and not to a path.
    return umount2(path, MNT_DETACH);
}
void clinux_name_thread(const char *name) { pthread_setname_np(pthread_self(), name); }
