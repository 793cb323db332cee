// SPDX-License-Identifier: Apache-2.0
#include "CArchive.h"
#include <archive.h>
#include <archive_entry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int complain(struct archive *archive, char *why, size_t size) {
    const char *text = archive_error_string(archive);
    snprintf(why, size, "%s", text ? text : "unknown error");
    return -1;
}

// Copies the data of one file into the archive. A hole is written as zeros, because a zip archive cannot have holes.
static int copy_data(struct archive *from, struct archive *to, char *why, size_t size) {
    static const char zeros[1 << 16];
    const void *block;
    size_t length;
    la_int64_t offset, written = 0;
    int result;
    while ((result = archive_read_data_block(from, &block, &length, &offset)) == ARCHIVE_OK) {
        while (written < offset) {
            size_t gap = offset - written < (la_int64_t)sizeof zeros ? (size_t)(offset - written) : sizeof zeros;
            if (archive_write_data(to, zeros, gap) < 0) return complain(to, why, size);
            written += gap;
        }
        if (archive_write_data(to, block, length) < 0) return complain(to, why, size);
        written += length;
    }
    return result == ARCHIVE_EOF ? 0 : complain(from, why, size);
}

static int copy_all(struct archive *from, struct archive *to, size_t prefix, char *why, size_t size) {
    struct archive_entry *entry = archive_entry_new();
    if (!entry) return complain(from, why, size);
    int result, status = 0;
    while (status == 0 && (result = archive_read_next_header2(from, entry)) != ARCHIVE_EOF) {
        if (result < ARCHIVE_WARN) {
            status = complain(from, why, size);
            break;
        }
        archive_read_disk_descend(from);
        // Sockets, devices and pipes have no contents that could be put into an archive.
        mode_t type = archive_entry_filetype(entry);
        if (type != AE_IFREG && type != AE_IFDIR && type != AE_IFLNK) continue;
        char *name = strdup(archive_entry_pathname(entry) + prefix);
        if (!name) return complain(from, why, size);
        archive_entry_copy_pathname(entry, name);
        free(name);
        if (archive_write_header(to, entry) < ARCHIVE_WARN) status = complain(to, why, size);
        else if (type == AE_IFREG) status = copy_data(from, to, why, size);
        archive_entry_clear(entry);
    }
    archive_entry_free(entry);
    return status;
}

int carchive_zip(const char *directory, const char *archive, char *why, size_t size) {
    struct archive *from = archive_read_disk_new(), *to = archive_write_new();
    int status = -1;
    size_t length = strlen(directory);
    while (length > 1 && directory[length - 1] == '/') length--;
    char *clean = strndup(directory, length);
    const char *slash = clean ? strrchr(clean, '/') : NULL;
    if (!from || !to || !clean) {
        snprintf(why, size, "out of memory");
    } else if (archive_write_set_format_zip(to) != ARCHIVE_OK || archive_write_open_filename(to, archive) != ARCHIVE_OK) {
        status = complain(to, why, size);
    } else if (archive_read_disk_set_symlink_physical(from) != ARCHIVE_OK ||
               archive_read_disk_open(from, clean) != ARCHIVE_OK) {
        status = complain(from, why, size);
    } else {
        status = copy_all(from, to, slash ? (size_t)(slash - clean) + 1 : 0, why, size);
        if (archive_write_close(to) != ARCHIVE_OK && status == 0) status = complain(to, why, size);
    }
    free(clean);
    archive_read_free(from);
    archive_write_free(to);
    return status;
}
