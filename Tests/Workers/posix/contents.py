# SPDX-License-Identifier: Apache-2.0
"""Checks of reading, writing and mapping."""
import ctypes
import fcntl
import mmap
import os
import resource
import signal

from asking import attempt, check, get, in_child, put, system


@check
def append():
    put("f", b"123")
    one, two = os.open("f", os.O_WRONLY | os.O_APPEND), os.open("f", os.O_WRONLY | os.O_APPEND)
    os.write(one, b"a")
    os.write(two, b"b")
    os.lseek(one, 0, 0)
    os.write(one, b"c")
    os.truncate("f", 2)
    os.write(two, b"d")
    return get("f"), os.pwrite(one, b"Z", 0), get("f")


@check
def append_from_many_processes():
    put("f")
    children = []
    for number in range(4):
        children.append(os.fork())
        if children[-1] == 0:
            descriptor = os.open("f", os.O_WRONLY | os.O_APPEND)
            for _ in range(100):
                os.write(descriptor, bytes([65 + number]) * 100)
            os._exit(0)
    for child in children:
        os.waitpid(child, 0)
    data = get("f")
    blocks = {data[start:start + 100] for start in range(0, len(data), 100)}
    return len(data), sorted(block[:1] for block in blocks), {len(set(block)) for block in blocks}


@check
def append_set_later():
    put("f", b"12345")
    descriptor = os.open("f", os.O_WRONLY)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_APPEND)
    os.write(descriptor, b"end")
    fcntl.fcntl(descriptor, fcntl.F_SETFL, 0)
    os.pwrite(descriptor, b"X", 0)
    return get("f")


@check
def append_taken_back():
    put("f", b"12345")
    descriptor = os.open("f", os.O_RDWR | os.O_APPEND)
    os.pwrite(descriptor, b"end", 0)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, 0)
    os.pwrite(descriptor, b"X", 0)
    return get("f")


@check
def mapping_of_what_appends():
    """A page that was changed in memory is written to its own place in the file, even if the descriptor has O_APPEND."""
    put("f", b"12345")
    descriptor = os.open("f", os.O_RDWR | os.O_APPEND)
    mapping = mmap.mmap(descriptor, 5)
    mapping[0:1] = b"X"
    mapping.flush()
    os.write(descriptor, b"end")
    return os.pread(descriptor, 99, 0), get("f")


@check
def access_modes():
    put("f", b"123")
    reading, writing = os.open("f", os.O_RDONLY), os.open("f", os.O_WRONLY)
    return [attempt(os.write, reading, b"x"), attempt(os.read, writing, 1), attempt(os.ftruncate, reading, 0),
            attempt(os.open, "f", 3) != "x", get("f")]


@check
def truncate_and_extend():
    put("f", b"x" * 10000)
    descriptor = os.open("f", os.O_RDWR)
    os.truncate("f", 5)
    answers = [os.fstat(descriptor).st_size, os.read(descriptor, 20)]
    os.truncate("f", 6000)
    answers += [get("f") == b"x" * 5 + bytes(5995), os.lseek(descriptor, 0, os.SEEK_END)]
    os.ftruncate(descriptor, 0)
    answers += [get("f"), attempt(os.truncate, "f", -1), attempt(os.truncate, ".", 0), attempt(os.truncate, "no", 0)]
    put("f", b"short")
    put("f", b"")
    return answers + [get("f"), attempt(os.truncate, "f", 1 << 62)]


@check
def allocation_and_holes():
    put("f", b"x" * 65536)
    descriptor = os.open("f", os.O_RDWR)
    allocate = lambda mode, at, count: system("fallocate", descriptor, mode, ctypes.c_long(at), ctypes.c_long(count))
    answers = [allocate(1, 65536, 4096), os.fstat(descriptor).st_size, allocate(0, 65536, 65536),
               os.fstat(descriptor).st_size, allocate(3, 8192, 8192), os.pread(descriptor, 8192, 8192) == bytes(8192),
               allocate(16, 16384, 4096), os.pread(descriptor, 4096, 16384) == bytes(4096),
               allocate(4, 0, 4096), allocate(0, 0, 0)]
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, b"data", 1 << 20)
    os.fsync(descriptor)
    seek = lambda at, what: attempt(os.lseek, descriptor, at, what)
    return answers + [seek(0, os.SEEK_DATA), seek(0, os.SEEK_HOLE), seek(1 << 20, os.SEEK_HOLE),
                      seek(2 << 20, os.SEEK_DATA), seek(0, os.SEEK_END), seek(5, os.SEEK_CUR), seek(-1, os.SEEK_SET)]


@check
def ranges_cut_out_and_inserted():
    put("f", b"x" * 65536)
    descriptor = os.open("f", os.O_RDWR)
    allocate = lambda mode, at, count: system("fallocate", descriptor, mode, ctypes.c_long(at), ctypes.c_long(count))
    return allocate(8, 0, 4096), os.fstat(descriptor).st_size, allocate(32, 0, 4096), os.fstat(descriptor).st_size


@check
def blocks_of_sparse_files():
    descriptor = os.open("f", os.O_RDWR | os.O_CREAT)
    os.ftruncate(descriptor, 1 << 30)
    sparse = os.fstat(descriptor).st_blocks, os.fstat(descriptor).st_size
    os.pwrite(descriptor, b"x" * 4096, 1 << 29)
    os.fsync(descriptor)
    return sparse, os.stat("f").st_blocks, os.stat("f").st_blksize


@check
def copying_in_the_kernel():
    put("a", bytes(range(256)) * 400)
    one, two = os.open("a", os.O_RDONLY), os.open("b", os.O_RDWR | os.O_CREAT)
    copied = attempt(os.copy_file_range, one, two, 102400, 0, 0)
    answers = [copied, get("a") == get("b"), attempt(os.copy_file_range, one, two, 100, 10, 200000),
               os.stat("b").st_size, attempt(os.copy_file_range, two, one, 10, 0, 0)]
    three = os.open("c", os.O_RDWR | os.O_CREAT)
    answers += [attempt(os.sendfile, three, one, 0, 102400), get("c") == get("a")]
    return answers


@check
def clone_request():
    put("a", b"x" * 8192)
    one, two = os.open("a", os.O_RDONLY), os.open("b", os.O_RDWR | os.O_CREAT)
    return attempt(fcntl.ioctl, two, 0x40049409, one) in ("EOPNOTSUPP", "ENOTTY", 0), os.stat("b").st_size in (0, 8192)


@check
def shared_mappings():
    put("f", b"x" * 8192)
    writing = os.open("f", os.O_RDWR)
    one = mmap.mmap(writing, 8192)
    other = mmap.mmap(os.open("f", os.O_RDONLY), 8192, prot=mmap.PROT_READ)
    one[0:5] = b"first"
    answers = [other[0:5], os.pread(writing, 5, 0)]
    os.pwrite(writing, b"second", 4096)
    answers += [one[4096:4102], other[4096:4102]]
    os.close(writing)
    one[10:14] = b"late"
    one.flush()
    one.close()
    return answers + [get("f")[10:14], other[10:14]]


@check
def private_mappings():
    put("f", b"x" * 4096)
    private = mmap.mmap(os.open("f", os.O_RDONLY), 4096, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    private[0:3] = b"own"
    return private[0:4], get("f")[0:4]


@check
def mapping_keeps_unlinked_file():
    put("f", b"x" * 4096)
    descriptor = os.open("f", os.O_RDWR)
    mapping = mmap.mmap(descriptor, 4096)
    os.close(descriptor)
    os.unlink("f")
    mapping[0:1] = b"y"
    return mapping[0:2], os.listdir(".")


@check
def mapping_time_changes():
    put("f", b"x" * 4096)
    os.utime("f", ns=(10 ** 18, 10 ** 18))
    descriptor = os.open("f", os.O_RDWR)
    mapping = mmap.mmap(descriptor, 4096)
    mapping[0:1] = b"y"
    mapping.flush()
    mapping.close()
    os.close(descriptor)
    return os.stat("f").st_mtime_ns > 10 ** 18


@check
def direct_reading_and_writing():
    descriptor = attempt(os.open, "f", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    if not isinstance(descriptor, int):
        return descriptor
    page = mmap.mmap(-1, 4096)
    page[:] = b"d" * 4096
    written = attempt(os.pwritev, descriptor, [page], 0)
    page[:] = bytes(4096)
    return written, attempt(os.preadv, descriptor, [page], 0), page[0:4], get("f")[0:4]


@check
def large_offsets():
    descriptor = os.open("f", os.O_RDWR | os.O_CREAT)
    return os.pwrite(descriptor, b"far", 5 << 30), os.fstat(descriptor).st_size, os.pread(descriptor, 9, 5 << 30), \
        os.pread(descriptor, 3, (5 << 30) - 3), attempt(os.pwrite, descriptor, b"x", (1 << 63) - 2)


@check
def big_writes_and_reads():
    data = os.urandom(3_000_001)
    put("f", data)
    parts = [os.preadv(os.open("f", os.O_RDONLY), [bytearray(1000), bytearray(2_000_000)], 17)]
    return get("f") == data, parts


@check
def synchronous_writing():
    descriptor = os.open("f", os.O_WRONLY | os.O_CREAT | os.O_SYNC)
    place = os.open(".", os.O_DIRECTORY)
    return [os.write(descriptor, b"x"), attempt(os.fsync, descriptor), attempt(os.fdatasync, descriptor),
            attempt(os.fsync, place), system("syncfs", place), system("sync_file_range", descriptor, 0, 0, 0, 2)]


@check
def size_limit():
    def beyond():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
        descriptor = os.open("f", os.O_WRONLY | os.O_CREAT)
        return os.write(descriptor, b"x" * 10000), attempt(os.write, descriptor, b"y"), attempt(os.ftruncate, descriptor, 9000)
    return in_child(beyond), os.stat("f").st_size


@check
def read_of_directory():
    os.mkdir("d")
    return attempt(os.read, os.open("d", os.O_RDONLY), 10), attempt(get, "d")
