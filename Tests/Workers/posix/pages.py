# SPDX-License-Identifier: Apache-2.0
"""Checks of several kinds of access to the same bytes: mappings, direct reads and writes, holes and allocation."""
import ctypes
import mmap
import os
import signal

from asking import attempt, check, check_named, get, in_child, put, system

PAGE = 4096


def mapping_of(path, opened=os.O_RDWR, **keywords):
    return mmap.mmap(os.open(path, opened), 0, **keywords)


def page(byte):
    """Returns a memory page at an address that O_DIRECT can use."""
    buffer = mmap.mmap(-1, PAGE)
    buffer[:] = byte * PAGE
    return buffer


@check
def store_is_seen_by_another_process():
    put("f", b"x" * PAGE)
    mapping = mapping_of("f")
    mapping[0:3] = b"one"
    return in_child(lambda: (get("f")[0:4], mapping_of("f")[0:4]))


@check
def write_is_seen_by_a_mapping_of_another_process():
    put("f", b"x" * PAGE)
    mapping = mapping_of("f")
    mapping[0:1]
    in_child(lambda: os.pwrite(os.open("f", os.O_WRONLY), b"theirs", 1))
    return mapping[0:8]


@check
def store_through_one_name_is_seen_by_the_other():
    put("a", b"x" * PAGE)
    os.link("a", "b")
    one, two = mapping_of("a"), mapping_of("b")
    one[5:8] = b"new"
    return two[4:9], get("b")[4:9]


@check
def own_copy_stays_what_it_was():
    put("f", b"x" * PAGE)
    own = mapping_of("f", os.O_RDONLY, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    own[0:3] = b"own"
    os.pwrite(os.open("f", os.O_WRONLY), b"theirs", 0)
    return own[0:6], get("f")[0:6]


@check
def mapping_beyond_the_end():
    """The rest of the last page lies behind the end of the file. Bytes that are stored there are lost when the file grows."""
    put("f", b"12345" * 1000)
    descriptor = os.open("f", os.O_RDWR)
    mapping = mmap.mmap(descriptor, 5000)
    os.ftruncate(descriptor, 5)
    mapping[5:9] = b"tail"
    mapping.flush()
    shown = get("f"), os.stat("f").st_size
    os.ftruncate(descriptor, 20)
    return shown, get("f")


@check
def mapping_of_what_was_cut():
    put("f", b"x" * 3 * PAGE)
    mapping = mapping_of("f")
    os.truncate("f", PAGE)
    status = os.fork()
    if status == 0:
        signal.signal(signal.SIGBUS, signal.SIG_DFL)
        mapping[2 * PAGE]
        os._exit(0)
    return os.WTERMSIG(os.waitpid(status, 0)[1]) == signal.SIGBUS, mapping[0:2]


@check
def mapping_of_what_grew():
    put("f", b"x" * PAGE)
    descriptor = os.open("f", os.O_RDWR)
    os.ftruncate(descriptor, 2 * PAGE)
    mapping = mmap.mmap(descriptor, 2 * PAGE)
    mapping[PAGE:PAGE + 3] = b"new"
    os.ftruncate(descriptor, PAGE)
    os.ftruncate(descriptor, 2 * PAGE)
    return mapping[PAGE:PAGE + 3], get("f")[PAGE:PAGE + 3]


def mapped(flags, protection, kind):
    def ask():
        put("f", b"x" * PAGE)
        try:
            mmap.mmap(os.open("f", flags), PAGE, flags=kind, prot=protection)
            return "ok"
        except OSError as error:
            return error.strerror
    return ask


for flags, called in ((os.O_RDONLY, "reading"), (os.O_WRONLY, "writing"), (os.O_RDWR, "both"), (os.O_RDONLY | os.O_DIRECT, "direct_reading")):
    for kind, name in ((mmap.MAP_SHARED, "shared"), (mmap.MAP_PRIVATE, "private")):
        for protection, use in ((mmap.PROT_READ, "look"), (mmap.PROT_READ | mmap.PROT_WRITE, "store"), (mmap.PROT_READ | mmap.PROT_EXEC, "run")):
            check_named(f"{name}_mapping_to_{use}_of_what_is_open_for_{called}", mapped(flags, protection, kind))


@check
def direct_write_is_seen_by_readers():
    put("f", b"x" * 2 * PAGE)
    get("f")
    direct = os.open("f", os.O_RDWR | os.O_DIRECT)
    written = attempt(os.pwritev, direct, [page(b"d")], PAGE)
    return written, get("f")[PAGE - 1:PAGE + 2]


@check
def direct_write_is_seen_by_a_mapping():
    put("f", b"x" * PAGE)
    mapping = mapping_of("f")
    mapping[0:1]
    written = attempt(os.pwritev, os.open("f", os.O_RDWR | os.O_DIRECT), [page(b"d")], 0)
    return written, mapping[0:3]


@check
def direct_reading_sees_what_was_stored():
    put("f", b"x" * PAGE)
    mapping = mapping_of("f")
    mapping[0:6] = b"stored"
    buffer = page(b"-")
    return attempt(os.preadv, os.open("f", os.O_RDONLY | os.O_DIRECT), [buffer], 0), buffer[0:7]


@check
def direct_reading_sees_what_was_written():
    put("f", b"x" * PAGE)
    os.pwrite(os.open("f", os.O_WRONLY), b"written", 0)
    buffer = page(b"-")
    return attempt(os.preadv, os.open("f", os.O_RDONLY | os.O_DIRECT), [buffer], 0), buffer[0:8]


@check
def mapping_of_a_direct_file_is_synced():
    put("f", b"x" * PAGE)
    descriptor = os.open("f", os.O_RDWR | os.O_DIRECT)
    mapping = mmap.mmap(descriptor, PAGE)
    mapping[0:6] = b"synced"
    address = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(mapping)))
    return [system("msync", address, ctypes.c_size_t(PAGE), flag) for flag in (4, 1, 2)], get("f")[0:7]


@check
def direct_writing_across_the_end():
    put("f", b"x" * 100)
    direct = os.open("f", os.O_RDWR | os.O_DIRECT)
    return attempt(os.pwritev, direct, [page(b"d")], 0), os.stat("f").st_size, attempt(os.preadv, direct, [page(b"-")], 2 * PAGE)


def allocated(mode, at, count):
    def ask():
        put("f", b"x" * 16 * PAGE)
        descriptor = os.open("f", os.O_RDWR)
        answer = system("fallocate", descriptor, mode, ctypes.c_long(at), ctypes.c_long(count), variant=f"({mode})")
        data = get("f")
        return answer, os.fstat(descriptor).st_size, data.count(b"\0"), data[at:at + 1]
    return ask


# Plain, KEEP_SIZE, PUNCH_HOLE, PUNCH_HOLE with KEEP_SIZE, ZERO_RANGE, ZERO_RANGE with KEEP_SIZE, and three invalid modes.
for mode in (0, 1, 2, 3, 16, 17, 4, 64, 1 << 20):
    for at, count in ((PAGE, 2 * PAGE), (100, 1000), (15 * PAGE, 4 * PAGE), (20 * PAGE, PAGE), (0, 0), (-1, 10)):
        check_named(f"fallocate_{mode}_of_{count}_at_{at}".replace("-", "minus_"), allocated(mode, at, count))


@check
def holes_are_found():
    descriptor = os.open("f", os.O_RDWR | os.O_CREAT)
    for number in (0, 4, 8):
        os.pwrite(descriptor, b"data", number << 20)
    os.ftruncate(descriptor, 10 << 20)
    os.fsync(descriptor)
    found, at = [], 0
    while isinstance(at, int):
        at = attempt(os.lseek, descriptor, at, os.SEEK_DATA if len(found) % 2 == 0 else os.SEEK_HOLE)
        found.append(at)
    return found


@check
def holes_of_special_places():
    put("f", b"x" * 10)
    descriptor = os.open("f", os.O_RDONLY)
    return [attempt(os.lseek, descriptor, at, whence) for at in (0, 9, 10, 11, -1) for whence in (os.SEEK_DATA, os.SEEK_HOLE)]


@check
def position_after_looking_for_holes():
    put("f", b"0123456789")
    descriptor = os.open("f", os.O_RDONLY)
    os.lseek(descriptor, 3, os.SEEK_DATA)
    first = os.read(descriptor, 2)
    os.lseek(descriptor, 0, os.SEEK_HOLE)
    return first, os.read(descriptor, 2)


@check
def copying_within_a_file():
    put("f", b"0123456789" * 1000)
    descriptor = os.open("f", os.O_RDWR)
    return attempt(os.copy_file_range, descriptor, descriptor, 5000, 0, 5000), attempt(os.copy_file_range, descriptor, descriptor, 5000, 0, 100), \
        attempt(os.copy_file_range, descriptor, descriptor, 100, 20000, 0), len(get("f")), get("f")[5000:5010]


@check
def copying_moves_both_positions():
    put("a", b"0123456789")
    one, two = os.open("a", os.O_RDONLY), os.open("b", os.O_RDWR | os.O_CREAT)
    os.lseek(one, 2, 0)
    os.write(two, b"--")
    return os.copy_file_range(one, two, 5), os.lseek(one, 0, 1), os.lseek(two, 0, 1), get("b")


@check
def copying_to_what_appends():
    put("a", b"0123456789")
    one = os.open("a", os.O_RDONLY)
    return attempt(os.copy_file_range, one, os.open("b", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 5), \
        attempt(os.copy_file_range, one, os.open(".", os.O_DIRECTORY), 5)


@check
def splicing_through_a_pipe():
    put("a", b"0123456789" * 500)
    reader, writer = os.pipe()
    one, two = os.open("a", os.O_RDONLY), os.open("b", os.O_RDWR | os.O_CREAT)
    taken = os.splice(one, writer, 5000)
    return taken, os.splice(reader, two, taken), get("b") == get("a")
