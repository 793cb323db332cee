# SPDX-License-Identifier: Apache-2.0
"""Checks of locks, and of the file system as a whole."""
import ctypes
import fcntl
import os
import select
import struct
import threading

from asking import AT_FDCWD, attempt, check, get, in_child, libc, looks, put, system


@check
def locks():
    put("f", b"123")
    one, two = os.open("f", os.O_RDWR), os.open("f", os.O_RDWR)
    NOW = fcntl.LOCK_EX | fcntl.LOCK_NB
    answers = [attempt(fcntl.flock, one, NOW), attempt(fcntl.flock, two, NOW), attempt(fcntl.flock, one, fcntl.LOCK_UN),
               attempt(fcntl.flock, two, NOW)]
    answers.append(attempt(fcntl.lockf, one, NOW, 2, 0))

    def inside():
        mine = os.open("f", os.O_RDWR)
        return attempt(fcntl.lockf, mine, NOW, 2, 0), attempt(fcntl.lockf, mine, NOW, 1, 2), attempt(fcntl.flock, mine, NOW)
    answers.append(in_child(inside))
    # A rule of POSIX: if a process closes any descriptor of a file, it loses all its record locks on the file.
    os.close(os.open("f", os.O_RDONLY))
    answers.append(in_child(inside))
    open_file_lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0)
    answers += [attempt(fcntl.fcntl, one, 37, open_file_lock) == open_file_lock, attempt(fcntl.fcntl, two, 37, open_file_lock)]
    return answers


@check
def leases():
    put("f", b"1")
    descriptor = os.open("f", os.O_RDONLY)
    return attempt(fcntl.fcntl, descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK) in (0, "EAGAIN", "EINVAL")


@check
def a_lock_is_waited_for():
    put("f")
    holder = os.open("f", os.O_RDWR)
    fcntl.flock(holder, fcntl.LOCK_EX)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        mine = os.open("f", os.O_RDWR)
        os.write(writer, b"w")
        fcntl.flock(mine, fcntl.LOCK_EX)
        os.write(writer, b"got")
        os._exit(0)
    os.read(reader, 1)
    early = select.select([reader], [], [], 0.05)[0]
    fcntl.flock(holder, fcntl.LOCK_UN)
    return bool(early), os.read(reader, 9), os.waitpid(child, 0)[1]


@check
def file_system_figures():
    figures = os.statvfs(".")
    return figures.f_namemax, figures.f_bsize, figures.f_frsize, figures.f_blocks, figures.f_files


@check
def identity():
    put("f")
    os.mkdir("d")
    put("d/g")
    devices = {os.lstat(name).st_dev for name in (".", "f", "d", "d/g")}
    kept = os.stat("f").st_ino
    os.rename("f", "d/f")
    os.chmod("d/f", 0o600)
    return len(devices), os.stat("d/f").st_ino == kept



@check
def notifications():
    """inotify on the mount reports what other processes do there."""
    os.mkdir("d")
    watch = libc.inotify_init1(os.O_NONBLOCK)
    libc.inotify_add_watch(watch, b"d", 0xFFF)

    def work():
        put("d/f", b"1")
        os.rename("d/f", "d/g")
        os.unlink("d/g")
    in_child(work)
    data, names = os.read(watch, 65536), []
    while data:
        _, mask, _, length = struct.unpack_from("iIII", data)
        names.append((hex(mask), data[16:16 + length].rstrip(b"\0")))
        data = data[16 + length:]
    return names


@check
def threads_and_handles():
    """Many threads use many files at once. No file may get the contents of another file."""
    wrong = []

    def work(number):
        for turn in range(40):
            name, data = f"t{number}-{turn}", f"{number}:{turn};".encode() * 500
            put(name, data)
            if get(name) != data:
                wrong.append(name)
            os.rename(name, name + "r")
            if os.stat(name + "r").st_size != len(data):
                wrong.append(name + " size")
            os.unlink(name + "r")
    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong, os.listdir(".")


@check
def many_open_files():
    descriptors = []
    for number in range(900):
        descriptors.append(os.open(f"f{number}", os.O_RDWR | os.O_CREAT))
        os.write(descriptors[-1], str(number).encode())
    for number in range(0, 900, 2):
        os.unlink(f"f{number}")
    wrong = [number for number, descriptor in enumerate(descriptors)
             if os.pread(descriptor, 9, 0) != str(number).encode()
             or os.fstat(descriptor).st_nlink != number % 2]
    return wrong, len(os.listdir("."))


@check
def handles_by_name():
    put("f", b"1")
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128), 136)
    mount = ctypes.c_int()
    return system("name_to_handle_at", AT_FDCWD, b"f", handle, ctypes.byref(mount), 0) in (0, "EOPNOTSUPP")


@check
def paths_of_descriptors():
    put("f", b"1")
    descriptor = os.open("f", os.O_RDONLY)
    os.rename("f", "g")
    renamed = os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))
    os.unlink("g")
    # The path in /proc leads to the file even if the descriptor is an O_PATH descriptor.
    put("p", b"2")
    path = os.open("p", os.O_PATH)
    os.chmod(f"/proc/self/fd/{path}", 0o400)
    return (renamed, os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")), looks("p"),
            attempt(os.read, path, 1), os.fstat(path).st_size)
