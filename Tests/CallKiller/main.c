// SPDX-License-Identifier: Apache-2.0
// CallKiller PID NUMBER SELECTION: kills a process just before one of its system calls.
// CallKiller start NUMBER SELECTION COMMAND ARGUMENT...: starts the command, and kills it in the same manner.
//
// The program traces all threads of the process. It counts their system calls from now on, in the order in which they begin,
// and sends SIGKILL just before the call with NUMBER. The kernel then leaves out this call. SELECTION is one of:
//
//     changing    counts only calls that change files or answer requests of a mount
//     all         counts all calls
//
// SIGTERM ends the counting: the process is killed wherever it is. At last the program prints "killed before CALL" or
// "killed after COUNT calls". It prints "tracing" when it has begun to count. strace(1) has such an injection as well, but
// counts the calls of each thread separately. So it could not stop at each call of a process with several threads.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t process;
static long target;
static bool counts_all;
static long counted;
static char killed_before[512];

// How a call that changes files is recognised.
enum form {
    ALWAYS,
    // Only if the descriptor in the first argument is a file or a FUSE device, and not the standard output or error.
    ON_FILE,
    // Only with flags that make or empty a file. The flags are in the third argument, or in the first bytes to which it points.
    OPENING,
    OPENING_INDIRECTLY,
    // Only if the second argument shares the blocks of files.
    SHARING,
};

static const struct call {
    long number;
    const char *name;
    enum form form;
} calls[] = {
    {SYS_openat, "openat", OPENING},
    {SYS_openat2, "openat2", OPENING_INDIRECTLY},
    {SYS_mkdirat, "mkdirat", ALWAYS},
    {SYS_mknodat, "mknodat", ALWAYS},
    {SYS_linkat, "linkat", ALWAYS},
    {SYS_symlinkat, "symlinkat", ALWAYS},
    {SYS_renameat2, "renameat2", ALWAYS},
#ifdef SYS_renameat
    {SYS_renameat, "renameat", ALWAYS},
#endif
#ifdef SYS_rename
    {SYS_rename, "rename", ALWAYS},
    {SYS_unlink, "unlink", ALWAYS},
    {SYS_mkdir, "mkdir", ALWAYS},
    {SYS_link, "link", ALWAYS},
#endif
    {SYS_unlinkat, "unlinkat", ALWAYS},
    {SYS_write, "write", ON_FILE},
    {SYS_writev, "writev", ON_FILE},
    {SYS_pwrite64, "pwrite64", ON_FILE},
    {SYS_pwritev, "pwritev", ON_FILE},
    {SYS_pwritev2, "pwritev2", ON_FILE},
    {SYS_splice, "splice", ALWAYS},
    {SYS_sendfile, "sendfile", ALWAYS},
    {SYS_copy_file_range, "copy_file_range", ALWAYS},
    {SYS_ioctl, "ioctl", SHARING},
    {SYS_truncate, "truncate", ALWAYS},
    {SYS_ftruncate, "ftruncate", ALWAYS},
    {SYS_fallocate, "fallocate", ALWAYS},
    {SYS_fsync, "fsync", ALWAYS},
    {SYS_fdatasync, "fdatasync", ALWAYS},
    {SYS_fchmod, "fchmod", ALWAYS},
    {SYS_fchmodat, "fchmodat", ALWAYS},
    {SYS_fchown, "fchown", ALWAYS},
    {SYS_fchownat, "fchownat", ALWAYS},
    {SYS_utimensat, "utimensat", ALWAYS},
    {SYS_setxattr, "setxattr", ALWAYS},
    {SYS_fsetxattr, "fsetxattr", ALWAYS},
    {SYS_removexattr, "removexattr", ALWAYS},
    {SYS_fremovexattr, "fremovexattr", ALWAYS},
};

static void fail(const char *what) {
    fprintf(stderr, "CallKiller: %s: %s\n", what, strerror(errno));
    exit(1);
}

static const char *file_of(uint64_t descriptor) {
    static char link[64], path[256];
    snprintf(link, sizeof link, "/proc/%d/fd/%d", process, (int)descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    return path;
}

static bool makes_file(uint64_t flags) { return flags & (O_CREAT | O_TRUNC); }

static bool is_change(pid_t thread, const struct call *call, const struct __ptrace_syscall_info *info) {
    const uint64_t *arguments = info->entry.args;
    switch (call->form) {
    case ALWAYS: return true;
    case ON_FILE: return arguments[0] > 2 && file_of(arguments[0])[0] == '/';
    case OPENING: return makes_file(arguments[2]);
    case OPENING_INDIRECTLY:
        errno = 0;
        uint64_t flags = (uint64_t)ptrace(PTRACE_PEEKDATA, thread, (void *)(uintptr_t)arguments[2], NULL);
        return errno != 0 || makes_file(flags);
    case SHARING: return arguments[1] == FICLONE || arguments[1] == FICLONERANGE;
    }
    return true;
}

static void kill_process(void) {
    if (kill(process, SIGKILL) != 0) fail("kill");
}

// Counts a call that is about to begin, and kills the process if it is the wanted call.
static void enter(pid_t thread) {
    struct __ptrace_syscall_info info;
    if (ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof info, &info) <= 0) return;
    if (info.op != PTRACE_SYSCALL_INFO_ENTRY) return;
    const struct call *found = NULL;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (calls[i].number == (long)info.entry.nr) found = &calls[i];
    bool counts = found != NULL && is_change(thread, found, &info);
    if (!counts && !counts_all) return;
    if (++counted != target) return;
    char name[32];
    snprintf(name, sizeof name, "call %ld", (long)info.entry.nr);
    snprintf(killed_before, sizeof killed_before, "%s %s", found ? found->name : name, file_of(info.entry.args[0]));
    kill_process();
}

static void resume(pid_t thread, int signal) {
    // The thread can have ended, because another thread has ended the process.
    if (ptrace(PTRACE_SYSCALL, thread, NULL, (void *)(intptr_t)signal) != 0 && errno != ESRCH) fail("PTRACE_SYSCALL");
}

// Handles one report about a thread. Returns false when the process has ended.
static bool handle(pid_t thread, int status) {
    if (WIFEXITED(status) || WIFSIGNALED(status)) return thread != process;
    int signal = WSTOPSIG(status), event = status >> 16;
    if (signal == (SIGTRAP | 0x80)) {
        enter(thread);
        resume(thread, 0);
    } else {
        resume(thread, event != 0 ? 0 : signal);
    }
    return true;
}

static void trace_threads(void) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", process);
    const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE;
    // A thread that is not traced yet may start a further thread, so the list is read until it has no new thread.
    for (bool found = true; found;) {
        found = false;
        DIR *threads = opendir(path);
        if (threads == NULL) fail(path);
        for (struct dirent *entry; (entry = readdir(threads)) != NULL;) {
            pid_t thread = atoi(entry->d_name);
            if (thread == 0 || ptrace(PTRACE_SEIZE, thread, NULL, (void *)options) != 0) continue;
            if (ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) == 0) found = true;
        }
        closedir(threads);
    }
}

// Starts a command that is traced from its first instruction.
static void start(char **command, const sigset_t *mask) {
    int gate[2];
    if (pipe2(gate, O_CLOEXEC) != 0) fail("pipe2");
    process = fork();
    if (process < 0) fail("fork");
    if (process == 0) {
        // The read ends when this program is traced and the other end of the pipe is closed.
        char byte;
        close(gate[1]);
        while (read(gate[0], &byte, 1) < 0 && errno == EINTR) continue;
        sigprocmask(SIG_SETMASK, mask, NULL);
        execvp(command[0], command);
        fail(command[0]);
    }
    const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
    if (ptrace(PTRACE_SEIZE, process, NULL, (void *)options) != 0) fail("PTRACE_SEIZE");
    if (ptrace(PTRACE_INTERRUPT, process, NULL, NULL) != 0) fail("PTRACE_INTERRUPT");
    int status;
    if (waitpid(process, &status, __WALL) != process || !handle(process, status)) fail("the command has ended");
    close(gate[0]);
    close(gate[1]);
}

int main(int count, char **words) {
    bool starts = count > 4 && strcmp(words[1], "start") == 0;
    if (count != 4 && !starts) return 64;
    target = atol(words[2]);
    counts_all = strcmp(words[3], "all") == 0;
    sigset_t signals, mask;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, &mask);
    if (starts) {
        start(words + 4, &mask);
    } else {
        process = atoi(words[1]);
        trace_threads();
    }
    puts("tracing");
    fflush(stdout);
    for (;;) {
        int status;
        pid_t thread;
        while ((thread = waitpid(-1, &status, __WALL | WNOHANG)) > 0) {
            if (handle(thread, status)) continue;
            if (killed_before[0] != 0)
                printf("killed before %s\n", killed_before);
            else
                printf("killed after %ld calls\n", counted);
            return 0;
        }
        if (thread < 0 && errno == ECHILD) fail("no process is traced");
        if (sigwaitinfo(&signals, NULL) == SIGTERM) kill_process();
    }
}
