# SPDX-License-Identifier: Apache-2.0
"""Checks of the rights of users."""
import fcntl
import mmap
import os
import socket
import stat
import struct

from asking import (ANYONE, APPEND_ONLY, FRIEND, GROUP, IMMUTABLE, OTHER, acl, as_user, attempt, check, get, looks,
                    put, set_flag)


@check
def umask_and_modes():
    answers = []
    for mask in (0, 0o22, 0o77, 0o777):
        old = os.umask(mask)
        os.close(os.open(f"f{mask}", os.O_CREAT | os.O_WRONLY, 0o666))
        os.mkdir(f"d{mask}", 0o777)
        os.mkfifo(f"p{mask}", 0o666)
        os.close(os.open(f"s{mask}", os.O_CREAT | os.O_WRONLY, 0o6777))
        os.umask(old)
        answers += [oct(os.lstat(f"{kind}{mask}").st_mode) for kind in "fdps"]
    return answers


@check
def files_belong_to_their_maker():
    os.chmod(".", 0o777)

    def make():
        os.umask(0o22)
        put("f")
        os.mkdir("d")
        os.symlink("x", "l")
        os.mkfifo("p")
        os.mknod("n", 0o644 | stat.S_IFREG)
        socket.socket(socket.AF_UNIX).bind("s")
        os.link("f", "h")
        return [looks(name) for name in "fdlpnsh"]
    return as_user(OTHER, GROUP, make)


@check
def rights_are_checked():
    os.chmod(".", 0o755)
    put("f", b"secret")
    os.chmod("f", 0o600)
    os.mkdir("d")
    os.chmod("d", 0o700)
    put("d/x")
    put("readable", b"text")
    calls = [lambda: get("f"), lambda: put("new"), lambda: os.unlink("f"), lambda: os.listdir("d"),
             lambda: os.stat("d/x"), lambda: os.chmod("readable", 0o777), lambda: os.truncate("readable", 0),
             lambda: get("readable"), lambda: os.utime("readable"), lambda: os.utime("readable", ns=(1, 1)),
             lambda: os.setxattr("readable", "user.x", b""), lambda: os.rename("readable", "x"),
             lambda: os.access("f", os.R_OK), lambda: os.access("readable", os.R_OK), lambda: os.access(".", os.W_OK),
             lambda: os.chown("readable", OTHER, OTHER), lambda: os.mkdir("m"), lambda: os.link("f", "m"),
             lambda: os.symlink("f", "m"), lambda: os.open(".", os.O_TMPFILE | os.O_RDWR),
             lambda: os.setxattr("readable", "trusted.x", b"1"), lambda: os.listxattr("readable")]
    return [as_user(OTHER, OTHER, call) for call in calls]


@check
def listed_but_not_entered():
    answers = []
    for mode in (0o600, 0o400, 0o300, 0o100, 0):
        os.mkdir("d")
        os.mkdir("d/e")
        put("d/f")
        os.chmod("d", mode)
        answers.append((mode, attempt(lambda: sorted(os.listdir("d"))),
                        attempt(lambda: sorted((entry.name, entry.is_dir()) for entry in os.scandir("d"))),
                        attempt(lambda: looks("d/f")), attempt(lambda: get("d/f")), attempt(lambda: os.rmdir("d/e"))))
        os.chmod("d", 0o700)
        os.rename("d", f"d{mode}")
    return answers


@check
def groups_count():
    put("f", b"group")
    if os.geteuid() == 0:
        os.chown("f", 0, GROUP)
    os.chmod("f", 0o640)
    return (as_user(OTHER, OTHER, lambda: get("f")), as_user(OTHER, GROUP, lambda: get("f")),
            as_user(OTHER, OTHER, lambda: get("f"), groups=[1, 2, GROUP]),
            as_user(OTHER, OTHER, lambda: put("f"), groups=[GROUP]))


@check
def setgid_directories():
    os.mkdir("d")
    if os.geteuid() == 0:
        os.chown("d", 0, GROUP)
    os.chmod("d", 0o2777)

    def make():
        os.umask(0)
        put("d/f")
        os.mkdir("d/sub")
        put("d/sub/g")
        os.symlink("x", "d/l")
        os.close(os.open("d/exec", os.O_CREAT | os.O_WRONLY, 0o2775))
        os.mknod("d/n", 0o2775 | stat.S_IFREG)
        return [looks(name) for name in ("d/f", "d/sub", "d/sub/g", "d/l", "d/exec", "d/n")]
    return as_user(OTHER, OTHER, make)



@check
def access_lists():
    put("f", b"listed")
    os.chmod("f", 0o640)
    rights = acl((1, 6, ANYONE), (2, 4, OTHER), (4, 0, ANYONE), (16, 4, ANYONE), (32, 0, ANYONE))
    os.setxattr("f", "system.posix_acl_access", rights)
    if os.geteuid() == 0:
        os.chown("f", 0, GROUP)
    answers = [oct(os.stat("f").st_mode), as_user(OTHER, OTHER, lambda: get("f")),
               as_user(FRIEND, FRIEND, lambda: get("f")), as_user(FRIEND, GROUP, lambda: get("f")),
               os.getxattr("f", "system.posix_acl_access") == rights]
    os.chmod("f", 0o600)
    answers += [as_user(OTHER, OTHER, lambda: get("f")), os.getxattr("f", "system.posix_acl_access").hex()]
    os.chmod("f", 0o660)
    answers += [as_user(OTHER, OTHER, lambda: get("f")), os.listxattr("f")]
    os.removexattr("f", "system.posix_acl_access")
    return answers + [oct(os.stat("f").st_mode), attempt(os.getxattr, "f", "system.posix_acl_access"),
                      as_user(OTHER, OTHER, lambda: get("f")),
                      attempt(os.setxattr, "f", "system.posix_acl_access", b"rubbish"),
                      attempt(os.setxattr, "f", "system.posix_acl_default", rights)]


@check
def default_access_lists():
    os.mkdir("d")
    os.chmod("d", 0o777)
    rights = acl((1, 7, ANYONE), (2, 7, OTHER), (4, 5, ANYONE), (16, 7, ANYONE), (32, 0, ANYONE))
    os.setxattr("d", "system.posix_acl_default", rights)

    def make():
        os.umask(0o77)
        put("d/f", mode=0o666)
        os.mkdir("d/sub", 0o777)
        put("d/sub/g", mode=0o600)
        os.mkfifo("d/p", 0o666)
        os.mknod("d/n", 0o666 | stat.S_IFREG)
        os.symlink("x", "d/l")
        return [(looks(name), {attribute: os.getxattr(name, attribute).hex() for attribute in os.listxattr(name)})
                for name in ("d/f", "d/sub", "d/sub/g", "d/p", "d/n")]
    return make(), as_user(FRIEND, FRIEND, lambda: (os.mkdir("d/theirs"), looks("d/theirs"))), \
        as_user(OTHER, OTHER, lambda: put("d/sub/new"))


@check
def privileges_end_with_writing():
    def again(mode, change):
        put("f", b"#!/bin/sh\n")
        os.chmod("f", 0o666)
        os.chmod("f", mode)
        answer = as_user(OTHER, OTHER, change)
        return answer, oct(os.stat("f").st_mode)

    def rewrite():
        descriptor = os.open("f", os.O_WRONLY)
        return os.write(descriptor, b"x")

    def through_mapping():
        descriptor = os.open("f", os.O_RDWR)
        mapping = mmap.mmap(descriptor, 4)
        mapping[0:1] = b"y"
        mapping.flush()

    def allocate():
        return os.posix_fallocate(os.open("f", os.O_RDWR), 0, 5000)
    # On most file systems, a store into a shared mapping does not remove set-user-ID. So the answer must only equal that of the
    # directory below.
    return [again(mode, change) for mode in (0o4777, 0o2777, 0o6777, 0o2767)
            for change in (rewrite, lambda: os.truncate("f", 1), lambda: put("f", b"z"), through_mapping, allocate)]


@check
def privileges_of_root_when_writing():
    put("f", b"x")
    answers = []
    for change in (lambda: put("f", b"y"), lambda: os.truncate("f", 0)):
        os.chmod("f", 0o6755)
        change()
        answers.append(oct(os.stat("f").st_mode))
    return answers


@check
def privileges_end_with_giving_away():
    answers = []
    for mode in (0o4755, 0o2755, 0o6755, 0o2745, 0o6644):
        put("f", b"x")
        os.chmod("f", mode)
        answers += [attempt(os.chown, "f", OTHER, OTHER), oct(os.stat("f").st_mode)]
        os.unlink("f")
    os.mkdir("d")
    os.chmod("d", 0o6755)
    return answers + [attempt(os.chown, "d", OTHER, OTHER), oct(os.stat("d").st_mode)]


@check
def capabilities_end_with_writing():
    capability = struct.pack("<IIIII", 0x02000001, 0x400, 0, 0, 0)
    put("f", b"x")
    os.chmod("f", 0o777)
    answers = [attempt(os.setxattr, "f", "security.capability", capability), attempt(os.getxattr, "f", "security.capability")]
    descriptor = os.open("f", os.O_WRONLY)
    os.write(descriptor, b"y")
    answers.append(attempt(os.getxattr, "f", "security.capability"))
    answers.append(attempt(os.setxattr, "f", "security.capability", capability))
    os.truncate("f", 0)
    answers.append(attempt(os.getxattr, "f", "security.capability"))
    answers.append(attempt(os.setxattr, "f", "security.capability", capability))
    put("f", b"")
    answers.append(attempt(os.getxattr, "f", "security.capability"))
    answers.append(attempt(os.setxattr, "f", "security.capability", capability))
    attempt(os.chown, "f", OTHER, -1)
    return answers + [attempt(os.getxattr, "f", "security.capability")]


@check
def setgid_is_for_members():
    put("f")
    attempt(os.chown, "f", OTHER, GROUP)
    return (as_user(OTHER, OTHER, lambda: (os.chmod("f", 0o2755), oct(os.stat("f").st_mode))),
            as_user(OTHER, GROUP, lambda: (os.chmod("f", 0o2755), oct(os.stat("f").st_mode))),
            as_user(OTHER, OTHER, lambda: os.chown("f", -1, OTHER)), looks("f"),
            as_user(OTHER, OTHER, lambda: os.chown("f", -1, 1)))


@check
def rights_at_opening_last():
    put("f", b"open")
    attempt(os.chown, "f", OTHER, OTHER)

    def make():
        descriptor = os.open("f", os.O_RDWR)
        os.chmod("f", 0)
        fresh = os.open("g", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o000)
        return (os.write(descriptor, b"still"), os.pread(descriptor, 9, 0), attempt(os.open, "f", os.O_RDONLY),
                os.write(fresh, b"new"), os.pread(fresh, 9, 0), attempt(os.open, "g", os.O_RDONLY))
    os.chmod(".", 0o777)
    return as_user(OTHER, OTHER, make)


@check
def read_only_handles_survive_unlink_by_another_user():
    put("f", b"mine")
    os.chmod("f", 0o444)
    os.chmod(".", 0o777)

    def use():
        descriptor = os.open("f", os.O_RDONLY)
        os.unlink("f")
        return os.fstat(descriptor).st_nlink, os.read(descriptor, 9), attempt(os.ftruncate, descriptor, 0)
    return as_user(OTHER, OTHER, use)


@check
def immutable_and_append_only():
    put("f", b"1")
    answers = []
    for flag in (APPEND_ONLY, IMMUTABLE):
        set_flag("f", flag)
        answers += [attempt(put, "f", b"x"), attempt(os.truncate, "f", 0), attempt(os.unlink, "f"),
                    attempt(os.rename, "f", "g"), attempt(os.link, "f", "h"), attempt(os.chmod, "f", 0o600),
                    attempt(os.open, "f", os.O_WRONLY), attempt(os.open, "f", os.O_RDWR | os.O_TRUNC)]
        descriptor = attempt(os.open, "f", os.O_WRONLY | os.O_APPEND)
        answers.append(attempt(os.write, descriptor, b"2") if isinstance(descriptor, int) else descriptor)
        set_flag("f", 0)
    return answers, get("f")
