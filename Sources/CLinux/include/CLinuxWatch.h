// SPDX-License-Identifier: Apache-2.0
#ifndef CLINUXWATCH_H
#define CLINUXWATCH_H
// Changes below a directory, from the kernel.
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// One change, from either of the two interfaces. Pointers lead into the buffer that was read.
struct clinux_change {
    int32_t process;                    // 0 if it is not known
    int32_t watch;                      // inotify: the number of the directory
    int overflow, ended;                // changes were lost; the watch has ended
    int appeared, vanished;             // of a name
    int written, attributes;            // of a name's file
    int closed;                         // a process that could write to it has closed it
    int is_directory;
    const uint8_t *handle;              // fanotify: the directory's, as in struct file_handle; may be missing
    size_t handle_size;
    const char *name;                   // "." or nothing for the directory itself
};

// <sys/fanotify.h> is not in Swift's Glibc module. The whole file system of an open directory is watched.
int clinux_fanotify(int directory, bool attributes_only);
// The same for <sys/inotify.h>, which names each directory by a number.
int clinux_inotify(void);
int clinux_inotify_add(int inotify, int directory);
int clinux_inotify_remove(int inotify, int watch);
// The size of the change at the start of the buffer; 0 after the last.
size_t clinux_next_fanotify(const void *bytes, size_t size, struct clinux_change *out);
size_t clinux_next_inotify(const void *bytes, size_t size, struct clinux_change *out);
#endif
