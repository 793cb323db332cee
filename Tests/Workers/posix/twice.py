# SPDX-License-Identifier: Apache-2.0
"""Checks of a directory that is mounted in several places below: the same files have several paths, one of them read-only."""
import os

from asking import attempt, check, check_named, get, piece, put


def ways():
    return piece("once"), piece("again"), piece("unchanged")


@check
def contents_by_several_ways():
    once, again, unchanged = ways()
    put(f"{once}/contents", b"one")
    answers = [get(f"{way}/contents") for way in ways()]
    put(f"{again}/contents", b"another")
    answers += [get(f"{way}/contents") for way in ways()] + [os.stat(f"{way}/contents").st_size for way in ways()]
    return answers


@check
def identity_by_several_ways():
    put(f"{piece('once')}/same", b"1")
    return len({(os.stat(f"{way}/same").st_dev, os.stat(f"{way}/same").st_ino) for way in ways()})


@check
def names_by_several_ways():
    once, again, unchanged = ways()
    put(f"{once}/name", b"1")
    os.rename(f"{again}/name", f"{again}/renamed")
    return [sorted(name for name in os.listdir(way) if name.startswith(("name", "renamed"))) for way in ways()], \
        [attempt(get, f"{way}/name") for way in ways()]


@check
def moving_between_two_ways():
    once, again, unchanged = ways()
    put(f"{once}/moving", b"1")
    return attempt(os.rename, f"{once}/moving", f"{again}/moved"), attempt(os.link, f"{once}/moving", f"{again}/linked"), \
        attempt(os.rename, f"{once}/moving", f"{once}/moved")


UNCHANGED = {
    "open": lambda path: os.open(path, os.O_WRONLY), "open_and_truncate": lambda path: os.open(path, os.O_WRONLY | os.O_TRUNC),
    "truncate": lambda path: os.truncate(path, 1), "chmod": lambda path: os.chmod(path, 0o600), "unlink": lambda path: os.unlink(path),
    "rename": lambda path: os.rename(path, path + "2"), "link": lambda path: os.link(path, path + "2"),
    "setxattr": lambda path: os.setxattr(path, "user.x", b"1"), "utime": lambda path: os.utime(path, ns=(1, 1)),
    "create": lambda path: os.open(path + "3", os.O_WRONLY | os.O_CREAT), "mkdir": lambda path: os.mkdir(path + "4"),
}


def known(call, first):
    """Makes a call that is forbidden by one path, after the file was seen by another path or by no other path."""
    def ask():
        name = os.path.basename(os.getcwd())
        put(f"{piece('once')}/{name}", b"123") if first == "writable" else None
        if first == "fresh":
            name = "file"
        path = f"{piece('unchanged')}/{name}"
        answer = attempt(call, path)
        return "ok" if isinstance(answer, int) else answer
    return ask


for name, call in UNCHANGED.items():
    check_named(f"{name}_by_the_way_that_is_read_only", known(call, "fresh"))
    check_named(f"{name}_by_the_way_that_is_read_only_after_another", known(call, "writable"))
