# SPDX-License-Identifier: Apache-2.0
"""Checks of names, directories and links."""
import ctypes
import os
import shutil
import socket
import time

from asking import (AT_FDCWD, FRIEND, OTHER, as_user, attempt, check,
                    get, libc, link_descriptor, looks, put, system)


@check
def names_are_bytes():
    names = [b"\xff\xfe", b"e\xcc\x81", b"\xc3\xa9", b"new\nline", b" ", b"-rf", b"\\", b"a" * 255, b"*?["]
    for name in names:
        put(name, name)
    return sorted(os.listdir(b".")) == sorted(names), [get(name) == name for name in names]


@check
def names_too_long():
    return (attempt(put, b"n" * 256), attempt(os.mkdir, b"n" * 256), attempt(os.symlink, b"x", b"n" * 256),
            attempt(os.stat, b"n" * 256), attempt(os.stat, b"n/" * 2100), attempt(os.rename, b"x", b"n" * 256))



@check
def errors_of_names():
    put("file")
    os.mkdir("full")
    put("full/x")
    os.mkdir("empty")
    os.symlink("loop", "loop")
    os.symlink("nowhere", "dangling")
    return [attempt(os.mkdir, "file"), attempt(os.rmdir, "file"), attempt(os.unlink, "empty"),
            attempt(os.rmdir, "full"), attempt(os.open, "file/x", os.O_RDONLY), attempt(os.open, "loop", os.O_RDONLY),
            attempt(os.open, "dangling", os.O_RDONLY),
            attempt(os.open, "dangling", os.O_WRONLY | os.O_CREAT | os.O_EXCL),
            attempt(os.open, "dangling", os.O_RDONLY | os.O_NOFOLLOW),
            attempt(os.open, "empty", os.O_WRONLY), attempt(os.open, "file", os.O_DIRECTORY),
            attempt(os.open, "file", os.O_CREAT | os.O_EXCL), attempt(os.open, "empty", os.O_CREAT),
            attempt(os.rename, "full", "empty"), attempt(os.rename, "file", "full"), attempt(os.rename, "full", "file"),
            attempt(os.rename, "full", "full/sub"), attempt(os.rename, "missing", "x"), attempt(os.rmdir, "."),
            attempt(os.rmdir, "full/.."), attempt(os.link, "full", "hard"), attempt(os.unlink, "missing"),
            attempt(os.mkdir, "missing/x"), attempt(os.rename, ".", "y"), attempt(os.stat, "file/"),
            attempt(os.mknod, "file"), attempt(os.symlink, "a", "file"), attempt(os.link, "file", "file")]


@check
def create_through_dangling_link():
    os.symlink("target", "dangling")
    put("dangling", b"through")
    return get("target"), os.readlink("dangling")


@check
def many_entries():
    os.mkdir("many")
    for number in range(5000):
        os.close(os.open(f"many/{number:06}" + "x" * (number % 200), os.O_CREAT | os.O_WRONLY, 0o600))
    seen = os.listdir("many")
    listed = len(seen), len(set(seen)), sum(len(name) for name in seen)
    kinds = {entry.is_file(follow_symlinks=False) for entry in os.scandir("many")}
    # If names are removed while the directory is read, a name that exists all the time must be neither missing nor repeated.
    with os.scandir("many") as entries:
        removed = 0
        for entry in entries:
            os.unlink(entry.path)
            removed += 1
    return listed, kinds, removed, os.listdir("many")


@check
def entries_of_every_kind():
    os.mkdir("d")
    put("f")
    os.symlink("f", "l")
    os.mkfifo("p")
    put("\udcff")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("s")
    return sorted((entry.name.encode(errors="surrogateescape"), entry.is_dir(follow_symlinks=False),
                   entry.is_file(follow_symlinks=False), entry.is_symlink(),
                   entry.inode() == os.lstat(entry.name).st_ino) for entry in os.scandir("."))



@check
def rewind_sees_new_names():
    os.mkdir("d")
    put("d/a")
    descriptor = os.open("d", os.O_DIRECTORY)
    first = os.listdir(descriptor)
    put("d/b")
    return first, sorted(os.listdir(descriptor))


@check
def link_counts():
    put("a", b"1")
    os.link("a", "b")
    os.mkdir("d")
    os.mkdir("d/e")
    os.link("a", "d/c")
    before = os.stat("a").st_nlink, os.stat("d").st_nlink
    same = os.stat("a").st_ino == os.stat("d/c").st_ino
    os.unlink("a")
    os.rmdir("d/e")
    put("b", b"changed")
    return before, same, os.stat("b").st_nlink, os.stat("d").st_nlink, get("d/c")


@check
def links_share_changes():
    put("a", b"one")
    os.link("a", "b")
    get("a"), get("b")
    os.chmod("a", 0o600)
    os.truncate("b", 1)
    with open("a", "ab") as file:
        file.write(b"+")
    os.setxattr("b", "user.x", b"1")
    return looks("a"), looks("b"), get("b"), os.getxattr("a", "user.x"), \
        os.stat("a").st_mtime_ns == os.stat("b").st_mtime_ns


@check
def link_to_symlink():
    os.symlink("x", "l")
    os.link("l", "m", follow_symlinks=False)
    return os.readlink("m"), os.lstat("m").st_nlink


@check
def rename_of_two_links_does_nothing():
    put("a", b"1")
    os.link("a", "b")
    os.rename("a", "b")
    return sorted(os.listdir("."))


@check
def rename_flags():
    NOREPLACE, EXCHANGE, WHITEOUT = 1, 2, 4
    move = lambda a, b, f: system("renameat2", AT_FDCWD, a, AT_FDCWD, b, f)
    put("a", b"a")
    put("b", b"b")
    os.mkdir("d")
    put("d/x", b"x")
    return [move(b"a", b"b", NOREPLACE), move(b"a", b"c", NOREPLACE), move(b"c", b"b", EXCHANGE), get("b"), get("c"),
            move(b"b", b"d", EXCHANGE), get("d"), get("b/x"), move(b"b", b"missing", EXCHANGE),
            move(b"c", b"b/e", 0), sorted(os.listdir("b")), move(b"d", b"d2", 64),
            move(b"d", b"d2", NOREPLACE | EXCHANGE)]


@check
def rename_whiteout():
    put("a", b"a")
    answer = system("renameat2", AT_FDCWD, b"a", AT_FDCWD, b"b", 4)
    return answer, sorted(os.listdir(".")), oct(os.lstat("a").st_mode) if os.path.lexists("a") else None


@check
def rename_over_open_file():
    put("a", b"old")
    put("b", b"new")
    descriptor = os.open("a", os.O_RDWR)
    os.rename("b", "a")
    return os.pread(descriptor, 9, 0), os.fstat(descriptor).st_nlink, os.pwrite(descriptor, b"gone", 0), get("a")


@check
def renamed_directory_is_followed():
    os.mkdir("a")
    os.mkdir("a/in")
    put("a/in/f", b"f")
    place = os.open("a/in", os.O_DIRECTORY)
    file = os.open("a/in/f", os.O_RDWR)
    os.mkdir("other")
    os.rename("a", "other/b")
    inner = os.open("f", os.O_RDONLY, dir_fd=place)
    os.rename("other/b/in/f", "g")
    os.ftruncate(file, 1)
    return os.read(inner, 9), get("g"), os.listdir(place), os.stat("..", dir_fd=place).st_ino == os.stat("other/b").st_ino


@check
def unlinked_open_file():
    put("f", b"contents")
    descriptor = os.open("f", os.O_RDWR)
    os.unlink("f")
    before = os.fstat(descriptor)
    facts = [before.st_nlink, before.st_size, os.pread(descriptor, 20, 0)]
    facts += [attempt(os.ftruncate, descriptor, 3), os.fstat(descriptor).st_size, os.pwrite(descriptor, b"123456", 0),
              attempt(os.fchmod, descriptor, 0o600), oct(os.fstat(descriptor).st_mode),
              attempt(os.utime, descriptor, ns=(5, 7)), os.fstat(descriptor).st_mtime_ns,
              attempt(os.setxattr, descriptor, "user.x", b"y"), attempt(os.getxattr, descriptor, "user.x"),
              attempt(os.listxattr, descriptor), attempt(os.fsync, descriptor),
              attempt(os.posix_fallocate, descriptor, 0, 100), os.fstat(descriptor).st_size]
    again = attempt(os.open, f"/proc/self/fd/{descriptor}", os.O_RDONLY)
    facts.append(os.read(again, 6) if isinstance(again, int) else again)
    facts.append(attempt(os.open, f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_TRUNC) != "x")
    facts.append(os.fstat(descriptor).st_size)
    facts.append(link_descriptor(descriptor, b"back"))
    facts.append(os.listdir("."))
    return facts


@check
def unlinked_closed_file_is_opened_again():
    put("f", b"contents")
    place = os.open("f", os.O_PATH)
    writer = os.open("f", os.O_RDWR)
    os.pwrite(writer, b"CON", 0)
    os.unlink("f")
    os.close(writer)
    again = os.open(f"/proc/self/fd/{place}", os.O_RDWR)
    facts = [os.pread(again, 20, 0), os.pwrite(again, b"more", 8), attempt(os.ftruncate, again, 11), os.fstat(place).st_size]
    os.close(again)
    put("f", b"another")
    reader = os.open(f"/proc/self/fd/{place}", os.O_RDONLY)
    return facts, os.pread(reader, 20, 0), os.fstat(reader).st_nlink, get("f")


def lost_name(lose):
    put("f", b"contents")
    place = os.open("f", os.O_PATH)
    lose()
    again = os.open(f"/proc/self/fd/{place}", os.O_RDWR)
    facts = [os.pread(again, 20, 0), os.pwrite(again, b"more", 8), attempt(os.ftruncate, again, 11), os.fstat(place).st_size]
    os.close(again)
    return facts, os.fstat(place).st_nlink, os.listdir(".")


@check
def file_that_nobody_has_open_is_opened_after_unlink():
    return lost_name(lambda: os.unlink("f"))


@check
def file_that_nobody_has_open_is_opened_after_rename_over_it():
    put("g", b"another")
    return lost_name(lambda: os.rename("g", "f")), get("f")


@check
def unlinked_open_file_keeps_its_other_name():
    put("a", b"contents")
    os.link("a", "b")
    descriptor = os.open("a", os.O_RDWR)
    os.unlink("a")
    os.ftruncate(descriptor, 3)
    return os.fstat(descriptor).st_nlink, os.pread(descriptor, 9, 0), get("b")


@check
def removed_directory_in_use():
    os.mkdir("d")
    place = os.open("d", os.O_DIRECTORY)
    os.rmdir("d")
    return [attempt(os.listdir, place), attempt(os.open, "x", os.O_CREAT | os.O_WRONLY, dir_fd=place),
            os.fstat(place).st_nlink, attempt(os.stat, ".", dir_fd=place) != "x",
            attempt(os.mkdir, "x", dir_fd=place), attempt(os.fchmod, place, 0o700)]


@check
def temporary_file():
    descriptor = attempt(os.open, ".", os.O_TMPFILE | os.O_RDWR, 0o640)
    if not isinstance(descriptor, int):
        return descriptor
    os.write(descriptor, b"temporary")
    facts = [os.fstat(descriptor).st_nlink, oct(os.fstat(descriptor).st_mode), os.listdir(".")]
    facts.append(link_descriptor(descriptor, b"linked"))
    return facts + [attempt(get, "linked"), os.fstat(descriptor).st_nlink, attempt(looks, "linked")]


@check
def sticky_directory():
    os.mkdir("d")
    os.chmod("d", 0o1777)
    put("d/mine")
    os.chmod("d/mine", 0o666)
    return (oct(os.stat("d").st_mode), as_user(OTHER, OTHER, lambda: os.unlink("d/mine")),
            as_user(OTHER, OTHER, lambda: os.rename("d/mine", "d/yours")),
            as_user(OTHER, OTHER, lambda: put("d/new")), as_user(FRIEND, OTHER, lambda: os.unlink("d/new")))


@check
def deep_paths():
    top = os.open(".", os.O_DIRECTORY)
    for _ in range(300):
        os.mkdir("d" * 30)
        os.chdir("d" * 30)
    put("leaf", b"deep")
    answer = get("leaf"), len(os.getcwd()) > 9000
    os.fchdir(top)
    shutil.rmtree("d" * 30)
    return answer, os.listdir(".")


class DirectoryEntry(ctypes.Structure):
    _fields_ = [("inode", ctypes.c_uint64), ("offset", ctypes.c_int64), ("length", ctypes.c_uint16),
                ("kind", ctypes.c_uint8), ("name", ctypes.c_char * 256)]


def raw_entries(path):
    libc.opendir.restype = ctypes.c_void_p
    libc.readdir.restype = ctypes.POINTER(DirectoryEntry)
    stream = ctypes.c_void_p(libc.opendir(path))
    found = {}
    while entry := libc.readdir(stream):
        found[entry.contents.name] = entry.contents.inode
    libc.closedir(stream)
    return found


@check
def dot_and_dot_dot():
    os.mkdir("d")
    os.mkdir("d/e")
    put("d/e/f")
    found = raw_entries(b"d/e")
    return (sorted(found), found[b"."] == os.stat("d/e").st_ino, found[b".."] == os.stat("d").st_ino,
            found[b"f"] == os.stat("d/e/f").st_ino, os.stat("d/e/..").st_ino == os.stat("d").st_ino)
