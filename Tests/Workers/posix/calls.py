# SPDX-License-Identifier: Apache-2.0
"""Notes the calls that the checks make, each with its result. These pairs show how much a run has tested.

The functions of `os` and `fcntl` are wrapped, so that each call of a check is noted. The name of a call is that of the system
call, with the flags that make it a different call: `open(O_WRONLY|O_CREAT)`, `unlinkat`, `setxattr(user)`.
"""
import errno
import fcntl
import functools
import os

OK = "ok"
noted = set()
pipe = None


def collect():
    """Returns a descriptor from which the pairs of this process and its children can be read from now on."""
    global pipe
    reader, pipe = os.pipe()
    os.set_blocking(reader, False)
    return reader


def note(call, outcome):
    if (call, outcome) in noted:
        return
    noted.add((call, outcome))
    if pipe is not None:
        # The line is so short that it is written in one piece, even if other processes write at the same time.
        write(pipe, f"{call} {outcome}\n".encode())


def name_of(number):
    """Returns the name of an error. EAGAIN and EWOULDBLOCK have the same number, and so have EOPNOTSUPP and ENOTSUP."""
    name = errno.errorcode.get(number)
    return {"EWOULDBLOCK": "EAGAIN", "ENOTSUP": "EOPNOTSUPP", "EDEADLOCK": "EDEADLK"}.get(name, name)


write = os.write
SHOWN = ["O_CREAT", "O_EXCL", "O_TRUNC", "O_APPEND", "O_NONBLOCK", "O_DIRECT", "O_DIRECTORY", "O_NOFOLLOW",
         "O_NOATIME", "O_PATH", "O_SYNC"]


def opened(flags):
    parts = [("O_RDONLY", "O_WRONLY", "O_RDWR", "O_ACCMODE")[flags & 3]]
    if flags & os.O_TMPFILE == os.O_TMPFILE:
        parts.append("O_TMPFILE")
        flags &= ~os.O_TMPFILE
    return "|".join(parts + [name for name in SHOWN if flags & getattr(os, name) == getattr(os, name)])


def is_at(keywords):
    return any(keywords.get(key) is not None for key in ("dir_fd", "src_dir_fd", "dst_dir_fd"))


def plain(name):
    return lambda *arguments, **keywords: name + "at" if is_at(keywords) else name


def by_handle_or_link(name, handle, link, at):
    def describe(*arguments, **keywords):
        if isinstance(arguments[0], int):
            return handle
        if is_at(keywords):
            return at
        return link if keywords.get("follow_symlinks") is False else name
    return describe


def attribute(kind):
    def describe(path, *arguments, follow_symlinks=True):
        prefix = "f" if isinstance(path, int) else "" if follow_symlinks else "l"
        space = os.fsencode(arguments[0]).decode("latin-1").split(".")[0] if arguments else ""
        flags = {1: "|XATTR_CREATE", 2: "|XATTR_REPLACE"}.get(arguments[2], "") if len(arguments) > 2 else ""
        return f"{prefix}{kind}xattr" + (f"({space}{flags})" if space else "")
    return describe


WHENCE = {os.SEEK_SET: "SEEK_SET", os.SEEK_CUR: "SEEK_CUR", os.SEEK_END: "SEEK_END", os.SEEK_DATA: "SEEK_DATA",
          os.SEEK_HOLE: "SEEK_HOLE"}
COMMANDS = {getattr(fcntl, name): name for name in dir(fcntl) if name.startswith("F_") and name[2:4] != "SE"
            or name in ("F_SETFL", "F_SETLK", "F_SETLKW", "F_SETLEASE", "F_SETFD", "F_SETSIG", "F_SETPIPE_SZ")}
COMMANDS.update({36: "F_OFD_GETLK", 37: "F_OFD_SETLK", 38: "F_OFD_SETLKW"})
DESCRIBED = {
    "open": lambda path, flags, *mode, **keywords: f"{plain('open')(**keywords)}({opened(flags)})",
    "lseek": lambda descriptor, at, whence: f"lseek({WHENCE.get(whence, whence)})",
    "stat": by_handle_or_link("stat", "fstat", "lstat", "fstatat"),
    "chmod": by_handle_or_link("chmod", "fchmod", "lchmod", "fchmodat"),
    "chown": by_handle_or_link("chown", "fchown", "lchown", "fchownat"),
    "utime": by_handle_or_link("utimensat", "futimens", "utimensat(AT_SYMLINK_NOFOLLOW)", "utimensat(dirfd)"),
    "truncate": by_handle_or_link("truncate", "ftruncate", "", ""),
    "statvfs": by_handle_or_link("statfs", "fstatfs", "", ""),
    "chdir": by_handle_or_link("chdir", "fchdir", "", ""),
    "link": lambda *arguments, follow_symlinks=True, **keywords: plain("link")(**keywords),
    "access": lambda *arguments, **keywords: plain("faccess" if is_at(keywords) else "access")(**keywords),
    "mknod": lambda path, mode=0o600, *device, **keywords: f"{plain('mknod')(**keywords)}({mode >> 12:o})",
    "listdir": lambda *path: "getdents", "scandir": lambda *path: "getdents",
    "setxattr": attribute("set"), "getxattr": attribute("get"), "removexattr": attribute("remove"),
    "listxattr": attribute("list"),
    "posix_fallocate": lambda *arguments: "fallocate(0)",
}
DESCRIBED.update({name: plain(name) for name in (
    "lstat", "fstat", "mkdir", "rmdir", "unlink", "rename", "symlink", "readlink", "mkfifo", "read", "write", "pread",
    "pwrite", "readv", "writev", "preadv", "pwritev", "fchmod", "fchown", "fchdir", "lchown", "ftruncate", "fsync", "fdatasync",
    "copy_file_range", "sendfile", "close", "splice", "posix_fadvise")})
OF_FCNTL = {
    "fcntl": lambda descriptor, command, *argument: f"fcntl({COMMANDS.get(command, command)})",
    "ioctl": lambda descriptor, request, *argument: f"ioctl({request:#x})",
    "flock": lambda descriptor, operation: "flock(" + {1: "LOCK_SH", 2: "LOCK_EX", 8: "LOCK_UN"}[operation & 11] + ")",
    "lockf": lambda descriptor, operation, *range: "lockf(" + {1: "F_RDLCK", 2: "F_WRLCK", 8: "F_UNLCK"}[operation & 11] + ")",
}


def wrapped(function, describe):
    @functools.wraps(function)
    def call(*arguments, **keywords):
        try:
            result = function(*arguments, **keywords)
        except OSError as error:
            note(describe(*arguments, **keywords), name_of(error.errno))
            raise
        note(describe(*arguments, **keywords), OK)
        return result
    return call


def listen():
    for module, described in ((os, DESCRIBED), (fcntl, OF_FCNTL)):
        for name, describe in described.items():
            setattr(module, name, wrapped(getattr(module, name), describe))
