// SPDX-License-Identifier: Apache-2.0
#ifndef CLINUXWATCH_H
#define CLINUXWATCH_H
// Changes below a directory, as the kernel tells them.
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// One change, whichever of the two interfaces told of it. Pointers lead into the buffer that was read.
struct clinux_change {
    int32_t process;                    // 0 if it is not known
    int32_t watch;                      // inotify: of which directory
    int overflow, ended;                // changes were lost; the watch is none any more
    int appeared, vanished;             // a name
    int written, attributes;            // what a name stands for
    int closed;                         // somebody who could write to it has closed it
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
// How many bytes the change at the start of what was read takes; 0 after the last.
size_t clinux_next_fanotify(const void *bytes, size_t size, struct clinux_change *out);
size_t clinux_next_inotify(const void *bytes, size_t size, struct clinux_change *out);
#endif
