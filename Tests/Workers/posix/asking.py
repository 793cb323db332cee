# SPDX-License-Identifier: Apache-2.0
"""Parts that all checks share: system calls, and the users that make them."""
import ctypes
import fcntl
import os
import stat
import struct

import calls

CHECKS = []
NOT_ASKED = "not asked: "
libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD = -100
OTHER, FRIEND, GROUP = 12345, 12346, 23456


class NotAsked(Exception):
    """Raised by a check that cannot run here, with the reason. If both sides give the same reason, this is no agreement."""


def check(function):
    CHECKS.append(function)
    return function


def check_named(name, function):
    """Adds a check that is generated from a table, under its own name."""
    function.__name__ = name
    return check(function)


def attempt(call, *arguments, **keywords):
    """Returns the answer of a call: its result, or the name of its error."""
    try:
        return call(*arguments, **keywords)
    except OSError as error:
        return calls.name_of(error.errno)


def system(name, *arguments, variant=""):
    """Calls a function of the C library. Returns its result, or the name of its error.

    The variant is noted with the call, to distinguish calls with other flags.
    """
    result = getattr(libc, name)(*arguments)
    outcome = calls.OK if result >= 0 else calls.name_of(ctypes.get_errno())
    calls.note(name + variant, outcome)
    return result if result >= 0 else outcome


def link_descriptor(descriptor, name):
    return system("linkat", AT_FDCWD, f"/proc/self/fd/{descriptor}".encode(), AT_FDCWD, name, 0x400)


def put(path, data=b"", mode=0o644):
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    os.write(descriptor, data)
    os.close(descriptor)


def get(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return b"".join(iter(lambda: os.read(descriptor, 1 << 20), b""))
    finally:
        os.close(descriptor)


def looks(path):
    status = os.lstat(path)
    return oct(status.st_mode), status.st_uid, status.st_gid, status.st_nlink, status.st_size \
        if not stat.S_ISDIR(status.st_mode) else None


def as_user(user, group, call, groups=()):
    """Returns the answer of `call` in a child of another user."""
    if os.geteuid() != 0:
        return "only root can act as others"

    def become():
        os.setgroups(groups)
        os.setresgid(group, group, group)
        os.setresuid(user, user, user)
        return call()
    return in_child(become)


def in_child(call):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = repr(attempt(call))
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writer, answer.encode())
        os._exit(0)
    os.close(writer)
    answer = b"".join(iter(lambda: os.read(reader, 65536), b""))
    os.close(reader)
    os.waitpid(child, 0)
    return answer.decode()


def acl(*entries):
    """Returns the bytes of an access control list. Its entries are (tag, permissions, id)."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


ANYONE = 0xFFFFFFFF

# The path of the directory with the checks, and a descriptor of its parent directory that was opened past the mount.
places = {}


def below(path):
    """Returns the path of the same file that does not lead through the mount."""
    return os.path.join(f"/proc/self/fd/{places['below']}", os.path.relpath(path, os.path.dirname(places["asked"])))


def piece(name):
    """Returns the path of a file system that root has mounted below the checked tree; see Scripts/lib/pieces.sh."""
    path = os.path.join(os.path.dirname(places["asked"]), "pieces", name)
    if not os.path.isdir(path):
        raise NotAsked(f"nothing was mounted as '{name}'")
    return path


def need_root():
    if os.geteuid() != 0:
        raise NotAsked("this takes root")


APPEND_ONLY, IMMUTABLE = 0x20, 0x10


def set_flag(path, flag):
    """Sets a flag of a file in the directory below, because FUSE does not pass on such a request. With 0, both flags are
    removed."""
    need_root()
    descriptor = os.open(below(path), os.O_RDONLY)
    before = attempt(fcntl.ioctl, descriptor, 0x80086601, bytes(8))
    if isinstance(before, str):
        raise NotAsked("the file system below has no such flags")
    kept = struct.unpack("L", before)[0] & ~(APPEND_ONLY | IMMUTABLE)
    fcntl.ioctl(descriptor, 0x40086602, struct.pack("L", kept | flag))
    os.close(descriptor)
