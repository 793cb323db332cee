// SPDX-License-Identifier: Apache-2.0
// Several processes do random operations on one file. Before an operation, a process locks the bytes that it will use. The
// locks are in memory that the processes share. This memory also contains the model: the expected value of each byte of the
// file.
#define _GNU_SOURCE
#include "shared.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LARGEST = 256 * 1024, LONGEST = 40 * 1024, PROCESSES = 16, PAGE = 4096 };

// The bytes from offset `from` up to, but not including, offset `to`. The range is empty if both are equal.
typedef struct {
    int from, to;
} range;

typedef struct {
    range ranges[2];
    int is_exclusive;
} claim;

typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    claim claims[PROCESSES];
    int size;
    unsigned char bytes[LARGEST];
    _Atomic int is_over;
    _Atomic uint64_t operations[16];
    double end;
} model;

static const char *names[] = {"read", "write", "append", "truncate", "truncate by name", "map and read", "map and store",
                              "punch", "copy", "synchronize", "open anew", "read directly", "write directly", "size"};

static model *shared;
static const char *file;
static uint64_t seed, chance;
static int self, descriptor, direct;

static int any(int below) { return below > 0 ? (int)(random_number(&chance) % (uint64_t)below) : 0; }

static int meet(range one, range other) { return one.from < other.to && other.from < one.to; }

static int is_free(claim wanted) {
    for (int process = 0; process < PROCESSES; process++) {
        claim held = shared->claims[process];
        if (process == self || (!held.is_exclusive && !wanted.is_exclusive)) continue;
        for (int pair = 0; pair < 4; pair++)
            if (meet(held.ranges[pair / 2], wanted.ranges[pair % 2])) return 0;
    }
    return 1;
}

static void lock(int is_exclusive, range one, range other) {
    claim wanted = {{one, other}, is_exclusive};
    pthread_mutex_lock(&shared->mutex);
    while (!is_free(wanted)) pthread_cond_wait(&shared->changed, &shared->mutex);
    shared->claims[self] = wanted;
    pthread_mutex_unlock(&shared->mutex);
}

static void unlock(void) {
    pthread_mutex_lock(&shared->mutex);
    shared->claims[self] = (claim){0};
    pthread_cond_broadcast(&shared->changed);
    pthread_mutex_unlock(&shared->mutex);
}

static const range none = {0, 0}, all = {0, LARGEST + 1};

static range any_range(void) {
    int from = any(LARGEST), longest = any(4) ? LONGEST : 2 * PAGE, to = from + 1 + any(longest);
    return (range){from, to > LARGEST ? LARGEST : to};
}

// Locks a range in order to change it. If the range can reach beyond the end of the file, the operation also moves the end.
// Then all bytes after the end are locked too.
static range lock_to_change(range wanted) {
    while (1) {
        int size = shared->size;
        range locked = wanted;
        if (wanted.to > size) locked = (range){wanted.from < size ? wanted.from : size, LARGEST + 1};
        lock(1, locked, none);
        if (shared->size == size || wanted.to <= shared->size) return wanted;
        unlock();
    }
}

// Locks a range in order to read it. Returns the part of the range that lies before the end of the file.
static range lock_to_read(range wanted) {
    lock(0, wanted, none);
    if (wanted.to > shared->size) {
        // The range reaches beyond the end of the file. So the bytes after the end are locked too, and no other process can
        // move the end.
        unlock();
        lock(0, (range){wanted.from < shared->size ? wanted.from : shared->size, LARGEST + 1}, wanted);
    }
    if (wanted.from > shared->size) wanted.from = shared->size;
    if (wanted.to > shared->size) wanted.to = shared->size;
    return wanted;
}

static void differ(const char *what, range compared, const unsigned char *found, int length) {
    int wanted = compared.to - compared.from, first = 0;
    while (first < length && first < wanted && found[first] == shared->bytes[compared.from + first]) first += 1;
    printf("%s by process %d, seed %lu: of the %d bytes from %d there are %d, and the one at %d is %d where it must be %d\n", what,
           self, seed, wanted, compared.from, length, compared.from + first, first < length ? found[first] : -1,
           first < wanted ? shared->bytes[compared.from + first] : -1);
    fflush(stdout);
    atomic_store(&shared->is_over, 1);
    unlock();
    exit(1);
}

static void compare(const char *what, range wanted, const unsigned char *found, int length) {
    if (length != wanted.to - wanted.from || memcmp(found, shared->bytes + wanted.from, (size_t)length) != 0)
        differ(what, wanted, found, length);
}

static void fill(unsigned char *bytes, range wanted) {
    unsigned char value = (unsigned char)(1 + any(255));
    for (int place = wanted.from; place < wanted.to; place++) bytes[place - wanted.from] = (unsigned char)(value + place % 7);
}

static void note(range changed, const unsigned char *bytes) {
    memcpy(shared->bytes + changed.from, bytes, (size_t)(changed.to - changed.from));
    if (changed.to > shared->size) shared->size = changed.to;
}

static void read_some(void) {
    static unsigned char bytes[LARGEST];
    range asked = any_range(), wanted = lock_to_read(asked);
    ssize_t count = pread(descriptor, bytes, (size_t)(asked.to - asked.from), asked.from);
    if (count < 0) fail("pread");
    if (asked.from <= shared->size) compare("read", wanted, bytes, (int)count);
}

static void write_some(void) {
    static unsigned char bytes[LARGEST];
    range wanted = lock_to_change(any_range());
    fill(bytes, wanted);
    if (pwrite(descriptor, bytes, (size_t)(wanted.to - wanted.from), wanted.from) != wanted.to - wanted.from) fail("pwrite");
    note(wanted, bytes);
}

static void append_some(void) {
    static unsigned char bytes[LARGEST];
    lock(1, (range){shared->size, LARGEST + 1}, none);
    range wanted = {shared->size, shared->size + 1 + any(3 * PAGE)};
    // While this process waited for the lock, another process may have moved the end of the file. Then the lock covers other
    // bytes than needed.
    if (wanted.from < shared->claims[self].ranges[0].from || wanted.to > LARGEST) return;
    int appending = open(file, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (appending < 0) fail("open to append");
    fill(bytes, wanted);
    if (write(appending, bytes, (size_t)(wanted.to - wanted.from)) != wanted.to - wanted.from) fail("append");
    close(appending);
    note(wanted, bytes);
}

static void cut(int is_by_name) {
    lock(1, all, none);
    int size = any(LARGEST);
    if ((is_by_name ? truncate(file, size) : ftruncate(descriptor, size)) != 0) fail("truncate");
    int from = size < shared->size ? size : shared->size;
    memset(shared->bytes + from, 0, (size_t)(LARGEST - from));
    shared->size = size;
}

// Maps the pages that contain a range of the file.
static unsigned char *map(range wanted, int protection, size_t *length) {
    int first = wanted.from / PAGE * PAGE;
    *length = (size_t)(wanted.to - first);
    unsigned char *mapping = mmap(NULL, *length, protection, MAP_SHARED, descriptor, first);
    if (mapping == MAP_FAILED) fail("mmap");
    return mapping;
}

static void map_and_read(void) {
    range wanted = lock_to_read(any_range());
    if (wanted.from == wanted.to) return;
    size_t length;
    unsigned char *mapping = map(wanted, PROT_READ, &length);
    compare("map and read", wanted, mapping + wanted.from % PAGE, wanted.to - wanted.from);
    munmap(mapping, length);
}

static void map_and_store(void) {
    static unsigned char bytes[LARGEST];
    range wanted = any_range(), pages = {wanted.from / PAGE * PAGE, (wanted.to + PAGE - 1) / PAGE * PAGE};
    // The kernel can drop a page that it is writing to the disk, and read the page again. If a process wrote to its mapping of
    // the page in between, this write would be lost. No file system in user space can notice this. So no process uses a page
    // while another process writes to it.
    lock(1, pages, none);
    if (wanted.to > shared->size) return;
    size_t length;
    unsigned char *mapping = map(wanted, PROT_READ | PROT_WRITE, &length);
    fill(bytes, wanted);
    memcpy(mapping + wanted.from % PAGE, bytes, (size_t)(wanted.to - wanted.from));
    if (any(2) && msync(mapping, length, MS_SYNC) != 0) fail("msync");
    munmap(mapping, length);
    note(wanted, bytes);
}

static void punch(void) {
    range wanted = any_range();
    lock(1, wanted, none);
    if (wanted.to > shared->size) return;
    if (fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, wanted.from, wanted.to - wanted.from) != 0)
        fail("fallocate");
    memset(shared->bytes + wanted.from, 0, (size_t)(wanted.to - wanted.from));
}

static void copy(void) {
    range source = any_range(), target = any_range();
    int length = source.to - source.from < target.to - target.from ? source.to - source.from : target.to - target.from;
    source.to = source.from + length;
    target.to = target.from + length;
    if (meet(source, target)) return;
    lock(1, source, target);
    if (source.to > shared->size || target.to > shared->size) return;
    loff_t from = source.from, to = target.from;
    while (to < target.to) {
        ssize_t count = copy_file_range(descriptor, &from, descriptor, &to, (size_t)(target.to - to), 0);
        if (count <= 0) fail("copy_file_range");
    }
    memcpy(shared->bytes + target.from, shared->bytes + source.from, (size_t)length);
}

static void open_anew(void) {
    if (descriptor >= 0) close(descriptor);
    if (direct >= 0) close(direct);
    descriptor = open(file, O_RDWR | O_CLOEXEC);
    if (descriptor < 0) fail("open");
    // If the file system does not support O_DIRECT, `direct` is -1 after this line.
    direct = open(file, O_RDWR | O_DIRECT | O_CLOEXEC);
}

static range any_pages(void) {
    range wanted = any_range();
    return (range){wanted.from / PAGE * PAGE, (wanted.to + PAGE - 1) / PAGE * PAGE};
}

static void go_directly(int is_write) {
    static unsigned char bytes[LARGEST] __attribute__((aligned(PAGE)));
    range wanted = any_pages();
    lock(is_write, wanted, none);
    if (direct < 0 || wanted.to > shared->size) return;
    size_t length = (size_t)(wanted.to - wanted.from);
    if (is_write) {
        fill(bytes, wanted);
        if (pwrite(direct, bytes, length, wanted.from) != (ssize_t)length) fail("pwrite of O_DIRECT");
        return note(wanted, bytes);
    }
    ssize_t count = pread(direct, bytes, length, wanted.from);
    // On ext4 without Truce this error also occurs, if another process writes to a mapping of these pages at the same time.
    if (count < 0 && errno == EIO) return;
    if (count < 0) fail("pread of O_DIRECT");
    compare("read directly", wanted, bytes, (int)count);
}

static void look_at_size(void) {
    lock(0, all, none);
    off_t size = lseek(descriptor, 0, SEEK_END);
    if (size == shared->size) return;
    printf("size by process %d, seed %lu: it is %ld where it must be %d\n", self, seed, (long)size, shared->size);
    fflush(stdout);
    atomic_store(&shared->is_over, 1);
    unlock();
    exit(1);
}

static void act(int operation) {
    atomic_fetch_add(&shared->operations[operation], 1);
    switch (operation) {
        case 0: return read_some();
        case 1: return write_some();
        case 2: return append_some();
        case 3: return cut(0);
        case 4: return cut(1);
        case 5: return map_and_read();
        case 6: return map_and_store();
        case 7: return punch();
        case 8: return copy();
        case 9: {
            lock(0, none, none);
            if (fsync(descriptor) != 0) fail("fsync");
            return;
        }
        case 10: return open_anew();
        case 11: return go_directly(0);
        case 12: return go_directly(1);
        default: return look_at_size();
    }
}

// For each kind of operation, how many of 100 operations are of this kind.
static const int shares[] = {22, 18, 5, 2, 1, 14, 10, 4, 6, 1, 4, 5, 4, 4};

static int any_operation(void) {
    int left = any(100), operation = 0;
    while (left >= shares[operation]) left -= shares[operation++];
    return operation;
}

static int run(int number) {
    self = number;
    chance = seed + (uint64_t)number;
    descriptor = direct = -1;
    open_anew();
    while (seconds() < shared->end && !atomic_load(&shared->is_over)) {
        act(any_operation());
        unlock();
    }
    return 0;
}

static void share_locks(void) {
    pthread_mutexattr_t mutex;
    pthread_condattr_t condition;
    pthread_mutexattr_init(&mutex);
    pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
    pthread_condattr_init(&condition);
    pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&shared->mutex, &mutex);
    pthread_cond_init(&shared->changed, &condition);
}

int mixed(const char *path, int count, char **words) {
    (void)count;
    file = path;
    int processes = atoi(words[1]);
    seed = strtoull(words[2], NULL, 10);
    shared = shared_memory(sizeof(model));
    share_locks();
    int made = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (made < 0) fail(path);
    close(made);
    printf("seed %lu\n", seed);
    shared->end = seconds() + atof(words[0]);
    for (int number = 0; number < processes && number < PROCESSES; number++) start(run, number);
    int failed = any_failed();
    for (int operation = 0; operation < 14; operation++)
        printf("%s%s %lu", operation ? ", " : "", names[operation], shared->operations[operation]);
    printf("\n");
    return failed;
}
