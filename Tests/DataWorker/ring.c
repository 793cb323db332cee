// SPDX-License-Identifier: Apache-2.0
// Several writers write numbered frames in a ring, one frame after another. When pwrite has returned, the writer publishes the
// number of the frame. A reader loads the published number before it reads the frame. In the frame it must then find this
// number or a later number. Readers use pread, a mapping, or a new descriptor for each read. The offset of the first frame must
// be a multiple of 8, so that each number lies within one page.
#define _GNU_SOURCE
#include "shared.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FRAMES = 600, SIZE = 4096, WORDS = SIZE / 8 };

typedef struct {
    _Atomic uint64_t published[FRAMES];
    _Atomic int last[64];
    _Atomic uint64_t reads, writes, stale, stale_later;
    double end;
} board;

static board *shared;
static const char *file;
static int writers, offset;

static off_t place(int frame) { return (off_t)frame * SIZE + offset; }

static int write_frames(int number) {
    int descriptor = open(file, O_RDWR | O_CLOEXEC);
    if (descriptor < 0) fail("a writer's open");
    uint64_t words[WORDS];
    for (int frame = number; seconds() < shared->end;) {
        uint64_t value = atomic_load(&shared->published[frame]) + 1;
        for (int word = 0; word < WORDS; word++) words[word] = value;
        if (pwrite(descriptor, words, SIZE, place(frame)) != SIZE) fail("pwrite");
        atomic_store(&shared->published[frame], value);
        atomic_store(&shared->last[number], frame);
        atomic_fetch_add(&shared->writes, 1);
        frame += writers;
        if (frame >= FRAMES) frame = number;
    }
    return 0;
}

// Returns the lowest number in a frame. If several writes have reached the frame, this is the number of the oldest.
static uint64_t oldest(const uint64_t *words) {
    uint64_t found = words[0];
    for (int word = 1; word < WORDS; word++)
        if (words[word] < found) found = words[word];
    return found;
}

static uint64_t look(int number, int descriptor, const char *mapping, int frame) {
    uint64_t words[WORDS];
    if (number % 4 == 2) {
        for (int word = 0; word < WORDS; word++)
            words[word] = ((const volatile uint64_t *)(mapping + place(frame)))[word];
        return oldest(words);
    }
    int other = number % 4 == 3 ? open(file, O_RDONLY | O_CLOEXEC) : descriptor;
    if (other < 0) fail("a reader's open");
    if (pread(other, words, SIZE, place(frame)) != SIZE) fail("pread");
    if (other != descriptor) close(other);
    return oldest(words);
}

static int read_frames(int number) {
    int descriptor = open(file, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) fail("a reader's open");
    const char *mapping = mmap(NULL, (FRAMES + 1) * SIZE, PROT_READ, MAP_SHARED, descriptor, 0);
    if (mapping == MAP_FAILED) fail("mmap");
    uint64_t state = (uint64_t)number;
    while (seconds() < shared->end) {
        uint64_t chance = random_number(&state);
        int frame = (int)(chance % FRAMES);
        // Half of the reads are of frames near the frame that was written last, before or after it.
        if (chance >> 63) frame = (atomic_load(&shared->last[chance % writers]) + FRAMES + (int)(chance >> 32) % 8 - 4) % FRAMES;
        uint64_t published = atomic_load(&shared->published[frame]);
        atomic_fetch_add(&shared->reads, 1);
        if (look(number, descriptor, mapping, frame) >= published) continue;
        atomic_fetch_add(&shared->stale, 1);
        usleep(50000);
        if (look(number, descriptor, mapping, frame) < published) atomic_fetch_add(&shared->stale_later, 1);
    }
    return 0;
}

int ring(const char *path, int count, char **words) {
    (void)count;
    file = path;
    writers = atoi(words[1]);
    offset = atoi(words[3]);
    shared = shared_memory(sizeof(board));
    int descriptor = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor < 0 || ftruncate(descriptor, (FRAMES + 1) * SIZE) != 0) fail(path);
    close(descriptor);
    shared->end = seconds() + atof(words[0]);
    for (int number = 0; number < writers; number++) start(write_frames, number);
    for (int number = 0; number < atoi(words[2]); number++) start(read_frames, number);
    int failed = any_failed();
    printf("%lu reads, %lu writes, %lu stale, %lu of them 50 ms later\n", shared->reads, shared->writes, shared->stale,
           shared->stale_later);
    if (failed || shared->reads == 0 || shared->writes == 0) return 2;
    return shared->stale != 0;
}
