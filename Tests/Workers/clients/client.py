#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A client of Truce that uses only the standard library of Python. It behaves like an editor of one file, without a screen.

    client.py MOUNT FILE FOLDER

The client has unsaved text for MOUNT/FILE, and saves it when another program wants to read the file. After another program has
changed the file, the client writes the number of lines to FILE.count. It ends when a new file appears in MOUNT/FOLDER.
"""
import collections
import json
import os
import socket
import struct
import sys


class Client:
    def __init__(self, mount):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(socket_of(mount))
        _, user, _ = struct.unpack("3i", self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if user not in (0, os.geteuid()):
            raise PermissionError(f"the mount is served by user {user}")
        self.lines = self.socket.makefile("rb")
        self.calls = 0
        self.notices = collections.deque()
        self.told = set()
        self.handlers = {}
        self.call("initialize", client={"name": "client.py", "version": "1"}, protocol={"min": 1, "max": 1})

    def send(self, **message):
        self.socket.sendall(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def receive(self):
        """Returns the next message. The daemon's requests are answered at once, also while this client waits for a reply."""
        line = self.lines.readline()
        if not line:
            raise EOFError("the daemon has hung up")
        message = json.loads(line)
        if "method" in message and "id" in message:
            try:
                self.handlers[message["method"]](message["params"])
                self.send(id=message["id"], result={})
            except Exception as error:
                self.send(id=message["id"], error={"code": 1, "message": str(error)})
        elif "method" in message:
            self.told.add(message["method"])
            self.notices.append(message)
        return message

    def call(self, method, **parameters):
        self.calls += 1
        self.send(id=self.calls, method=method, params=parameters)
        while True:
            message = self.receive()
            if "method" not in message and message["id"] == self.calls:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return message["result"]

    def notice(self):
        while not self.notices:
            self.receive()
        return self.notices.popleft()


def socket_of(mount):
    """Returns the socket's path. The attribute with the path counts only if the kernel says that the directory is a mount of
    Truce."""
    with open("/proc/self/mountinfo", "rb") as table:
        mounts = [line.split() for line in table]
    # The table writes a space as \040. If several mounts lie on top of each other, the last is visible.
    types = [words[words.index(b"-") + 1] for words in mounts
             if words[4].decode("unicode_escape").encode("latin-1") == os.fsencode(mount)]
    if types[-1:] != [b"fuse.truce"]:
        raise FileNotFoundError(f"'{mount}' is no mount of Truce")
    try:
        # Root and the owner of the mount have a socket of their own, so that they do not wait behind other users.
        return os.getxattr(mount, "user.truce.socket.owner")
    except OSError:
        return os.getxattr(mount, "user.truce.socket")


def main(mount, file, folder):
    client = Client(mount)
    unsaved = ["unsaved words of Python\n"]

    def save(request):
        if unsaved:
            if "presenter/didChange" in client.told:
                raise RuntimeError("others have written the file since")
            with open(os.path.join(mount, request["path"]), "w") as document:
                document.write(unsaved.pop())
            print("saved for", request["cause"]["program"], flush=True)

    def count():
        access = client.call("access/begin", presenter=presenter, intents=[
            {"path": file, "access": "read", "options": ["withoutChanges"]},
            {"path": file + ".count", "access": "forReplacing"}])
        # The reply contains the present names, because a file may have been renamed while the access waited.
        source, result = [os.path.join(mount, intent["path"]) for intent in access["intents"]]
        with open(source) as document, open(result, "w") as number:
            number.write(f"{len(document.readlines())}\n")
        client.call("access/end", access=access["access"])

    client.handlers["presenter/save"] = save
    presenter = client.call("presenter/register", path=file, messages=["save", "didChange"])["presenter"]
    client.call("events/subscribe", path=folder)
    print("presenting", file, flush=True)
    while True:
        notice = client.notice()
        what, cause = notice["params"], notice["params"].get("cause", {})
        if notice["method"] == "presenter/didChange":
            print("changed by", cause["program"], flush=True)
            count()
            print("counted the lines", flush=True)
        elif notice["method"] == "events/event" and what["kind"] == "appeared":
            print(what["path"], "appeared by", cause["program"], flush=True)
            return


main(*sys.argv[1:])
