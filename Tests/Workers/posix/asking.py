# SPDX-License-Identifier: Apache-2.0
"""What the checks share: how to ask the system, and as whom."""
import ctypes
import errno
import os
import stat
import struct

CHECKS = []
libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD = -100
OTHER, FRIEND, GROUP = 12345, 12346, 23456


def check(function):
    CHECKS.append(function)
    return function


def attempt(call, *arguments, **keywords):
    """What a call answers: its result, or the name of its error."""
    try:
        return call(*arguments, **keywords)
    except OSError as error:
        return errno.errorcode.get(error.errno, error.errno)


def system(name, *arguments):
    result = getattr(libc, name)(*arguments)
    return result if result >= 0 else errno.errorcode[ctypes.get_errno()]


def link_descriptor(descriptor, name):
    return system("linkat", AT_FDCWD, f"/proc/self/fd/{descriptor}".encode(), AT_FDCWD, name, 0x400)


def put(path, data=b"", mode=0o644):
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    os.write(descriptor, data)
    os.close(descriptor)


def get(path):
    with open(path, "rb") as file:
        return file.read()


def looks(path):
    status = os.lstat(path)
    return oct(status.st_mode), status.st_uid, status.st_gid, status.st_nlink, status.st_size \
        if not stat.S_ISDIR(status.st_mode) else None


def as_user(user, group, call, groups=()):
    """What `call` answers in a child that has become somebody else."""
    if os.geteuid() != 0:
        return "only root can act as others"
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups(groups)
        os.setresgid(group, group, group)
        os.setresuid(user, user, user)
        os.write(writer, repr(attempt(call)).encode())
        os._exit(0)
    os.close(writer)
    answer = b"".join(iter(lambda: os.read(reader, 65536), b""))
    os.close(reader)
    os.waitpid(child, 0)
    return answer.decode()


def in_child(call):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, repr(attempt(call)).encode())
        os._exit(0)
    os.close(writer)
    answer = b"".join(iter(lambda: os.read(reader, 65536), b""))
    os.close(reader)
    os.waitpid(child, 0)
    return answer.decode()


def acl(*entries):
    """The bytes of an access list. Entries are (tag, permissions, id)."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


ANYONE = 0xFFFFFFFF

# The directory below the one that is asked, if that is a mount.
places = {}


def below(path):
    """The same file, past the mount."""
    return os.path.join(places["below"], os.path.relpath(path, places["asked"]))
