# SPDX-License-Identifier: Apache-2.0
"""Checks of extended attributes, special files and symbolic links."""
import ctypes
import os
import socket
import stat

from asking import OTHER, as_user, attempt, check, get, looks, put, system


@check
def extended_attributes():
    put("f")
    os.mkdir("d")
    os.symlink("f", "l")
    os.mkfifo("p")
    CREATE, REPLACE = 1, 2
    return [attempt(os.setxattr, "f", "user.a", b"1", CREATE), attempt(os.setxattr, "f", "user.a", b"2", CREATE),
            attempt(os.setxattr, "f", "user.b", b"2", REPLACE), attempt(os.setxattr, "f", "user.a", b"3", REPLACE),
            attempt(os.getxattr, "f", "user.a"), attempt(os.setxattr, "f", "user.empty", b""),
            attempt(os.getxattr, "f", "user.empty"), attempt(os.getxattr, "f", "user.missing"),
            sorted(attempt(os.listxattr, "f")), attempt(os.removexattr, "f", "user.a"),
            attempt(os.removexattr, "f", "user.a"), attempt(os.setxattr, "d", "user.d", b"4"),
            attempt(os.listxattr, "d"), attempt(os.setxattr, "l", "user.l", b"5", follow_symlinks=False),
            attempt(os.setxattr, "l", "trusted.l", b"5", follow_symlinks=False),
            attempt(os.listxattr, "l", follow_symlinks=False), attempt(os.setxattr, "p", "user.p", b"6"),
            attempt(os.setxattr, "f", "trusted.t", b"7"), attempt(os.getxattr, "f", "trusted.t"),
            attempt(os.setxattr, "f", "security.x", b"8"), attempt(os.setxattr, "f", "unknown.x", b"9"),
            attempt(os.setxattr, "f", "user.", b"9"), attempt(os.setxattr, "f", "user." + "n" * 250, b"long"),
            attempt(os.setxattr, "f", "user." + "n" * 251, b"long"), attempt(os.setxattr, "f", "user.big", b"x" * 2000),
            len(attempt(os.getxattr, "f", "user.big")), attempt(os.setxattr, "f", "user.huge", b"x" * 65537),
            attempt(os.setxattr, "f", "user.bytes", bytes(range(256)))]


@check
def extended_attributes_in_small_buffers():
    put("f")
    os.setxattr("f", "user.abc", b"12345")
    buffer = ctypes.create_string_buffer(100)
    return [system("getxattr", b"f", b"user.abc", None, 0), system("getxattr", b"f", b"user.abc", buffer, 4),
            system("getxattr", b"f", b"user.abc", buffer, 5), system("listxattr", b"f", None, 0),
            system("listxattr", b"f", buffer, 3), system("listxattr", b"f", buffer, 100)]


@check
def special_files():
    os.mkfifo("p", 0o600)
    answers = [attempt(os.open, "p", os.O_WRONLY | os.O_NONBLOCK)]
    reading = os.open("p", os.O_RDONLY | os.O_NONBLOCK)
    writing = os.open("p", os.O_WRONLY)
    os.write(writing, b"through")
    answers += [os.read(reading, 20), looks("p")]
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("s")
    listener.listen()
    client = socket.socket(socket.AF_UNIX)
    client.connect("s")
    client.send(b"hello")
    answers += [listener.accept()[0].recv(9), oct(os.lstat("s").st_mode)]
    for name, kind in (("c", stat.S_IFCHR), ("b", stat.S_IFBLK)):
        answers.append(attempt(os.mknod, name, kind | 0o600, os.makedev(1, 3)))
        answers.append((oct(os.lstat(name).st_mode), os.lstat(name).st_rdev) if os.path.lexists(name) else None)
    return answers + [as_user(OTHER, OTHER, lambda: os.mknod("n", stat.S_IFCHR | 0o600, os.makedev(1, 3)))]


@check
def device_nodes_work_as_below():
    if isinstance(attempt(os.mknod, "null", stat.S_IFCHR | 0o666, os.makedev(1, 3)), str):
        return "not allowed"
    descriptor = attempt(os.open, "null", os.O_RDWR)
    return (os.write(descriptor, b"x"), os.read(descriptor, 1)) if isinstance(descriptor, int) else descriptor


@check
def symbolic_links():
    os.symlink("t" * 4095, "long")
    os.symlink(b"\xff", "bytes")
    put("f", b"1")
    os.symlink("f", "l")
    os.mkdir("d")
    os.symlink("../f", "d/up")
    os.symlink(os.path.abspath("f"), "absolute")
    return [len(os.readlink("long")), os.readlink(b"bytes"), get("l"), get("d/up"), get("absolute"),
            os.lstat("l").st_size, attempt(os.symlink, "t" * 4096, "longer"), attempt(os.symlink, "", "empty"),
            attempt(os.readlink, "f"), attempt(os.chown, "l", OTHER, OTHER, follow_symlinks=False),
            os.lstat("l").st_uid, os.stat("f").st_uid]
