# SPDX-License-Identifier: Apache-2.0
"""Checks of locks between processes: locks of records, of open files, and of whole files."""
import fcntl
import os
import struct

from asking import attempt, check, in_child, put, system

NOW = fcntl.LOCK_NB
OFD_GETLK, OFD_SETLK = 36, 37


def record(kind, start=0, length=0):
    return struct.pack("hhqqi4x", kind, 0, start, length, 0)


def ask_record(descriptor, command, kind, start=0, length=0):
    """Returns the kind and range of the lock that conflicts, or the name of the error."""
    answer = attempt(fcntl.fcntl, descriptor, command, record(kind, start, length))
    if isinstance(answer, str):
        return answer
    kind, _, start, length, _ = struct.unpack("hhqqi4x", answer)
    return kind, start, length


def other(call):
    """Returns the answer of another process, which has opened the file itself."""
    return in_child(lambda: call(os.open("f", os.O_RDWR)))


@check
def record_that_another_process_has():
    put("f", b"0123456789")
    mine = os.open("f", os.O_RDWR)
    fcntl.lockf(mine, fcntl.LOCK_EX, 4, 3)
    return [other(lambda d: ask_record(d, fcntl.F_GETLK, fcntl.F_WRLCK)), other(lambda d: ask_record(d, fcntl.F_GETLK, fcntl.F_RDLCK, 7)),
            other(lambda d: attempt(fcntl.lockf, d, fcntl.LOCK_EX | NOW, 3, 0)), other(lambda d: attempt(fcntl.lockf, d, fcntl.LOCK_EX | NOW, 1, 6))]


@check
def records_shared_for_reading():
    put("f", b"0123456789")
    mine = os.open("f", os.O_RDWR)
    fcntl.lockf(mine, fcntl.LOCK_SH)
    return [other(lambda d: attempt(fcntl.lockf, d, fcntl.LOCK_SH | NOW)), other(lambda d: attempt(fcntl.lockf, d, fcntl.LOCK_EX | NOW)),
            attempt(fcntl.lockf, mine, fcntl.LOCK_EX | NOW), other(lambda d: attempt(fcntl.lockf, d, fcntl.LOCK_SH | NOW))]


@check
def record_in_the_middle_is_let_go():
    put("f", b"0123456789")
    mine = os.open("f", os.O_RDWR)
    fcntl.lockf(mine, fcntl.LOCK_EX, 10, 0)
    fcntl.lockf(mine, fcntl.LOCK_UN, 2, 4)
    return [other(lambda d: attempt(fcntl.lockf, d, fcntl.LOCK_EX | NOW, length, start)) for start, length in ((0, 4), (4, 2), (6, 1), (10, 5))]


@check
def record_needs_the_right_mode():
    put("f")
    reading, writing = os.open("f", os.O_RDONLY), os.open("f", os.O_WRONLY)
    return attempt(fcntl.lockf, reading, fcntl.LOCK_EX | NOW), attempt(fcntl.lockf, writing, fcntl.LOCK_SH | NOW), \
        attempt(fcntl.lockf, reading, fcntl.LOCK_SH | NOW), attempt(fcntl.flock, reading, fcntl.LOCK_EX | NOW)


@check
def record_ends_with_the_process():
    put("f")
    return other(lambda d: attempt(fcntl.lockf, d, fcntl.LOCK_EX | NOW)), other(lambda d: attempt(fcntl.lockf, d, fcntl.LOCK_EX | NOW))


@check
def record_is_not_inherited():
    put("f")
    mine = os.open("f", os.O_RDWR)
    fcntl.lockf(mine, fcntl.LOCK_EX)
    return in_child(lambda: attempt(fcntl.lockf, mine, fcntl.LOCK_EX | NOW))


@check
def records_that_wait_for_each_other():
    put("f", b"01")
    mine = os.open("f", os.O_RDWR)
    fcntl.lockf(mine, fcntl.LOCK_EX, 1, 0)
    ready, answer = os.pipe(), os.pipe()
    if os.fork() == 0:
        theirs = os.open("f", os.O_RDWR)
        fcntl.lockf(theirs, fcntl.LOCK_EX, 1, 1)
        os.write(ready[1], b"x")
        os.write(answer[1], str(attempt(fcntl.lockf, theirs, fcntl.LOCK_EX, 1, 0)).encode())
        os._exit(0)
    os.read(ready[0], 1)
    # This process and its child wait for each other's lock. One of them gets EDEADLK, and the other then gets its lock.
    own = str(attempt(fcntl.lockf, mine, fcntl.LOCK_EX, 1, 1))
    fcntl.lockf(mine, fcntl.LOCK_UN)
    return sorted([own, os.read(answer[0], 99).decode()])


@check
def lock_of_an_open_file():
    put("f")
    one, two = os.open("f", os.O_RDWR), os.open("f", os.O_RDWR)
    return [ask_record(one, OFD_SETLK, fcntl.F_WRLCK, 0, 5), ask_record(two, OFD_SETLK, fcntl.F_WRLCK, 0, 5),
            ask_record(two, OFD_SETLK, fcntl.F_WRLCK, 5, 5), ask_record(two, OFD_GETLK, fcntl.F_WRLCK, 0, 5),
            ask_record(one, OFD_SETLK, fcntl.F_UNLCK, 0, 5), ask_record(two, OFD_SETLK, fcntl.F_WRLCK, 0, 5)]


@check
def lock_of_an_open_file_is_inherited():
    put("f")
    mine = os.open("f", os.O_RDWR)
    ask_record(mine, OFD_SETLK, fcntl.F_WRLCK)
    return in_child(lambda: ask_record(mine, OFD_SETLK, fcntl.F_WRLCK)), other(lambda d: ask_record(d, OFD_SETLK, fcntl.F_WRLCK))


@check
def lock_of_an_open_file_outlives_others():
    """To close another descriptor of the file does not release this lock, but would release a record lock."""
    put("f")
    mine = os.open("f", os.O_RDWR)
    ask_record(mine, OFD_SETLK, fcntl.F_WRLCK)
    os.close(os.open("f", os.O_RDONLY))
    return other(lambda d: ask_record(d, OFD_SETLK, fcntl.F_WRLCK))


@check
def whole_file_locks_between_processes():
    put("f")
    mine = os.open("f", os.O_RDWR)
    answers = []
    for have in (fcntl.LOCK_SH, fcntl.LOCK_EX, fcntl.LOCK_UN):
        fcntl.flock(mine, have)
        answers += [other(lambda d: attempt(fcntl.flock, d, want | NOW)) for want in (fcntl.LOCK_SH, fcntl.LOCK_EX)]
    return answers


@check
def whole_file_lock_belongs_to_the_opening():
    put("f")
    mine = os.open("f", os.O_RDWR)
    fcntl.flock(mine, fcntl.LOCK_EX)
    twin = os.dup(mine)
    inside = in_child(lambda: (fcntl.flock(mine, fcntl.LOCK_UN), attempt(fcntl.flock, os.open("f", os.O_RDWR), fcntl.LOCK_EX | NOW))[1])
    return attempt(fcntl.flock, twin, fcntl.LOCK_EX | NOW), inside


@check
def whole_file_locks_and_records_do_not_meet():
    put("f")
    mine = os.open("f", os.O_RDWR)
    fcntl.flock(mine, fcntl.LOCK_EX)
    return other(lambda d: attempt(fcntl.lockf, d, fcntl.LOCK_EX | NOW)), other(lambda d: ask_record(d, fcntl.F_GETLK, fcntl.F_WRLCK))


@check
def lock_of_a_directory():
    os.mkdir("d")
    one, two = os.open("d", os.O_DIRECTORY), os.open("d", os.O_DIRECTORY)
    return attempt(fcntl.flock, one, fcntl.LOCK_EX | NOW), attempt(fcntl.flock, two, fcntl.LOCK_EX | NOW), \
        attempt(fcntl.lockf, one, fcntl.LOCK_EX | NOW), attempt(fcntl.lockf, one, fcntl.LOCK_SH | NOW)


@check
def lock_of_an_unlinked_file():
    put("f")
    one, two = os.open("f", os.O_RDWR), os.open("f", os.O_RDWR)
    os.unlink("f")
    return attempt(fcntl.flock, one, fcntl.LOCK_EX | NOW), attempt(fcntl.flock, two, fcntl.LOCK_EX | NOW), \
        in_child(lambda: attempt(fcntl.lockf, two, fcntl.LOCK_EX | NOW))


@check
def lock_is_the_files_and_not_the_names():
    put("a")
    os.link("a", "b")
    one, two = os.open("a", os.O_RDWR), os.open("b", os.O_RDWR)
    fcntl.flock(one, fcntl.LOCK_EX)
    os.rename("a", "c")
    return attempt(fcntl.flock, two, fcntl.LOCK_EX | NOW), attempt(fcntl.flock, os.open("c", os.O_RDWR), fcntl.LOCK_EX | NOW)


@check
def lock_forms_of_the_library():
    put("f", b"0123456789")
    mine = os.open("f", os.O_RDWR)
    os.lseek(mine, 3, os.SEEK_SET)
    return system("lockf", mine, 2, 4), other(lambda d: (os.lseek(d, 2, 0), system("lockf", d, 3, 1), system("lockf", d, 3, 2))[1:])
