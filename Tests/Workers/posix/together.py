# SPDX-License-Identifier: Apache-2.0
"""Checks of a file that is opened several times at once: in every order, with a change of the file between two opens.

A mount uses passthrough for all handles of an inode or for none. The reasons for this choice may change while the file is open.
The rights of a handle must not depend on the program that opened the file first.
"""
import mmap
import os
import struct
import threading

from asking import APPEND_ONLY, IMMUTABLE, OTHER, attempt, check, check_named, get, need_root, put, set_flag, system

SIZE = 8192
CAPABILITY = struct.pack("<IIIII", 0x02000001, 0x400, 0, 0, 0)
OPENINGS = {
    "reading": os.O_RDONLY, "writing": os.O_WRONLY, "both": os.O_RDWR, "appending": os.O_WRONLY | os.O_APPEND,
    "direct": os.O_RDWR | os.O_DIRECT, "cutting": os.O_RDWR | os.O_TRUNC,
}


def be(user):
    """Makes root act as another user, because privileges of a file end when another user writes to it. Other users act as
    themselves."""
    if os.getuid() == 0:
        os.setegid(user)
        os.seteuid(user)


def somebody(call, *arguments):
    be(OTHER)
    try:
        return attempt(call, *arguments)
    finally:
        be_root()


def be_root():
    if os.getuid() == 0:
        os.seteuid(0)
        os.setegid(0)


def page(byte):
    """Returns a memory page. O_DIRECT needs the address of a page; for other flags it makes no difference."""
    buffer = mmap.mmap(-1, 4096)
    buffer[:] = byte * 4096
    return buffer


def mode(change, other="f"):
    def make():
        os.chmod("f", change)
        return other
    return make


def flagged(flag):
    def make():
        set_flag("f", flag)
        return "f"
    return make


def capable():
    need_root()
    os.setxattr("f", "security.capability", CAPABILITY)
    return "f"


def incapable():
    os.removexattr("f", "security.capability")
    return "f"


def linked():
    os.link("f", "link")
    return "link"


def moved():
    os.rename("f", "moved")
    return "moved"


def replaced():
    put("new", b"n" * SIZE)
    os.chmod("new", 0o777)
    os.rename("new", "f")
    return "f"


# For each change: the state of the file at the first open, and the change before the second open, which returns the name to
# open.
CHANGES = {
    "nothing": (mode(0o777), mode(0o777)),
    "setuid": (mode(0o777), mode(0o4777)), "no_setuid": (mode(0o4777), mode(0o777)),
    "setgid": (mode(0o777), mode(0o2777)), "no_setgid": (mode(0o2777), mode(0o777)),
    "setgid_without_execution": (mode(0o777), mode(0o2767)),
    "a_capability": (mode(0o777), capable), "no_capability": (capable, incapable),
    "append_only": (mode(0o777), flagged(APPEND_ONLY)), "append_only_no_more": (flagged(APPEND_ONLY), flagged(0)),
    "immutable": (mode(0o777), flagged(IMMUTABLE)), "immutable_no_more": (flagged(IMMUTABLE), flagged(0)),
    "another_name": (mode(0o777), linked), "a_new_name": (mode(0o777), moved), "another_file": (mode(0o777), replaced),
}


def privileges(descriptor):
    return oct(os.fstat(descriptor).st_mode), attempt(lambda: len(os.getxattr(descriptor, "security.capability")))


def used(descriptor, byte, at):
    """Returns what a handle can do, and which privileges the file still has after each step that may remove them."""
    if not isinstance(descriptor, int):
        return descriptor
    buffer = page(b"-")
    answers = [somebody(os.preadv, descriptor, [buffer], 0), buffer[0:2], somebody(os.pwritev, descriptor, [page(byte)], at)]
    return answers + [privileges(descriptor)]


def changed(descriptor):
    if not isinstance(descriptor, int):
        return descriptor
    answers = [somebody(os.ftruncate, descriptor, SIZE), privileges(descriptor)]
    answers += [somebody(os.posix_fallocate, descriptor, SIZE, 100), privileges(descriptor)]
    return answers + [attempt(os.lseek, descriptor, 0, os.SEEK_HOLE), somebody(os.fsync, descriptor)]


def contents(path):
    data = get(path)
    return len(data), [data[at:at + 1] for at in range(0, len(data), 4096)]


def in_turn(before, between, first, second):
    put("f", b"x" * SIZE)
    os.chmod("f", 0o777)
    before()
    one = somebody(os.open, "f", first)
    name = between()
    two = somebody(os.open, name, second)
    answers = [used(one, b"1", 0), used(two, b"2", 4096), used(one, b"3", 4096), changed(two), changed(one)]
    for descriptor in (one, two):
        if isinstance(descriptor, int):
            os.close(descriptor)
    answers.append(contents(name))
    for path in os.listdir("."):
        if os.getuid() == 0:
            set_flag(path, 0)
        os.unlink(path)
    return answers


def orders(first, change):
    before, between = CHANGES[change]

    def ask():
        if os.getuid() == 0:
            os.setgroups([])
        os.chmod(".", 0o777)
        return {second: in_turn(before, between, OPENINGS[first], OPENINGS[second]) for second in OPENINGS}
    return ask


for change in CHANGES:
    for first in OPENINGS:
        check_named(f"opened_for_{first}_then_{change}", orders(first, change))


@check
def hundreds_of_threads_open_one_file():
    """Makes all calls at once, by two names of a file, while the mode of the file changes."""
    number, rounds, wrong = 300, 4, []
    put("f", bytes(8 * number))
    os.link("f", "link")
    together = threading.Barrier(number + 1)
    over = threading.Event()

    def use(own):
        flags = (os.O_RDWR, os.O_RDONLY, os.O_WRONLY, os.O_RDWR | os.O_APPEND)[own % 4]
        name = ("f", "link")[own // 4 % 2]
        for turn in range(rounds):
            together.wait()
            try:
                descriptor = os.open(name, flags)
                if own % 4 in (0, 2):
                    os.pwrite(descriptor, b"%8d" % own, 8 * own)
                if own % 4 in (0, 1) and len(os.pread(descriptor, 8, 8 * own)) != 8:
                    wrong.append("short")
                os.close(descriptor)
            except OSError as error:
                wrong.append(error.strerror)

    def change():
        while not over.is_set():
            for way in (0o4755, 0o755, 0o2755, 0o755):
                os.chmod("f", way)
    threads = [threading.Thread(target=use, args=(own,)) for own in range(number)]
    changing = threading.Thread(target=change)
    for thread in threads + [changing]:
        thread.start()
    for turn in range(rounds):
        together.wait()
    for thread in threads:
        thread.join()
    over.set()
    changing.join()
    data = get("f")
    return wrong, len(data), [own for own in range(number) if own % 2 == 0 and data[8 * own:8 * own + 8] != b"%8d" % own]


def stored(last_look, order):
    """Checks that changes of mapped pages show in the times once all processes have closed the file."""
    def ask():
        late = 0
        put("f", b"x" * 4096)
        for turn in range(50):
            os.utime("f", ns=(10 ** 18, 10 ** 18))
            descriptor = os.open("f", os.O_RDWR)
            last_look("before", descriptor)
            mapping = mmap.mmap(descriptor, 4096)
            last_look("mapped", descriptor)
            if order == "closed_first":
                os.close(descriptor)
                last_look("closed", descriptor)
            mapping[0:1] = b"y"
            mapping.close()
            if order == "closed_last":
                os.close(descriptor)
            late += os.stat("f").st_mtime_ns == 10 ** 18
        return late
    return ask


def look(when):
    def at(moment, descriptor):
        if moment == when:
            os.stat("f")
            os.stat("f")
    return at


for when in ("before", "mapped", "closed", "never"):
    for order in ("closed_first", "closed_last"):
        if (when, order) != ("closed", "closed_last"):
            check_named(f"time_of_a_store_seen_last_{when}_and_{order}", stored(look(when), order))


@check
def time_of_a_store_that_was_synced():
    put("f", b"x" * 4096)
    os.utime("f", ns=(10 ** 18, 10 ** 18))
    descriptor = os.open("f", os.O_RDWR)
    mapping = mmap.mmap(descriptor, 4096)
    os.fstat(descriptor)
    mapping[0:1] = b"y"
    mapping.flush()
    return os.fstat(descriptor).st_mtime_ns > 10 ** 18, os.stat("f").st_mtime_ns > 10 ** 18


@check
def time_of_a_store_while_mapped():
    put("f", b"x" * 4096)
    os.utime("f", ns=(10 ** 18, 10 ** 18))
    descriptor = os.open("f", os.O_RDWR)
    mapping = mmap.mmap(descriptor, 4096)
    os.fstat(descriptor)
    mapping[0:1] = b"y"
    return os.fstat(descriptor).st_mtime_ns > 10 ** 18
