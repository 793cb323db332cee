// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "CTestSupport.h"

#include <malloc.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

int ctest_spawn_at(posix_spawn_file_actions_t *actions, const char *directory) {
    return posix_spawn_file_actions_addchdir_np(actions, directory);
}

int ctest_spawn_close_from(posix_spawn_file_actions_t *actions, int first) {
    return posix_spawn_file_actions_addclosefrom_np(actions, first);
}

size_t ctest_heap_in_use(void) {
    struct mallinfo2 information = mallinfo2();
    return information.uordblks + information.hblkhd;
}

int ctest_bind_to_one_processor(void) {
    cpu_set_t one;
    CPU_ZERO(&one);
    int current = sched_getcpu();
    if (current < 0) return -1;
    CPU_SET(current, &one);
    return sched_setaffinity(0, sizeof one, &one);
}

int ctest_appear_as(uid_t user) {
    // The raw system call changes only this thread. The function setresuid(3) would change all threads of the process.
    if (syscall(SYS_setresuid, -1, user, -1) != 0) return -1;
    setfsuid(0);
    return 0;
}
