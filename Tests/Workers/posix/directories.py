# SPDX-License-Identifier: Apache-2.0
"""Checks of reading directories: in parts, during changes, with many entries and with deep paths."""
import ctypes
import os

from asking import attempt, below, check, get, libc, put
from names import DirectoryEntry

libc.telldir.restype = ctypes.c_long


class Stream:
    """A directory stream of the C library: opendir(3), readdir(3) and so on."""

    def __init__(self, path):
        libc.opendir.restype = ctypes.c_void_p
        libc.readdir.restype = ctypes.POINTER(DirectoryEntry)
        self.stream = ctypes.c_void_p(libc.opendir(path))

    def next(self):
        entry = libc.readdir(self.stream)
        return entry.contents.name if entry else None

    def rest(self):
        return [name for name in iter(self.next, None) if name not in (b".", b"..")]

    def tell(self):
        return libc.telldir(self.stream)

    def seek(self, place):
        libc.seekdir(self.stream, ctypes.c_long(place))

    def rewind(self):
        libc.rewinddir(self.stream)


def fill(count, name="f{:05}"):
    os.mkdir("d")
    for number in range(count):
        os.close(os.open("d/" + name.format(number), os.O_CREAT | os.O_WRONLY, 0o600))


@check
def place_that_is_told_is_come_back_to():
    fill(300)
    stream = Stream(b"d")
    first = [stream.next() for _ in range(100)]
    place = stream.tell()
    rest = stream.rest()
    stream.seek(place)
    again = stream.rest()
    return len(first), rest == again, len(set(first) | set(rest))


@check
def every_place_is_come_back_to():
    fill(60)
    stream = Stream(b"d")
    places, names = [], []
    while True:
        places.append(stream.tell())
        name = stream.next()
        if name is None:
            break
        names.append(name)
    found = []
    for place, name in reversed(list(zip(places, names))):
        stream.seek(place)
        found.append(stream.next() == name)
    return len(names), all(found)


@check
def place_holds_while_names_go():
    fill(300)
    stream = Stream(b"d")
    seen = [stream.next() for _ in range(150)]
    place = stream.tell()
    for name in seen:
        if name not in (b".", b".."):
            os.unlink(b"d/" + name)
    stream.seek(place)
    rest = stream.rest()
    return len(rest) + len(seen), len(set(rest) & set(seen))


@check
def names_that_come_while_reading():
    """A name that exists all the time is returned exactly once. A name that appears meanwhile may be returned or not."""
    fill(500)
    stream = Stream(b"d")
    seen = [stream.next() for _ in range(50)]
    for number in range(500):
        os.close(os.open(f"d/new{number}", os.O_CREAT | os.O_WRONLY))
    seen += stream.rest()
    old = [name for name in seen if name.startswith(b"f")]
    return len(old), len(set(old)), len(seen) == len(set(seen))


@check
def names_that_are_moved_while_reading():
    fill(400)
    os.mkdir("away")
    stream = Stream(b"d")
    seen = [stream.next() for _ in range(30)]
    for number in range(0, 400, 2):
        os.rename(f"d/f{number:05}", f"away/f{number:05}")
    seen += stream.rest()
    odd = [name for name in seen if name.startswith(b"f") and int(name[1:]) % 2]
    return len(odd), len(set(odd)), len(os.listdir("away"))


@check
def rewinding_sees_what_is_new():
    fill(10)
    stream = Stream(b"d")
    before = len(stream.rest())
    put("d/new")
    os.unlink("d/f00003")
    stream.rewind()
    return before, sorted(stream.rest())


@check
def two_streams_of_one_directory():
    fill(200)
    one, two = Stream(b"d"), Stream(b"d")
    names = []
    for _ in range(202):
        names.append((one.next(), two.next()))
    return all(first == second for first, second in names), one.next(), two.next()


@check
def stream_of_a_removed_directory():
    fill(3)
    stream = Stream(b"d")
    for name in os.listdir("d"):
        os.unlink(f"d/{name}")
    os.rmdir("d")
    return stream.rest()


@check
def twenty_thousand_entries():
    """Makes the files past the mount. Through the mount, this would take longer than all other checks."""
    os.mkdir("d")
    for number in range(20000):
        os.mknod(below(f"d/{number:05}"))
    seen = os.listdir("d")
    inodes = {entry.inode() for entry in os.scandir("d")}
    return len(seen), len(set(seen)), len(inodes), os.stat("d/19999").st_size


@check
def a_million_entries():
    os.mkdir("d")
    for number in range(1000000):
        os.mknod(below(f"d/{number:06}"))
    stream = Stream(b"d")
    count = sum(1 for _ in iter(stream.next, None))
    return count, os.stat("d/999999").st_size, attempt(os.rmdir, "d")


@check
def long_names_in_a_directory():
    os.mkdir("d")
    names = [bytes([65 + number % 26]) * 250 + b"%05d" % number for number in range(300)]
    for name in names:
        os.mknod(b"d/" + name)
    return sorted(os.listdir(b"d")) == sorted(names), attempt(os.stat, b"d/" + names[0] + b"x")


@check
def every_byte_in_a_name():
    for byte in range(1, 256):
        if byte not in b"/.":
            os.mkdir(b"n" + bytes([byte]))
    return sorted(os.listdir(b".")) == sorted(b"n" + bytes([byte]) for byte in range(1, 256) if byte not in b"/.")


@check
def case_and_composition_tell_names_apart():
    names = [b"name", b"NAME", b"Name", b"e\xcc\x81", b"\xc3\xa9", b"name ", b"name."]
    for name in names:
        put(name, name)
    return [get(name) == name for name in names], len(os.listdir("."))


@check
def path_of_the_greatest_length():
    """A path may have 4095 bytes, but not 4096."""
    for _ in range(16):
        os.mkdir("p" * 250)
        os.chdir("p" * 250)
    put("leaf", b"deep")
    for _ in range(16):
        os.chdir("..")
    path = "/".join(["p" * 250] * 16)
    fits = path + "/" * (4095 - len(path) - 4) + "leaf"
    return len(fits), get(fits), attempt(get, path + "/" * (4096 - len(path) - 4) + "leaf")


@check
def far_deeper_than_a_path_can_be():
    top = os.open(".", os.O_DIRECTORY)
    for _ in range(600):
        os.mkdir("deep")
        os.chdir("deep")
    put("leaf", b"1")
    here = os.open(".", os.O_DIRECTORY)
    os.rename("leaf", "leaf2")
    found = get("leaf2"), os.stat("..").st_ino == os.stat("..", dir_fd=here).st_ino, len(os.getcwd()) > 3000
    os.unlink("leaf2")
    for _ in range(600):
        os.chdir("..")
        os.rmdir("deep")
    os.fchdir(top)
    return found, os.listdir(".")


@check
def working_directory_that_moves():
    os.makedirs("a/b")
    os.mkdir("c")
    os.chdir("a/b")
    put("f", b"1")
    os.rename("../../a", "../../c/a2")
    return os.path.relpath(os.getcwd(), os.path.join(os.getcwd(), "../../..")), get("f"), sorted(os.listdir("../../.."))


@check
def working_directory_that_is_removed():
    os.mkdir("d")
    os.chdir("d")
    os.rmdir("../d")
    return attempt(os.getcwd), attempt(os.mknod, "f"), attempt(os.listdir, "."), attempt(os.stat, "..") != "x"
