# SPDX-License-Identifier: Apache-2.0
"""Checks of opening special files and files in use, and of interrupted opens."""
import ctypes
import fcntl
import os
import signal
import socket
import stat

from asking import (AT_FDCWD, OTHER, as_user, attempt, below, check, get, need_root, piece, put, system)


def opened(*arguments, **keywords):
    answer = attempt(os.open, *arguments, **keywords)
    return "ok" if isinstance(answer, int) else answer


@check
def pipe_without_a_reader():
    os.mkfifo("p")
    return opened("p", os.O_WRONLY | os.O_NONBLOCK)


@check
def socket_opened_as_a_file():
    socket.socket(socket.AF_UNIX).bind("s")
    return opened("s", os.O_RDONLY), opened("s", os.O_PATH)


@check
def device_that_nobody_drives():
    need_root()
    answers = []
    # Major number 10 is for devices with a minor number of their own. No driver at all has the other major number.
    for kind, major, minor in ((stat.S_IFCHR, 10, 249), (stat.S_IFCHR, 4000, 1), (stat.S_IFBLK, 4000, 1)):
        answers.append(attempt(os.mknod, f"d{kind}{major}", kind | 0o600, os.makedev(major, minor)))
        answers.append(opened(f"d{kind}{major}", os.O_RDONLY))
    return answers


@check
def device_that_is_mounted():
    need_root()
    made = attempt(os.mknod, "b", stat.S_IFBLK | 0o600, os.stat(below(piece("full"))).st_dev)
    return made, opened("b", os.O_RDONLY | os.O_EXCL)


@check
def temporary_file_for_reading():
    return opened(".", os.O_TMPFILE | os.O_RDONLY)


@check
def temporary_file_where_there_are_none():
    return opened(piece("mqueue"), os.O_TMPFILE | os.O_RDWR)


@check
def without_touching_the_time():
    put("f")
    os.chmod(".", 0o755)
    return opened("f", os.O_RDONLY | os.O_NOATIME), as_user(OTHER, OTHER, lambda: opened("f", os.O_RDONLY | os.O_NOATIME))


@check
def program_that_runs():
    path = os.path.join(piece("running"), "program")
    return [opened(path, os.O_WRONLY), opened(path, os.O_RDWR | os.O_TRUNC), attempt(os.truncate, path, 0),
            opened(path, os.O_RDONLY), os.stat(path).st_size > 0]


def leased(path, kind):
    """Starts a child that has a lease on the file, until the pipe is closed."""
    ready, done = os.pipe(), os.pipe()
    if os.fork() == 0:
        os.close(done[1])
        signal.signal(signal.SIGIO, signal.SIG_IGN)
        descriptor = os.open(path, os.O_RDWR)
        os.write(ready[1], b"y" if attempt(fcntl.fcntl, descriptor, fcntl.F_SETLEASE, kind) == 0 else b"n")
        os.read(done[0], 1)
        os._exit(0)
    os.close(done[0])
    return os.read(ready[0], 1), done[1]


@check
def leased_file_without_waiting():
    put("f", b"1")
    granted, _ = leased("f", fcntl.F_WRLCK)
    return granted, opened("f", os.O_RDONLY | os.O_NONBLOCK), opened("f", os.O_WRONLY | os.O_NONBLOCK)


def interrupted(name, *arguments):
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.siginterrupt(signal.SIGALRM, True)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    answer = system(name, *arguments)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return answer


@check
def truncating_a_leased_file_is_interrupted():
    put("f", b"123")
    granted, _ = leased("f", fcntl.F_WRLCK)
    return granted, interrupted("truncate", b"f", ctypes.c_long(1)), os.stat("f").st_size


@check
def opening_a_leased_file_is_interrupted():
    put("f", b"123")
    granted, _ = leased("f", fcntl.F_WRLCK)
    return granted, interrupted("open", b"f", os.O_RDONLY)


@check
def opening_a_pipe_is_interrupted():
    os.mkfifo("p")
    return interrupted("open", b"p", os.O_RDONLY)


@check
def waiting_for_a_lock_is_interrupted():
    put("f")
    one, two = os.open("f", os.O_RDWR), os.open("f", os.O_RDWR)
    fcntl.flock(one, fcntl.LOCK_EX)
    return interrupted("flock", two, fcntl.LOCK_EX)


@check
def mode_without_reading_or_writing():
    put("f", b"1")
    descriptor = os.open("f", 3)
    return attempt(os.read, descriptor, 1), attempt(os.write, descriptor, b"x"), os.fstat(descriptor).st_size


@check
def flags_that_are_remembered():
    flags = [os.O_RDONLY, os.O_WRONLY | os.O_APPEND, os.O_RDWR | os.O_NONBLOCK, os.O_RDWR | os.O_SYNC, os.O_RDONLY | os.O_NOFOLLOW,
             os.O_RDWR | os.O_DSYNC, os.O_RDONLY | os.O_NOATIME, os.O_RDWR | os.O_DIRECT]
    put("f")
    return [oct(fcntl.fcntl(os.open("f", flag), fcntl.F_GETFL)) for flag in flags]


@check
def empty_path_of_a_descriptor():
    put("f", b"1")
    descriptor = os.open("f", os.O_RDONLY)
    return system("openat", descriptor, b"", os.O_RDONLY), system("faccessat", descriptor, b"", os.R_OK, 0x1000)


@check
def creating_with_every_mode():
    os.umask(0)
    answers = []
    for mode in (0, 0o111, 0o444, 0o222, 0o666, 0o777, 0o1777, 0o4755, 0o2755, 0o7777):
        descriptor = os.open(f"f{mode}", os.O_RDWR | os.O_CREAT, mode)
        answers.append((oct(os.fstat(descriptor).st_mode), os.write(descriptor, b"x")))
    return answers


@check
def creating_exclusively_in_many_processes():
    """Several processes create the same file exclusively. Exactly one of them must succeed."""
    def compete():
        return system("open", b"only", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    reader, writer = os.pipe()
    for _ in range(8):
        if os.fork() == 0:
            answer = compete()
            os.write(writer, b"1" if isinstance(answer, int) else b"0" if answer == "EEXIST" else b"?")
            os._exit(0)
    answers = b"".join(os.read(reader, 1) for _ in range(8))
    return sorted(answers.decode())


@check
def truncating_what_may_only_be_read():
    put("f", b"123")
    os.chmod("f", 0o444)
    os.chmod(".", 0o755)

    def cut():
        return opened("f", os.O_RDONLY | os.O_TRUNC), opened("f", os.O_WRONLY | os.O_TRUNC)
    return as_user(OTHER, OTHER, cut), get("f")


@check
def reading_and_truncating_at_once():
    put("f", b"123")
    descriptor = os.open("f", os.O_RDONLY | os.O_TRUNC)
    return os.read(descriptor, 5), attempt(os.write, descriptor, b"x"), os.stat("f").st_size


@check
def directory_flags():
    os.mkdir("d")
    put("d/f")
    return [opened("d", flags) for flags in (os.O_RDONLY, os.O_RDONLY | os.O_NOFOLLOW, os.O_WRONLY, os.O_RDWR, os.O_DIRECTORY | os.O_CREAT,
                                             os.O_RDONLY | os.O_TRUNC, os.O_RDONLY | os.O_APPEND, os.O_PATH, os.O_RDONLY | os.O_DIRECT)]


@check
def opened_for_execution():
    """An O_PATH descriptor can be opened and used although the user may not read the file."""
    put("f", b"x")
    os.chmod("f", 0o111)
    os.chmod(".", 0o755)
    return as_user(OTHER, OTHER, lambda: (opened("f", os.O_RDONLY), opened("f", os.O_PATH),
                                          os.fstat(os.open("f", os.O_PATH)).st_size))


@check
def openat2_below():
    """Checks openat2(2) with RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS and RESOLVE_NO_XDEV."""
    put("f")
    os.symlink("f", "l")
    os.symlink("/", "root")

    def ask(path, resolve):
        how = (ctypes.c_uint64 * 3)(0, 0, resolve)
        answer = system("syscall", 437, AT_FDCWD, path, how, 24, variant="(openat2)")
        return "ok" if isinstance(answer, int) else answer
    return [ask(b"f", 8), ask(b"l", 8), ask(b"root", 8), ask(b"../f", 8), ask(b"l", 4), ask(b"f", 1), ask(b"f", 1 << 20)]
