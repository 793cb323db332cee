# SPDX-License-Identifier: Apache-2.0
"""Shared parts of the checks: system calls, and the users that make them."""
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
    """Raised by a check that is impossible here, with the reason. Equal reasons on both sides are no agreement."""


def check(function):
    CHECKS.append(function)
    return function


def check_named(name, function):
    """For checks that a table generates."""
    function.__name__ = name
    return check(function)


def attempt(call, *arguments, **keywords):
    """The answer of a call: its result, or the name of its error."""
    try:
        return call(*arguments, **keywords)
    except OSError as error:
        return calls.name_of(error.errno)


def system(name, *arguments, variant=""):
    """A call of the C library: its result, or the name of its error. The variant tells calls with other flags apart."""
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
    """The answer of `call` in a child with another user."""
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
    """The bytes of an access list. Entries are (tag, permissions, id)."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


ANYONE = 0xFFFFFFFF

# The directory of the checks. With a mount also a descriptor of its parent directory, past the mount.
places = {}


def below(path):
    """The same file, past the mount."""
    return os.path.join(f"/proc/self/fd/{places['below']}", os.path.relpath(path, os.path.dirname(places["asked"])))


def piece(name):
    """A file system that root has mounted below the checked tree; see Scripts/lib/pieces.sh."""
    path = os.path.join(os.path.dirname(places["asked"]), "pieces", name)
    if not os.path.isdir(path):
        raise NotAsked(f"nothing was mounted as '{name}'")
    return path


def need_root():
    if os.geteuid() != 0:
        raise NotAsked("this takes root")


APPEND_ONLY, IMMUTABLE = 0x20, 0x10


def set_flag(path, flag):
    """FUSE passes no such request on, so the flag is set in the directory below; 0 takes both away."""
    need_root()
    descriptor = os.open(below(path), os.O_RDONLY)
    before = attempt(fcntl.ioctl, descriptor, 0x80086601, bytes(8))
    if isinstance(before, str):
        raise NotAsked("the file system below has no such flags")
    kept = struct.unpack("L", before)[0] & ~(APPEND_ONLY | IMMUTABLE)
    fcntl.ioctl(descriptor, 0x40086602, struct.pack("L", kept | flag))
    os.close(descriptor)
