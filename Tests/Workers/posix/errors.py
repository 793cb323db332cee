# SPDX-License-Identifier: Apache-2.0
"""Checks every call that takes a path, with every kind of path on which the call can fail."""
import ctypes
import os
import stat

from asking import (APPEND_ONLY, AT_FDCWD, IMMUTABLE, OTHER, as_user, check_named, piece, put, set_flag,
                    system)

BUFFER = ctypes.create_string_buffer(8192)


def path_call(name, *rest, variant="", first=()):
    return lambda path: min(str(system(name, *first, path, *rest, variant=variant)), "ok", key=is_number)


def is_number(text):
    """Whether the answer is a number. A descriptor or a length means success, like a zero. Errors are words."""
    return text.isdigit()


CALLS = {
    "open": path_call("open", os.O_RDONLY, variant="(O_RDONLY)"),
    "open_for_writing": path_call("open", os.O_WRONLY, variant="(O_WRONLY)"),
    "open_and_truncate": path_call("open", os.O_RDWR | os.O_TRUNC, variant="(O_RDWR|O_TRUNC)"),
    "open_and_create": path_call("open", os.O_WRONLY | os.O_CREAT, 0o600, variant="(O_WRONLY|O_CREAT)"),
    "create_exclusively": path_call("open", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, variant="(O_CREAT|O_EXCL)"),
    "creat": path_call("creat", 0o600),
    "mkdir": path_call("mkdir", 0o700),
    "rmdir": path_call("rmdir"),
    "unlink": path_call("unlink"),
    "symlink": path_call("symlink", first=(b"to",)),
    "link_from": path_call("link", b"fresh"),
    "link_to": path_call("link", first=(b"file",)),
    "rename_from": path_call("rename", b"fresh"),
    "rename_to": path_call("rename", first=(b"file",)),
    "rename_directory_to": path_call("rename", first=(b"empty",)),
    "exchange_with": path_call("renameat2", 2, first=(AT_FDCWD, b"file", AT_FDCWD), variant="(RENAME_EXCHANGE)"),
    "truncate": path_call("truncate", ctypes.c_long(1)),
    "chmod": path_call("chmod", 0o640),
    "chown": path_call("chown", OTHER, OTHER),
    "lchown": path_call("lchown", OTHER, OTHER),
    "utimensat": path_call("utimensat", None, 0, first=(AT_FDCWD,)),
    "lutimens": path_call("utimensat", None, 0x100, first=(AT_FDCWD,), variant="(AT_SYMLINK_NOFOLLOW)"),
    "setxattr": path_call("setxattr", b"user.x", b"1", 1, 0, variant="(user)"),
    "lsetxattr": path_call("lsetxattr", b"user.x", b"1", 1, 0, variant="(user)"),
    "getxattr": path_call("getxattr", b"user.y", None, 0, variant="(user)"),
    "listxattr": path_call("listxattr", None, 0),
    "removexattr": path_call("removexattr", b"user.y", variant="(user)"),
    "stat": path_call("stat", BUFFER),
    "lstat": path_call("lstat", BUFFER),
    "readlink": path_call("readlink", BUFFER, 8192),
    "access": path_call("access", os.W_OK),
    "statfs": path_call("statfs", BUFFER),
    "chdir": path_call("chdir"),
    "mknod": path_call("mknod", stat.S_IFREG | 0o600, 0),
    "mkfifo": path_call("mkfifo", 0o600),
}


def scene():
    put("file", b"0123456789")
    for name in ("empty", "full", "closed"):
        os.mkdir(name)
    put("full/x")
    put("closed/x")
    os.symlink("loop", "loop")
    os.symlink("nowhere", "dangling")
    os.chmod("closed", 0)


def forbidden(call):
    return as_user(OTHER, OTHER, lambda: call(b"closed/x")) if os.geteuid() == 0 else call(b"closed/x")


def of_somebody_else(call):
    os.chmod(".", 0o755)
    return as_user(OTHER, OTHER, lambda: call(b"file"))


def flagged(path, flag, asked):
    def ask(call):
        set_flag(path, flag)
        try:
            return call(asked)
        finally:
            set_flag(path, 0)
    return ask


def at(path):
    return lambda call: call(path)


def on(name, path):
    return lambda call: call(os.path.join(os.fsencode(piece(name)), path))


def elsewhere(call):
    path = os.path.join(piece("other"), "dir", os.path.basename(os.getcwd()))
    put(path, b"0123456789")
    return call(os.fsencode(path))


SITUATIONS = {
    "missing": at(b"missing"), "in_nothing": at(b"nowhere/x"), "through_a_file": at(b"file/x"),
    "through_a_loop": at(b"loop/x"), "at_a_loop": at(b"loop"), "with_a_long_name": at(b"n" * 256),
    "with_a_long_path": at(b"d/" * 2048 + b"x"), "out_of_memory_bounds": at(ctypes.c_void_p(8)),
    "without_a_name": at(b""), "with_a_slash_after_a_file": at(b"file/"),
    "at_a_dangling_link": at(b"dangling"), "at_a_file": at(b"file"), "at_an_empty_directory": at(b"empty"),
    "at_a_full_directory": at(b"full"), "at_dot": at(b"full/."),
    "below_a_closed_directory": forbidden, "of_somebody_else": of_somebody_else,
    "at_an_immutable_file": flagged("file", IMMUTABLE, b"file"),
    "at_an_append_only_file": flagged("file", APPEND_ONLY, b"file"),
    "in_an_immutable_directory": flagged("full", IMMUTABLE, b"full/new"),
    "of_an_immutable_directory": flagged("full", IMMUTABLE, b"full/x"),
    "on_a_read_only_file": on("readonly", b"file"), "in_a_read_only_directory": on("readonly", b"new"),
    "on_a_read_only_directory": on("readonly", b"dir"), "on_another_file_system": elsewhere,
    "in_a_full_file_system": on("full", b"in/" + b"n" * 255), "on_a_mount_point": on("busy", b"mountpoint"),
    "on_a_mounted_file": on("busy", b"file"),
}


def checked(call, situation):
    def ask():
        scene()
        return situation(call)
    return ask


for situation_name, situation in SITUATIONS.items():
    for call_name, call in CALLS.items():
        check_named(f"{call_name}_{situation_name}", checked(call, situation))
