# SPDX-License-Identifier: Apache-2.0
"""Checks of extended attributes, by their name spaces and by the calling user."""
import os
import struct

from asking import ANYONE, FRIEND, OTHER, acl, as_user, attempt, check, check_named, looks, need_root, put

LIST = acl((1, 6, ANYONE), (2, 4, FRIEND), (4, 4, ANYONE), (16, 6, ANYONE), (32, 0, ANYONE))
CAPABILITY = struct.pack("<IIIII", 0x02000001, 0x400, 0, 0, 0)
VALUES = {"user.x": b"1", "trusted.x": b"2", "security.x": b"3", "security.capability": CAPABILITY,
          "system.posix_acl_access": LIST, "system.posix_acl_default": LIST, "system.x": b"4", "unknown.x": b"5", "nospace": b"6",
          "user.": b"7", "user.\udcff": b"8"}


def make(kind):
    if kind == "file":
        put("x")
    elif kind == "directory":
        os.mkdir("x")
    elif kind == "link":
        os.symlink("nowhere", "x")
    else:
        os.mkfifo("x")
    attempt(os.chmod, "x", 0o644) if kind != "link" else None


def life(kind, name, value):
    """Sets an attribute, sets it again against a flag, gets it, lists it, replaces it, removes it, and removes it again."""
    def ask():
        make(kind)
        own = {"follow_symlinks": False}
        return [attempt(os.setxattr, "x", name, value, os.XATTR_REPLACE, **own), attempt(os.setxattr, "x", name, value, **own),
                attempt(os.setxattr, "x", name, value, os.XATTR_CREATE, **own), attempt(os.getxattr, "x", name, **own),
                attempt(os.listxattr, "x", **own), attempt(os.setxattr, "x", name, value, os.XATTR_REPLACE, **own),
                attempt(os.removexattr, "x", name, **own), attempt(os.removexattr, "x", name, **own), looks("x")[0]]
    return ask


for kind in ("file", "directory", "link", "pipe"):
    for name, value in VALUES.items():
        shown = name.replace("\udcff", "bytes").replace(".", "_").rstrip("_") + ("_alone" if name.endswith(".") else "")
        check_named(f"{shown}_of_a_{kind}", life(kind, name, value))


def for_others(name, value):
    def ask():
        need_root()
        put("x")
        os.chmod("x", 0o664)
        attempt(os.setxattr, "x", name, value)
        os.chmod(".", 0o755)
        return [as_user(OTHER, OTHER, lambda: call("x")) for call in (
            lambda path: os.getxattr(path, name), lambda path: os.listxattr(path), lambda path: os.setxattr(path, name, value),
            lambda path: os.removexattr(path, name))]
    return ask


for name, value in VALUES.items():
    if name in ("user.x", "trusted.x", "security.x", "security.capability", "system.posix_acl_access"):
        check_named(f"{name.replace('.', '_')}_for_others", for_others(name, value))


@check
def attributes_of_a_sticky_directory():
    """A user that may write in a sticky directory of another user may not set attributes of that directory."""
    need_root()
    os.mkdir("d")
    os.chmod("d", 0o1777)
    return as_user(OTHER, OTHER, lambda: os.setxattr("d", "user.x", b"1"))


@check
def attributes_follow_a_rename():
    put("a")
    os.setxattr("a", "user.x", b"1")
    put("b")
    os.rename("a", "b")
    return os.getxattr("b", "user.x"), attempt(os.getxattr, "a", "user.x")


@check
def attributes_by_a_path_descriptor():
    put("f")
    descriptor = os.open("f", os.O_PATH)
    return attempt(os.setxattr, descriptor, "user.x", b"1"), attempt(os.setxattr, f"/proc/self/fd/{descriptor}", "user.x", b"1"), \
        os.listxattr("f")


@check
def many_attributes():
    put("f")
    answers = [attempt(os.setxattr, "f", f"user.number{number}", b"v" * 20) for number in range(40)]
    return answers.count(None), len(os.listxattr("f")), os.getxattr("f", "user.number39")


@check
def sizes_of_values():
    answers = []
    for size in (0, 1, 255, 256, 1000, 3900, 4096, 65535, 65536, 65537):
        put(f"f{size}")
        answers.append((attempt(os.setxattr, f"f{size}", "user.x", b"v" * size), len(attempt(os.getxattr, f"f{size}", "user.x"))))
    return answers
