# SPDX-License-Identifier: Apache-2.0
"""Checks of owners: users and groups with numbers of every size, and set-user-ID after a write by another user."""
import ctypes
import mmap
import os
import stat

from asking import (ANYONE, FRIEND, GROUP, OTHER, acl, as_user, attempt, check, check_named, looks, need_root,
                    put, system)

USERS = {"the_first": 1, "nobody": 65534, "16_bits": 65535, "17_bits": 65536, "31_bits": 2 ** 31 - 1, "32_bits": 2 ** 31,
         "the_last": 2 ** 32 - 2}


def owned(user):
    def ask():
        need_root()
        put("f")
        os.mkdir("d")
        os.symlink("x", "l")
        answers = [attempt(os.chown, name, user, user, follow_symlinks=False) for name in "fdl"]
        return answers, [looks(name) for name in "fdl"]
    return ask


def made(user):
    def ask():
        need_root()
        os.chmod(".", 0o777)

        def make():
            put("f", b"mine")
            os.mkdir("d")
            os.chmod("f", 0o600)
            return looks("f"), looks("d"), attempt(os.truncate, "f", 1), attempt(os.rename, "f", "d/f")
        return as_user(user, user, make)
    return ask


for name, user in USERS.items():
    check_named(f"file_given_to_user_{name}", owned(user))
    check_named(f"file_made_by_user_{name}", made(user))


@check
def owner_that_is_no_change():
    put("f")
    return attempt(os.chown, "f", -1, -1), attempt(os.chown, "f", os.geteuid(), os.getegid()), looks("f")


@check
def group_alone_is_changed():
    need_root()
    put("f")
    return attempt(os.chown, "f", -1, GROUP), looks("f"), attempt(os.chown, "f", OTHER, -1), looks("f")


@check
def owner_gives_to_own_groups_only():
    need_root()
    put("f")
    os.chown("f", OTHER, OTHER)
    os.chmod(".", 0o755)
    return [as_user(OTHER, OTHER, lambda: os.chown("f", -1, group), groups=[GROUP]) for group in (GROUP, FRIEND, OTHER)], \
        as_user(OTHER, OTHER, lambda: os.chown("f", FRIEND, -1)), looks("f")


@check
def many_groups():
    """A user in more than the 32 groups that some interfaces pass on has the rights of all its groups."""
    need_root()
    put("f", b"1")
    os.chown("f", 0, GROUP)
    os.chmod("f", 0o060)
    os.chmod(".", 0o755)
    return as_user(OTHER, OTHER, lambda: os.open("f", os.O_RDWR) > 0, groups=list(range(30000, 30200)) + [GROUP]), \
        as_user(OTHER, OTHER, lambda: os.open("f", os.O_RDWR) > 0, groups=list(range(30000, 30200)))


@check
def effective_user_counts():
    """A program of root has another effective user for a moment. That user's rights count, but access(2) checks the real
    user's."""
    need_root()
    os.chmod(".", 0o777)
    os.setegid(OTHER)
    os.seteuid(OTHER)
    put("f", b"1")
    os.chmod("f", 0)
    answers = [looks("f"), attempt(os.open, "f", os.O_RDONLY), os.access("f", os.R_OK), os.access("f", os.R_OK, effective_ids=True)]
    os.seteuid(0)
    return answers


@check
def root_without_its_capabilities():
    """A child of root that has dropped CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH has no more rights than an ordinary user."""
    need_root()
    put("f", b"1")
    os.chown("f", OTHER, OTHER)
    os.chmod("f", 0o600)
    header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    system("capget", header, data)
    before = attempt(os.close, os.open("f", os.O_RDWR))
    for index in (0, 1):
        data[index] &= ~0x6
    return before, system("capset", header, data), attempt(os.open, "f", os.O_RDONLY), attempt(os.truncate, "f", 0)


def strip(mode, change):
    def ask():
        need_root()
        put("f", b"#!/bin/sh\n" * 1000)
        put("other", b"other" * 1000)
        os.chmod(".", 0o777)
        os.chmod("f", mode)
        return as_user(OTHER, OTHER, change), oct(os.stat("f").st_mode)
    return ask


def opened(call, flags=os.O_RDWR):
    return lambda: call(os.open("f", flags))


def stored(descriptor):
    mapping = mmap.mmap(descriptor, 4096)
    mapping[0:1] = b"y"
    mapping.flush()


CHANGES = {
    "write": opened(lambda d: os.write(d, b"x")), "pwrite": opened(lambda d: os.pwrite(d, b"x", 3)),
    "append": opened(lambda d: os.write(d, b"x"), os.O_WRONLY | os.O_APPEND), "truncate": lambda: os.truncate("f", 5),
    "ftruncate": opened(lambda d: os.ftruncate(d, 5)), "opening_with_truncation": opened(os.close, os.O_WRONLY | os.O_TRUNC),
    "fallocate": opened(lambda d: os.posix_fallocate(d, 0, 100000)), "opening": opened(os.close, os.O_RDWR), "mapping": opened(stored),
    "punching": opened(lambda d: system("fallocate", d, 3, ctypes.c_long(0), ctypes.c_long(4096), variant="(PUNCH_HOLE)")),
    "copying": opened(lambda d: os.copy_file_range(os.open("other", os.O_RDONLY), d, 10)),
    "sendfile": opened(lambda d: os.sendfile(d, os.open("other", os.O_RDONLY), 0, 10)),
    "extending": lambda: os.truncate("f", 20000), "touching": lambda: os.utime("f"),
    "setting_an_attribute": lambda: os.setxattr("f", "user.x", b"1"),
}
for mode in (0o4777, 0o2777, 0o6777, 0o2767):
    for name, change in CHANGES.items():
        check_named(f"mode_{mode:o}_after_{name}_by_another", strip(mode, change))


@check
def mode_of_root_stays_with_writing():
    put("f", b"x")
    os.chmod("f", 0o6755)
    os.write(os.open("f", os.O_WRONLY), b"y")
    return oct(os.stat("f").st_mode)


@check
def owner_without_root_strips_his_own():
    need_root()
    put("f", b"x")
    os.chown("f", OTHER, OTHER)
    os.chmod("f", 0o6755)
    os.chmod(".", 0o755)
    return as_user(OTHER, OTHER, lambda: os.write(os.open("f", os.O_WRONLY), b"y")), oct(os.stat("f").st_mode)


@check
def mode_set_while_somebody_writes():
    """A set-user-ID bit that is set while a file is open for writing is also removed by the next write."""
    need_root()
    put("f", b"x")
    os.chmod("f", 0o777)
    os.chmod(".", 0o755)

    def write_later():
        descriptor = os.open("f", os.O_WRONLY)
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        return os.write(descriptor, b"y")
    ready, go = os.pipe(), os.pipe()
    if os.fork() == 0:
        os.read(ready[0], 1)
        os.chmod("f", 0o4777)
        os.write(go[1], b"x")
        os._exit(0)
    return as_user(OTHER, OTHER, write_later), oct(os.stat("f").st_mode)


def below_default(mask, mode, kind):
    rights = acl((1, 7, ANYONE), (2, 6, OTHER), (4, 5, ANYONE), (8, 7, GROUP), (16, 6, ANYONE), (32, 1, ANYONE))

    def ask():
        os.mkdir("d")
        os.setxattr("d", "system.posix_acl_default", rights)
        os.umask(mask)
        if kind == "file":
            os.close(os.open("d/n", os.O_WRONLY | os.O_CREAT, mode))
        elif kind == "directory":
            os.mkdir("d/n", mode)
        else:
            os.mkfifo("d/n", mode)
        return looks("d/n"), {name: os.getxattr("d/n", name).hex() for name in sorted(os.listxattr("d/n"))}
    return ask


for mask in (0, 0o27, 0o777):
    for mode in (0o777, 0o640):
        for kind in ("file", "directory", "pipe"):
            check_named(f"{kind}_of_mode_{mode:o}_and_umask_{mask:o}_below_a_default_list", below_default(mask, mode, kind))


@check
def default_list_of_a_file_is_none():
    put("f")
    rights = acl((1, 6, ANYONE), (4, 4, ANYONE), (32, 4, ANYONE))
    return attempt(os.setxattr, "f", "system.posix_acl_default", rights), attempt(os.setxattr, "f", "system.posix_acl_access", rights), \
        os.listxattr("f"), oct(stat.S_IMODE(os.stat("f").st_mode))


@check
def privileges_stay_with_whoever_owns_them():
    """chown(2) without a new user or group removes set-user-ID and set-group-ID, and only the owner may call it."""
    need_root()
    os.chmod(".", 0o777)
    answers = []
    for mode in (0o4755, 0o2755, 0o6777, 0o2745, 0o2750, 0o755):
        put("f", b"x")
        os.chown("f", FRIEND, GROUP)
        os.mkdir("d")
        for name in "fd":
            os.chmod(name, mode)
            for user, group in ((OTHER, OTHER), (OTHER, GROUP), (FRIEND, GROUP), (0, 0)):
                answers.append(as_user(user, group, lambda: attempt(os.chown, name, -1, -1)))
                answers.append(oct(os.stat(name).st_mode))
        os.unlink("f")
        os.rmdir("d")
    return answers
