# SPDX-License-Identifier: Apache-2.0
"""The agent of Scripts/corpus: reads and writes files as the orders in its input say, and answers each order by a line."""
import json
import mmap
import os
import subprocess
import sys


def read(path, by):
    if by == "cat":
        return subprocess.run(["bash", "-c", 'cat "$1"', "bash", path], check=True, capture_output=True, text=True).stdout
    if by == "mmap":
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as memory:
            return memory[:].decode()
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text, by):
    data = text.encode()
    if by == "child":
        subprocess.run(["bash", "-c", 'cat >"$1"', "bash", path], check=True, input=data)
    elif by == "tee":
        subprocess.run(["tee", path], check=True, input=data, stdout=subprocess.DEVNULL)
    elif by == "rename":
        with open(path + ".agent", "wb") as file:
            file.write(data)
        os.rename(path + ".agent", path)
    elif by == "size":
        os.truncate(path, 0)
        with open(path, "ab") as file:
            file.write(data)
    else:
        file = os.open(path, os.O_WRONLY | (os.O_TRUNC if by == "truncate" else 0))
        os.write(file, data)
        os.ftruncate(file, len(data))
        os.close(file)


def main(answers):
    output = os.open(answers, os.O_WRONLY)
    for line in sys.stdin:
        order, answer = json.loads(line), {}
        try:
            if order["do"] == "end":
                return
            if order["do"] == "read":
                answer["text"] = read(order["path"], order["by"])
            elif order["do"] == "write":
                write(order["path"], order["text"], order["by"])
        except (OSError, subprocess.CalledProcessError) as error:
            answer["error"] = str(error)
        os.write(output, json.dumps(answer).encode() + b"\n")
