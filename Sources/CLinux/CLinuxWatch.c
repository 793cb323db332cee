// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "CLinuxWatch.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <unistd.h>

int clinux_fanotify(int directory, bool attributes_only) {
    int group = fanotify_init(
        FAN_CLASS_NOTIF | FAN_REPORT_DFID_NAME | FAN_CLOEXEC | FAN_NONBLOCK, O_RDONLY | O_CLOEXEC);
    if (group < 0) return -1;
    uint64_t mask = attributes_only ? FAN_ATTRIB | FAN_ONDIR :
                    FAN_CREATE | FAN_DELETE | FAN_MOVED_FROM | FAN_MOVED_TO | FAN_MODIFY | FAN_CLOSE_WRITE |
                    FAN_ATTRIB | FAN_ONDIR;
    // The name "." is passed, because the call accepts an O_PATH descriptor only together with a name.
    if (fanotify_mark(group, FAN_MARK_ADD | FAN_MARK_FILESYSTEM | FAN_MARK_ONLYDIR, mask, directory, ".") == 0)
        return group;
    int error = errno;
    close(group);
    errno = error;
    return -1;
}

size_t clinux_next_fanotify(const void *bytes, size_t size, struct clinux_change *out) {
    const struct fanotify_event_metadata *event = bytes;
    memset(out, 0, sizeof *out);
    if (!FAN_EVENT_OK(event, size) || event->vers != FANOTIFY_METADATA_VERSION) return 0;
    out->process = event->pid;
    out->overflow = (event->mask & FAN_Q_OVERFLOW) != 0;
    out->appeared = (event->mask & (FAN_CREATE | FAN_MOVED_TO)) != 0;
    out->vanished = (event->mask & (FAN_DELETE | FAN_MOVED_FROM)) != 0;
    out->written = (event->mask & FAN_MODIFY) != 0;
    out->closed = (event->mask & FAN_CLOSE_WRITE) != 0;
    out->attributes = (event->mask & FAN_ATTRIB) != 0;
    out->is_directory = (event->mask & FAN_ONDIR) != 0;
    size_t offset = event->metadata_len;
    while (offset + sizeof(struct fanotify_event_info_header) <= event->event_len) {
        const uint8_t *start = (const uint8_t *)bytes + offset;
        const struct fanotify_event_info_header *header = (const void *)start;
        if (header->len < sizeof *header || offset + header->len > event->event_len) break;
        size_t fixed = sizeof(struct fanotify_event_info_fid) + sizeof(struct file_handle);
        if (header->info_type == FAN_EVENT_INFO_TYPE_DFID_NAME && header->len >= fixed) {
            const struct fanotify_event_info_fid *info = (const void *)start;
            const struct file_handle *handle = (const void *)info->handle;
            size_t handle_size = sizeof *handle + handle->handle_bytes;
            size_t name = sizeof *info + handle_size;
            // The name is used only if its terminating zero byte is within the record.
            if (name < header->len && memchr(start + name, 0, header->len - name)) {
                out->handle = (const uint8_t *)handle;
                out->handle_size = handle_size;
                out->name = (const char *)(start + name);
            }
        }
        offset += header->len;
    }
    return event->event_len;
}

int clinux_inotify(void) { return inotify_init1(IN_CLOEXEC | IN_NONBLOCK); }

int clinux_inotify_add(int inotify, int directory, bool each_write) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", directory);
    return inotify_add_watch(
        inotify, path,
        IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | (each_write ? IN_MODIFY : 0) | IN_CLOSE_WRITE |
            IN_ATTRIB | IN_ONLYDIR | IN_EXCL_UNLINK);
}

int clinux_inotify_remove(int inotify, int watch) { return inotify_rm_watch(inotify, watch); }

size_t clinux_next_inotify(const void *bytes, size_t size, struct clinux_change *out) {
    const struct inotify_event *event = bytes;
    memset(out, 0, sizeof *out);
    if (size < sizeof *event || size < sizeof *event + event->len) return 0;
    out->watch = event->wd;
    out->overflow = (event->mask & IN_Q_OVERFLOW) != 0;
    out->ended = (event->mask & IN_IGNORED) != 0;
    out->appeared = (event->mask & (IN_CREATE | IN_MOVED_TO)) != 0;
    out->vanished = (event->mask & (IN_DELETE | IN_MOVED_FROM)) != 0;
    out->written = (event->mask & IN_MODIFY) != 0;
    out->closed = (event->mask & IN_CLOSE_WRITE) != 0;
    out->attributes = (event->mask & IN_ATTRIB) != 0;
    out->is_directory = (event->mask & IN_ISDIR) != 0;
    out->name = event->len > 0 ? event->name : NULL;
    return sizeof *event + event->len;
}
