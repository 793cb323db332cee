// SPDX-License-Identifier: Apache-2.0
// Writes and reads documents that show whether a reader has got a whole document or a torn one. A document contains its
// writer, its generation and its checksum both at its begin and at its end. Two documents of different writers or
// generations also differ in the bytes between. A document is longer than the 128 KiB that the kernel reads at once, and is
// written by several calls.
#define _GNU_SOURCE
#include "board.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WORDS = 26 * 1024, CHUNK = 32 * 1024, LONGEST = WORDS * 8 + 4096 };

struct seal {
    uint64_t writer, generation, checksum;
};

struct document {
    struct seal first;
    uint64_t middle[WORDS];
    struct seal last;
};

static uint64_t checksum(const uint64_t *words) {
    uint64_t sum = 0xcbf29ce484222325u;
    for (int i = 0; i < WORDS; i++) sum = (sum ^ words[i]) * 0x100000001b3u;
    return sum;
}

static void compose(struct document *document, uint64_t writer, uint64_t generation) {
    uint64_t word = writer * 0x9e3779b97f4a7c15u + generation;
    for (int i = 0; i < WORDS; i++) {
        word = word * 6364136223846793005u + 1442695040888963407u;
        document->middle[i] = word;
    }
    document->first = (struct seal){writer, generation, checksum(document->middle)};
    document->last = document->first;
}

static bool is_whole(const struct document *document, ssize_t length) {
    return length == (ssize_t)sizeof *document &&
           memcmp(&document->first, &document->last, sizeof document->first) == 0 &&
           document->first.checksum == checksum(document->middle);
}

// Reads a document and one byte more, so that the caller notices a file that is too long. Returns -1 with errno on failure.
static ssize_t read_all(int descriptor, void *buffer) {
    ssize_t length = 0;
    while (length < LONGEST) {
        ssize_t part = read(descriptor, (char *)buffer + length, (size_t)(LONGEST - length < CHUNK ? LONGEST - length : CHUNK));
        if (part < 0) return -1;
        if (part == 0) break;
        length += part;
    }
    return length;
}

static bool write_all(int descriptor, const struct document *document) {
    const char *bytes = (const char *)document;
    for (size_t done = 0; done < sizeof *document;) {
        size_t rest = sizeof *document - done;
        ssize_t part = write(descriptor, bytes + done, rest < CHUNK ? rest : CHUNK);
        if (part < 0) return false;
        done += (size_t)part;
    }
    return true;
}

static union {
    struct document document;
    char bytes[LONGEST];
} found;

// Writes a document and reads it back before the close. The writer has won the round if it reads exactly the bytes that it
// wrote. If writers did not take turns, one writer would overwrite bytes of another writer.
static bool take_turn(int descriptor, const struct document *document, bool *won, bool *gone) {
    if (!write_all(descriptor, document) || lseek(descriptor, 0, SEEK_SET) < 0) return false;
    ssize_t length = read_all(descriptor, &found);
    if (length < 0) return false;
    *won = length == (ssize_t)sizeof *document && memcmp(&found, document, sizeof *document) == 0;
    struct stat status;
    if (fstat(descriptor, &status) < 0) return false;
    *gone = status.st_nlink == 0;
    return true;
}

static bool write_file(const char *path, int flags, const struct document *document, bool *won, bool *gone) {
    int descriptor = open(path, O_RDWR | O_CLOEXEC | flags, 0644);
    if (descriptor < 0) return false;
    bool done = take_turn(descriptor, document, won, gone);
    int error = errno;
    if (close(descriptor) < 0) return false;
    errno = error;
    return done;
}

static bool rewrite_once(const char *path, const char *form, const struct document *document, bool *won, bool *gone) {
    if (strcmp(form, "in-place") == 0) return write_file(path, O_TRUNC, document, won, gone);
    if (strcmp(form, "rename-over") == 0) {
        char aside[4096];
        snprintf(aside, sizeof aside, "%s.new-%d", path, (int)document->first.writer);
        return write_file(aside, O_CREAT | O_EXCL, document, won, gone) && rename(aside, path) == 0;
    }
    // The file can be missing: another writer has unlinked it and has not created it again yet.
    if (unlink(path) < 0 && errno != ENOENT) return false;
    return write_file(path, O_CREAT | O_TRUNC, document, won, gone);
}

int rewrite(const char *path, const char *form, int writer) {
    static struct document document;
    for (uint64_t generation = 1; !is_over(); generation++) {
        bool won = false, gone = false;
        compose(&document, (uint64_t)writer, generation);
        if (rewrite_once(path, form, &document, &won, &gone)) {
            if (won) count(WINS);
            if (gone) count(GONE);
            count(ROUNDS);
        } else {
            note_failure(errno);
        }
        if (!counted(READY)) count(READY);
    }
    return 0;
}

static int column_of(int error) { return error == ENOENT ? MISSING : error == ESTALE ? STALE : FAILURES; }

static int read_once(const char *path) {
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return column_of(errno);
    ssize_t length = read_all(descriptor, &found);
    int column = length < 0    ? column_of(errno)
                 : length == 0 ? EMPTY
                 : is_whole(&found.document, length) ? COMPLETE
                                                     : TORN;
    close(descriptor);
    return column;
}

int read_documents(const char *path) {
    while (!is_over()) {
        bool counting = is_counting();
        int column = read_once(path);
        if (column == FAILURES) note_failure(errno);
        if (counting && column != FAILURES) count(column);
        if (counting) count(ROUNDS);
        if (!counted(READY)) count(READY);
    }
    return 0;
}
