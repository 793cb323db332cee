# SPDX-License-Identifier: Apache-2.0
"""Checks of other file systems that are mounted below the checked directory."""
import fcntl
import os
import stat
import struct

from asking import (AT_FDCWD, OTHER, attempt, below, check, check_named, get, need_root, piece, put, system)


def in_piece(name, *path):
    return os.path.join(piece(name), *path)


@check
def another_file_system_is_another_device():
    """A program that stays on one file system must be able to see where that file system ends."""
    return [os.stat(piece(name)).st_dev != os.stat(".").st_dev for name in ("other", "readonly", "full")]


@check
def inodes_of_two_file_systems_do_not_clash():
    """The first inodes of all file systems have the same inode numbers, so files must still differ by device and inode
    number."""
    names = [in_piece(name, "file") for name in ("full", "linked", "broken")] + [piece(name) for name in ("full", "linked", "broken")]
    pairs = {(os.stat(name).st_dev, os.stat(name).st_ino) for name in names if os.path.exists(name)}
    return len(pairs), len([name for name in names if os.path.exists(name)])


@check
def number_of_a_file_elsewhere():
    path = in_piece("other", "dir", "numbered")
    put(path)
    kept = os.stat(path).st_ino
    os.rename(path, path + "2")
    entries = {entry.name: entry.inode() for entry in os.scandir(os.path.dirname(path))}
    answer = os.stat(path + "2").st_ino == kept == entries["numbered2"]
    os.unlink(path + "2")
    return answer


@check
def mounted_directories_are_listed():
    return sorted(os.listdir(os.path.dirname(piece("other")))) != [], sorted(os.listdir(piece("readonly")))


@check
def moving_to_another_file_system():
    put("f", b"1")
    os.mkdir("d")
    there = in_piece("other", "dir", "moved")
    return [attempt(os.rename, "f", there), attempt(os.link, "f", there), attempt(os.rename, "d", there),
            system("renameat2", AT_FDCWD, b"f", AT_FDCWD, os.fsencode(in_piece("other", "dir", "file")), 2), os.path.exists(there)]


@check
def copying_to_another_file_system():
    put("f", b"x" * 100000)
    one = os.open("f", os.O_RDONLY)
    two = os.open(in_piece("other", "dir", "copied"), os.O_RDWR | os.O_CREAT)
    copied = attempt(os.copy_file_range, one, two, 100000, 0, 0)
    sent = attempt(os.sendfile, two, one, 0, 100000)
    os.unlink(in_piece("other", "dir", "copied"))
    return copied in ("EXDEV", 100000), sent, os.fstat(two).st_size >= 100000


@check
def working_elsewhere():
    top = in_piece("other", "dir", "work")
    os.mkdir(top)
    os.chdir(top)
    put("f", b"1")
    os.rename("f", "g")
    os.link("g", "h")
    os.symlink("g", "l")
    os.setxattr("g", "user.x" if attempt(os.setxattr, "g", "user.x", b"1") is None else "trusted.x", b"1")
    return sorted(os.listdir(".")), get("l"), os.stat("g").st_nlink, os.stat("..").st_ino == os.stat(os.path.dirname(top)).st_ino


@check
def figures_of_the_file_systems():
    figures = []
    for name in ("other", "full", "linked"):
        found = os.statvfs(piece(name))
        figures.append((found.f_namemax, found.f_bsize, found.f_frsize, found.f_blocks, found.f_bfree == 0))
    return figures


@check
def flags_of_the_file_systems():
    """statvfs(2) shows the flags ST_RDONLY, ST_NOSUID, ST_NODEV and ST_NOEXEC of each mounted file system."""
    return [os.statvfs(piece(name)).f_flag & 15 for name in ("other", "readonly", "nosuid", "nodev", "noexec")]


@check
def device_where_there_are_none():
    need_root()
    path = in_piece("nodev", "null")
    return attempt(os.mknod, path, stat.S_IFCHR | 0o666, os.makedev(1, 3)), isinstance(attempt(os.open, path, os.O_RDWR), int)


def time_of_reading(name):
    def ask():
        path = in_piece(name, "file")
        put(path, b"1")
        os.utime(path, ns=(10 ** 18, 2 * 10 ** 18))
        get(path)
        return os.stat(path).st_atime_ns > 10 ** 18
    return ask


for kind in ("noatime", "strictatime", "other"):
    check_named(f"time_of_reading_on_{kind}", time_of_reading(kind))


@check
def link_of_a_file_with_all_its_links():
    return attempt(os.link, in_piece("linked", "file"), in_piece("linked", "in", "new"))


@check
def mkdir_in_a_directory_with_all_its_links():
    return attempt(os.mkdir, in_piece("linked", "dir", "new"))


@check
def rename_into_a_directory_with_all_its_links():
    os.mkdir(in_piece("linked", "in", "sub"))
    answer = attempt(os.rename, in_piece("linked", "in", "sub"), in_piece("linked", "dir", "sub"))
    os.rmdir(in_piece("linked", "in", "sub"))
    return answer


@check
def count_of_many_links():
    return os.stat(in_piece("linked", "file")).st_nlink, os.stat(in_piece("linked", "dir")).st_nlink


LONG = "n" * 255
FULL = {
    "open": lambda path, new: os.open(new, os.O_WRONLY | os.O_CREAT), "mkdir": lambda path, new: os.mkdir(new),
    "link": lambda path, new: os.link(path, new), "rename": lambda path, new: os.rename(path, new),
    "symlink": lambda path, new: os.symlink("to", new), "mkfifo": lambda path, new: os.mkfifo(new),
    "write": lambda path, new: os.write(os.open(path, os.O_WRONLY), b"x" * 8192),
    "append": lambda path, new: os.write(os.open(path, os.O_WRONLY | os.O_APPEND), b"x" * 8192),
    "fallocate": lambda path, new: os.posix_fallocate(os.open(path, os.O_WRONLY), 0, 100000),
    "setxattr": lambda path, new: os.setxattr(path, "user.x", b"x" * 600), "truncate": lambda path, new: os.truncate(path, 100000),
}


def without_room(call):
    # The present contents fit into the file's block. The write needs a further block.
    return lambda: attempt(call, in_piece("full", "in", "file"), in_piece("full", "in", LONG))


for name, call in FULL.items():
    check_named(f"{name}_without_room", without_room(call))

READ_ONLY = {
    "rename": lambda path: os.rename(path, path + "2"), "link": lambda path: os.link(path, path + "2"),
    "exchange": lambda path: [system("renameat2", AT_FDCWD, os.fsencode(path), AT_FDCWD, os.fsencode(os.path.dirname(path) + "/dir"), 2)],
    "setxattr": lambda path: os.setxattr(path, "user.x", b""), "utime": lambda path: os.utime(path, ns=(1, 1)),
    "chmod": lambda path: os.chmod(path, 0o600), "chown": lambda path: os.chown(path, os.geteuid(), -1),
    "read": lambda path: get(path), "list": lambda path: sorted(os.listdir(os.path.dirname(path))),
    "touch": lambda path: os.utime(path), "append": lambda path: os.open(path, os.O_WRONLY | os.O_APPEND),
    "truncate": lambda path: os.truncate(path, 0),
    "temporary": lambda path: os.open(os.path.dirname(path), os.O_TMPFILE | os.O_RDWR),
    "lock": lambda path: fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX),
}


def read_only(call):
    return lambda: attempt(call, in_piece("readonly", "file"))


for name, call in READ_ONLY.items():
    check_named(f"{name}_where_nothing_may_change", read_only(call))


def shut_down(name):
    """Makes the file system answer from now on as after an error of its disk."""
    need_root()
    descriptor = os.open(below(piece(name)), os.O_RDONLY)
    fcntl.ioctl(descriptor, 0x8004587D, struct.pack("I", 2))
    os.close(descriptor)


BROKEN = {
    "link": lambda path: os.link(path, path + "2"), "unlink": lambda path: os.unlink(path),
    "truncate": lambda path: os.truncate(path, 1), "chmod": lambda path: os.chmod(path, 0o600),
    "chown": lambda path: os.chown(path, OTHER, OTHER), "mkdir": lambda path: os.mkdir(path + "2"),
    "rename": lambda path: os.rename(path, path + "2"), "utime": lambda path: os.utime(path, ns=(1, 1)),
    "setxattr": lambda path: os.setxattr(path, "user.x", b"1"), "create": lambda path: os.open(path + "2", os.O_WRONLY | os.O_CREAT),
    "rmdir": lambda path: os.rmdir(os.path.join(os.path.dirname(path), "empty")),
    "symlink": lambda path: os.symlink("x", path + "2"), "mknod": lambda path: os.mknod(path + "2"),
    "open": lambda path: os.open(path, os.O_RDONLY),
}


def on_a_broken(call):
    return lambda: (shut_down("broken"), attempt(call, in_piece("broken", "file")))[1]


for name, call in BROKEN.items():
    check_named(f"{name}_on_a_broken_disk", on_a_broken(call))


@check
def handles_on_a_disk_that_breaks():
    need_root()
    file = os.open(in_piece("breaking", "file"), os.O_RDWR)
    shut_down("breaking")
    return [attempt(os.fchmod, file, 0o600), attempt(os.fchown, file, OTHER, OTHER), attempt(os.utime, file, ns=(1, 1)),
            attempt(os.ftruncate, file, 1), attempt(os.fsync, file), attempt(os.setxattr, file, "user.x", b"1"), attempt(os.write, file, b"x")]


@check
def name_that_a_file_system_does_not_allow():
    need_root()
    return attempt(os.mkdir, in_piece("cgroup", "two\nlines"))
