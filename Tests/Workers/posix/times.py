# SPDX-License-Identifier: Apache-2.0
"""Checks of the times of files."""
import ctypes
import os
import time

from asking import AT_FDCWD, attempt, check, get, put, system


@check
def times_to_the_nanosecond():
    put("f")
    os.mkdir("d")
    os.symlink("x", "l")
    answers = []
    for name in "fdl":
        for moment in ((1, 2), (10 ** 18 + 1, 10 ** 18 + 999_999_999), (-5, -7), (2 ** 33 * 10 ** 9 + 3, 4)):
            answers.append(attempt(os.utime, name, ns=moment, follow_symlinks=False))
            answers.append((os.lstat(name).st_atime_ns if name == "f" else 0, os.lstat(name).st_mtime_ns))
    return answers


@check
def times_one_by_one():
    put("f")
    os.utime("f", ns=(11, 22))
    OMIT, NOW = 0x3FFFFFFE, 0x3FFFFFFF
    specify = lambda *pairs: (ctypes.c_long * 4)(*[part for pair in pairs for part in pair])
    answers = [system("utimensat", AT_FDCWD, b"f", specify((0, OMIT), (0, 33)), 0), os.stat("f").st_atime_ns,
               os.stat("f").st_mtime_ns, system("utimensat", AT_FDCWD, b"f", specify((0, 44), (0, OMIT)), 0),
               os.stat("f").st_atime_ns, os.stat("f").st_mtime_ns]
    before = time.time_ns()
    answers += [system("utimensat", AT_FDCWD, b"f", specify((0, OMIT), (0, NOW)), 0),
                os.stat("f").st_mtime_ns > before - 10 ** 9, os.stat("f").st_atime_ns]
    descriptor = os.open("f", os.O_RDONLY)
    return answers + [system("futimens", descriptor, specify((0, 5), (0, 6))), os.stat("f").st_mtime_ns,
                      os.fstat(descriptor).st_mtime_ns]


@check
def times_that_changes_move():
    put("f", b"12345")
    put("g")
    os.mkdir("d")
    old = (10 ** 18, 10 ** 18)
    answers = []

    def moved(name, change, after=None):
        os.utime(name, ns=old)
        changed = os.stat(name).st_ctime_ns
        time.sleep(0.012)
        change()
        status = os.stat(after or name)
        answers.append((status.st_mtime_ns != 10 ** 18, status.st_ctime_ns != changed))
    writing = os.open("f", os.O_RDWR)
    moved("f", lambda: os.pwrite(writing, b"x", 0))
    moved("f", lambda: os.ftruncate(writing, 3))
    moved("f", lambda: os.ftruncate(writing, 3))
    moved("f", lambda: os.truncate("f", 3))
    moved("f", lambda: os.chmod("f", 0o600))
    moved("f", lambda: os.rename("f", "h"), after="h")
    moved("h", lambda: os.link("h", "i"))
    moved("h", lambda: os.unlink("i"))
    moved("h", lambda: os.setxattr("h", "user.x", b"1"))
    moved("h", lambda: os.close(os.open("h", os.O_WRONLY)))
    moved("h", lambda: os.close(os.open("h", os.O_WRONLY | os.O_TRUNC)))
    moved("h", lambda: os.close(os.open("h", os.O_WRONLY | os.O_TRUNC)))
    moved("h", lambda: get("h"))
    moved("d", lambda: put("d/x"))
    moved("d", lambda: put("d/x"))
    moved("d", lambda: os.rename("d/x", "d/y"))
    moved("d", lambda: os.unlink("d/y"))
    moved("d", lambda: os.mkdir("d/z"))
    moved("d", lambda: attempt(os.mkdir, "d/z"))
    return answers


@check
def time_of_writes_is_seen_through_every_handle():
    put("f", b"1")
    one, two = os.open("f", os.O_RDWR), os.open("f", os.O_RDONLY)
    answers = []
    for size in (10, 100, 50000):
        os.pwrite(one, b"x" * size, 0)
        answers += [os.fstat(two).st_size, os.stat("f").st_size,
                    os.fstat(one).st_mtime_ns == os.stat("f").st_mtime_ns == os.fstat(two).st_mtime_ns]
    return answers
