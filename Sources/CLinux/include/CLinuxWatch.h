// SPDX-License-Identifier: Apache-2.0
#ifndef CLINUXWATCH_H
#define CLINUXWATCH_H
// The kernel's reports of changes to files below a directory.
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// One change, as fanotify or inotify reports it. The pointers lead into the buffer that contains the report.
struct clinux_change {
    int32_t process;                    // the process that made the change; 0 if it is not known
    int32_t watch;                      // inotify: the number of the watched directory
    int overflow, ended;                // changes were lost; the watch has ended
    int appeared, vanished;             // a name was added, or was removed
    int written, attributes;            // the contents, or the attributes, of the name's file have changed
    int closed;                         // a process that had the file open for writing has closed it
    int is_directory;
    const uint8_t *handle;              // fanotify: the directory's struct file_handle; NULL if it is missing
    size_t handle_size;
    const char *name;                   // "." or NULL for the directory itself
};

// Creates a watch of the whole file system of an open directory, by fanotify. <sys/fanotify.h> is not in Swift's Glibc module.
int clinux_fanotify(int directory, bool attributes_only);
// Creates an inotify descriptor, which watches single directories, each with a number. <sys/inotify.h> is not in Swift's Glibc
// module.
int clinux_inotify(void);
// Without each_write, a change of contents is reported only when the writer closes the file.
int clinux_inotify_add(int inotify, int directory, bool each_write);
int clinux_inotify_remove(int inotify, int watch);
// Extracts the change at the start of the buffer. Returns the size of the change in bytes, or 0 if no change is left.
size_t clinux_next_fanotify(const void *bytes, size_t size, struct clinux_change *out);
size_t clinux_next_inotify(const void *bytes, size_t size, struct clinux_change *out);
#endif
