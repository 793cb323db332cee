# SPDX-License-Identifier: Apache-2.0
"""Checks which times of a file each call changes, with a check for each call."""
import mmap
import os
import time

from asking import attempt, check, check_named, get, put, system

OLD = 10 ** 18


def watch(change, path="f", after=None):
    """Returns which times the call has changed: access time, modification time and change time."""
    os.utime(path, ns=(OLD, OLD + 5))
    before = os.stat(path)
    # This is longer than the clock tick of any file system.
    time.sleep(0.011)
    change()
    status = os.stat(after or path)
    return status.st_atime_ns != OLD, status.st_mtime_ns != OLD + 5, status.st_ctime_ns != before.st_ctime_ns


def mapped(path, store):
    descriptor = os.open(path, os.O_RDWR)
    mapping = mmap.mmap(descriptor, 4096)
    if store:
        mapping[0:1] = b"y"
    else:
        mapping[0:1]
    mapping.flush()
    mapping.close()
    os.close(descriptor)


def rewrite(path, data=b"new", flags=os.O_WRONLY):
    descriptor = os.open(path, flags)
    os.write(descriptor, data)
    os.close(descriptor)


OF_A_FILE = {
    "reading": lambda: get("f"), "reading_again": lambda: (get("f"), get("f")), "writing": lambda: rewrite("f"),
    "writing_nothing": lambda: rewrite("f", b""), "appending": lambda: rewrite("f", flags=os.O_WRONLY | os.O_APPEND),
    "opening": lambda: os.close(os.open("f", os.O_RDWR)), "opening_and_truncating": lambda: put("f"),
    "truncating": lambda: os.truncate("f", 5), "truncating_to_the_same_size": lambda: os.truncate("f", 8192),
    "extending": lambda: os.truncate("f", 20000), "allocating": lambda: os.posix_fallocate(os.open("f", os.O_RDWR), 0, 20000),
    "allocating_what_is_there": lambda: os.posix_fallocate(os.open("f", os.O_RDWR), 0, 10),
    "chmod": lambda: os.chmod("f", 0o600), "chmod_to_the_same": lambda: os.chmod("f", 0o644), "chown": lambda: os.chown("f", os.geteuid(), -1),
    "chown_of_nothing": lambda: os.chown("f", -1, -1),
    "linking": lambda: os.link("f", "g"), "unlinking_another_name": lambda: (os.link("f", "g"), os.unlink("g")),
    "setting_an_attribute": lambda: os.setxattr("f", "user.x", b"1"), "asking_for_attributes": lambda: os.listxattr("f"),
    "removing_an_attribute_that_is_not_there": lambda: attempt(os.removexattr, "f", "user.x"),
    "looking": lambda: os.stat("f"), "access": lambda: os.access("f", os.W_OK), "mapping": lambda: mapped("f", False),
    "storing_through_a_mapping": lambda: mapped("f", True), "syncing": lambda: os.fsync(os.open("f", os.O_RDWR)),
    "seeking": lambda: os.lseek(os.open("f", os.O_RDONLY), 0, os.SEEK_END),
    "copying_from": lambda: os.copy_file_range(os.open("f", os.O_RDONLY), os.open("new", os.O_WRONLY | os.O_CREAT), 100),
    "copying_to": lambda: os.copy_file_range(os.open("other", os.O_RDONLY), os.open("f", os.O_RDWR), 100),
    "reading_without_a_trace": lambda: os.read(os.open("f", os.O_RDONLY | os.O_NOATIME), 10),
}
OF_A_DIRECTORY = {
    "creating": lambda: put("d/new"), "unlinking": lambda: os.unlink("d/x"), "renaming": lambda: os.rename("d/x", "d/y"),
    "moving_in": lambda: os.rename("f", "d/f"), "moving_out": lambda: os.rename("d/x", "x"), "mkdir": lambda: os.mkdir("d/sub"),
    "rmdir": lambda: os.rmdir("d/empty"), "linking_in": lambda: os.link("f", "d/f"), "symlink": lambda: os.symlink("x", "d/l"),
    "exchanging": lambda: system("renameat2", -100, b"d/x", -100, b"f", 2), "listing": lambda: os.listdir("d"),
    "writing_in_it": lambda: rewrite("d/x"), "chmod_in_it": lambda: os.chmod("d/x", 0o600), "refused_mkdir": lambda: attempt(os.mkdir, "d/x"),
    "replacing": lambda: os.rename("f", "d/x"), "renaming_itself": lambda: os.rename("d", "e"), "creating_below": lambda: put("d/empty/new"),
    "opening_what_is_there": lambda: os.close(os.open("d/x", os.O_WRONLY | os.O_CREAT)), "mkfifo": lambda: os.mkfifo("d/p"),
}


def scene():
    put("f", b"x" * 8192)
    put("other", b"o" * 8192)
    os.makedirs("d/empty")
    put("d/x")


def moved(change, path, after=None):
    def ask():
        scene()
        return watch(change, path, after)
    return ask


for name, change in OF_A_FILE.items():
    check_named(f"times_moved_by_{name}", moved(change, "f"))
for name, change in OF_A_DIRECTORY.items():
    check_named(f"times_of_a_directory_moved_by_{name}", moved(change, "d", "e" if name == "renaming_itself" else None))


@check
def times_of_a_file_that_is_renamed():
    scene()
    return watch(lambda: os.rename("f", "g"), "f", "g"), watch(lambda: os.rename("d/x", "y"), "d/x", "y")


@check
def time_of_a_mapping_that_stays():
    """A store into a mapping changes the times when the pages are written back, even after the descriptor is closed."""
    put("f", b"x" * 4096)
    os.utime("f", ns=(OLD, OLD))
    descriptor = os.open("f", os.O_RDWR)
    mapping = mmap.mmap(descriptor, 4096)
    os.close(descriptor)
    mapping[5:6] = b"z"
    mapping.flush()
    return os.stat("f").st_mtime_ns > OLD, get("f")[5:6]


@check
def time_of_reading_is_relative():
    """With relatime, the first read after a change of the file changes the access time, but the second does not."""
    put("f", b"1")
    os.utime("f", ns=(OLD, OLD + 5))
    time.sleep(0.011)
    get("f")
    first = os.stat("f").st_atime_ns
    time.sleep(0.011)
    get("f")
    return first > OLD, os.stat("f").st_atime_ns == first


@check
def time_of_listing_is_relative():
    os.mkdir("d")
    os.utime("d", ns=(OLD, 2 * OLD))
    os.listdir("d")
    return os.stat("d").st_atime_ns > OLD


@check
def time_of_following_a_link():
    os.symlink("x", "l")
    os.utime("l", ns=(OLD, 2 * OLD), follow_symlinks=False)
    os.readlink("l")
    return os.lstat("l").st_atime_ns > OLD, os.lstat("l").st_mtime_ns == 2 * OLD


@check
def times_far_away():
    put("f")
    answers = []
    for moment in (-2 ** 31, -2 ** 31 - 1, 2 ** 31, 2 ** 32, 2 ** 34 - 2 ** 31 - 1, 2 ** 34, 2 ** 40):
        answers.append((attempt(os.utime, "f", ns=(moment * 10 ** 9 + 7, moment * 10 ** 9 + 7)), os.stat("f").st_mtime_ns))
    return answers


@check
def times_of_a_file_by_two_handles():
    put("f")
    one, two = os.open("f", os.O_RDWR), os.open("f", os.O_RDONLY)
    os.utime(one, ns=(11, 22))
    return os.fstat(two).st_mtime_ns, os.stat("f").st_atime_ns, os.fstat(one).st_mtime_ns


@check
def times_that_writing_after_setting_moves():
    """A copy that sets the times of the new file before it closes the file does not lose them at the close."""
    descriptor = os.open("f", os.O_RDWR | os.O_CREAT)
    os.write(descriptor, b"contents")
    os.utime(descriptor, ns=(OLD, OLD))
    os.close(descriptor)
    return os.stat("f").st_mtime_ns == OLD, get("f")
