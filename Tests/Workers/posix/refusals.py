# SPDX-License-Identifier: Apache-2.0
"""Checks of the errors of calls relative to a directory and of calls on open files."""
import ctypes
import fcntl
import os

from asking import (AT_FDCWD, IMMUTABLE, OTHER, as_user, check, check_named, in_child, piece, put, set_flag,
                    system)

BUFFER = ctypes.create_string_buffer(8192)
NOBODYS = 999
TIMES = (ctypes.c_long * 4)(1, 2, 3, 4)

# Calls that take a descriptor of a directory and a path. Some also take flags.
RELATIVE = {
    "openat": lambda d, p, f=0: system("openat", d, p, f, variant="(O_RDONLY)"),
    "mkdirat": lambda d, p: system("mkdirat", d, p, 0o700),
    "unlinkat": lambda d, p, f=0: system("unlinkat", d, p, f),
    "rmdirat": lambda d, p, f=0: system("unlinkat", d, p, f | 0x200, variant="(AT_REMOVEDIR)"),
    "linkat_from": lambda d, p, f=0: system("linkat", d, p, AT_FDCWD, b"fresh", f),
    "linkat_to": lambda d, p, f=0: system("linkat", AT_FDCWD, b"file", d, p, f),
    "renameat_from": lambda d, p: system("renameat", d, p, AT_FDCWD, b"fresh"),
    "renameat_to": lambda d, p: system("renameat", AT_FDCWD, b"file", d, p),
    "renameat2_from": lambda d, p, f=1: system("renameat2", d, p, AT_FDCWD, b"fresh", f),
    "symlinkat": lambda d, p: system("symlinkat", b"to", d, p),
    "mkfifoat": lambda d, p: system("mkfifoat", d, p, 0o600),
    "fchmodat": lambda d, p, f=0: system("fchmodat", d, p, 0o640, f),
    "fchownat": lambda d, p, f=0: system("fchownat", d, p, OTHER, OTHER, f),
    "utimensat": lambda d, p, f=0: system("utimensat", d, p, TIMES, f),
    "faccessat": lambda d, p, f=0: system("faccessat", d, p, os.W_OK, f),
    "fstatat": lambda d, p, f=0: system("fstatat", d, p, BUFFER, f),
    "readlinkat": lambda d, p: system("readlinkat", d, p, BUFFER, 8192),
}
TAKE_FLAGS = ("unlinkat", "rmdirat", "linkat_from", "linkat_to", "renameat2_from", "fchmodat", "fchownat", "utimensat",
              "faccessat", "fstatat")


def scene():
    put("file", b"0123456789")
    os.mkdir("directory")
    os.mkdir("removed")
    place = os.open("removed", os.O_DIRECTORY)
    os.rmdir("removed")
    return os.open("file", os.O_RDONLY), os.open("directory", os.O_DIRECTORY), place


def refused(answer):
    """The number of an opened descriptor has no meaning, so the answer is "ok"."""
    return answer if isinstance(answer, str) else "ok"


def relative(call, choose, path, *flags):
    return lambda: refused(call(choose(scene()), path, *flags))


for name, call in RELATIVE.items():
    check_named(f"{name}_relative_to_nothing", relative(call, lambda opened: NOBODYS, b"x"))
    check_named(f"{name}_relative_to_a_file", relative(call, lambda opened: opened[0], b"x"))
    check_named(f"{name}_relative_to_a_directory", relative(call, lambda opened: opened[1], b"x"))
    check_named(f"{name}_relative_to_a_removed_directory", relative(call, lambda opened: opened[2], b"x"))
    check_named(f"{name}_of_a_directory", relative(call, lambda opened: AT_FDCWD, b"directory"))
    if name in TAKE_FLAGS:
        check_named(f"{name}_with_unknown_flags", relative(call, lambda opened: AT_FDCWD, b"file", 0x40000000))

# Calls that take only a descriptor.
HANDLED = {
    "fchmod": lambda d: system("fchmod", d, 0o640), "fchown": lambda d: system("fchown", d, OTHER, OTHER),
    "ftruncate": lambda d: system("ftruncate", d, ctypes.c_long(5)),
    "futimens": lambda d: system("futimens", d, TIMES),
    "fsetxattr": lambda d: system("fsetxattr", d, b"user.x", b"1", 1, 0, variant="(user)"),
    "fgetxattr": lambda d: system("fgetxattr", d, b"user.y", None, 0, variant="(user)"),
    "fremovexattr": lambda d: system("fremovexattr", d, b"user.y", variant="(user)"),
    "flistxattr": lambda d: system("flistxattr", d, None, 0),
    "fsync": lambda d: system("fsync", d), "fdatasync": lambda d: system("fdatasync", d),
    "syncfs": lambda d: system("syncfs", d),
    "fallocate": lambda d: system("fallocate", d, 0, ctypes.c_long(0), ctypes.c_long(100)),
    "lseek": lambda d: system("lseek", d, ctypes.c_long(3), os.SEEK_SET),
    "lseek_data": lambda d: system("lseek", d, ctypes.c_long(0), os.SEEK_DATA, variant="(SEEK_DATA)"),
    "fstatfs": lambda d: system("fstatfs", d, BUFFER), "fstat": lambda d: system("fstat", d, BUFFER),
    "fchdir": lambda d: system("fchdir", d), "read": lambda d: system("read", d, BUFFER, 5),
    "write": lambda d: system("write", d, b"12345", 5),
    "pread": lambda d: system("pread", d, BUFFER, 5, ctypes.c_long(1)),
    "pwrite": lambda d: system("pwrite", d, b"12345", 5, ctypes.c_long(1)),
    "flock": lambda d: system("flock", d, fcntl.LOCK_EX | fcntl.LOCK_NB, variant="(LOCK_EX)"),
    "readahead": lambda d: system("readahead", d, ctypes.c_long(0), 4096),
    "posix_fadvise": lambda d: min(system("posix_fadvise", d, ctypes.c_long(0), ctypes.c_long(0), 4), 99),
    "getdents": lambda d: refused(system("getdents64", d, BUFFER, 8192)),
}


def of_a_pipe(call):
    os.mkfifo("pipe")
    return call(os.open("pipe", os.O_RDWR | os.O_NONBLOCK))


def of_a_file(call):
    put("file", b"0123456789")
    return call(os.open("file", os.O_RDWR))


def on_a_read_only_file_system(call):
    return call(os.open(os.path.join(piece("readonly"), "file"), os.O_RDONLY))


def of_somebody_elses(call):
    put("file", b"0123456789")
    os.chmod(".", 0o755)
    return as_user(OTHER, OTHER, lambda: call(os.open("file", os.O_RDONLY)))


def immutable(call):
    put("file", b"0123456789")
    descriptor = os.open("file", os.O_RDONLY)
    set_flag("file", IMMUTABLE)
    try:
        return call(descriptor)
    finally:
        set_flag("file", 0)


def of_the_unlinked(call):
    put("file", b"0123456789")
    descriptor = os.open("file", os.O_RDWR)
    os.unlink("file")
    before = call(descriptor)
    return before, os.fstat(descriptor).st_size, oct(os.fstat(descriptor).st_mode), os.fstat(descriptor).st_nlink


HOLDERS = {
    "of_nothing": lambda call: call(NOBODYS),
    "of_a_path_alone": lambda call: (put("file"), call(os.open("file", os.O_PATH)))[1],
    "of_a_directory": lambda call: call(os.open(".", os.O_DIRECTORY)),
    "of_a_pipe": of_a_pipe, "of_a_file": of_a_file, "of_the_unlinked": of_the_unlinked,
    "of_what_is_immutable": immutable, "on_a_read_only_file_system": on_a_read_only_file_system,
    "of_somebody_elses": of_somebody_elses,
}


def held(call, holder):
    return lambda: holder(call)


for holder_name, holder in HOLDERS.items():
    for name, call in HANDLED.items():
        check_named(f"{name}_{holder_name}", held(call, holder))


@check
def linkat_of_an_open_directory():
    os.mkdir("d")
    return system("linkat", os.open("d", os.O_DIRECTORY), b"", AT_FDCWD, b"e", 0x1000)


@check
def linkat_of_an_open_file():
    put("f")
    return system("linkat", os.open("f", os.O_RDONLY), b"", AT_FDCWD, b"g", 0x1000), sorted(os.listdir("."))


@check
def rmdirat_of_what_is_no_empty_directory():
    put("f")
    os.makedirs("d/e")
    return [system("unlinkat", AT_FDCWD, path, 0x200, variant="(AT_REMOVEDIR)") for path in (b"f", b"d", b"d/e/.")]


@check
def chmod_of_a_link_itself():
    os.symlink("x", "l")
    return system("fchmodat", AT_FDCWD, b"l", 0o600, 0x100)


@check
def times_out_of_range():
    put("f")
    wrong = (ctypes.c_long * 4)(0, 10 ** 9, 0, 0)
    descriptor = os.open("f", os.O_RDONLY)
    return system("utimensat", AT_FDCWD, b"f", wrong, 0), system("futimens", descriptor, wrong), os.stat("f").st_mtime > 10 ** 9


@check
def times_of_what_a_descriptor_names():
    put("f")
    descriptor = os.open("f", os.O_RDONLY)
    return [system("utimensat", descriptor, None, TIMES, 0), system("utimensat", descriptor, b"", TIMES, 0x1000),
            system("utimensat", NOBODYS, None, TIMES, 0), os.stat("f").st_mtime_ns]


@check
def too_large_an_attribute():
    put("f")
    return [system("setxattr", b"f", b"user.x", bytes(size), size, 0, variant="(user)") for size in (3000, 60000, 65537)]


@check
def descriptors_run_out():
    import resource
    put("f")

    def many():
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
        answers = [refused(system("open", b"f", os.O_RDONLY)) for _ in range(60)]
        return answers[-1], refused(system("openat", AT_FDCWD, b"f", 0)), refused(system("creat", b"new", 0o600))
    return in_child(many), os.listdir(".")
