# SPDX-License-Identifier: Apache-2.0
"""The terminals, editors and agents that Scripts/corpus lets work, and the shell commands by which it starts them."""
import json
import os
import pty
import re
import select
import shlex
import signal
import time

# The time limit in seconds for one step of a program.
BOUND = 60


class Failed(Exception):
    """A program did not do what the corpus expects."""


class Terminal:
    """A shell in a POSIX session of its own, with a terminal of its own, as a user has it."""

    def __init__(self, name, directory, environment):
        self.name, self.directory, self.count, self.output = name, directory, 0, b""
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            os.chdir(directory)
            os.execvpe("bash", ["bash", "--noprofile", "--norc", "--noediting"], environment)
        self.run("stty -echo; PS1= PS2= PROMPT_COMMAND=; set +m; unset HISTFILE")

    def run(self, command, may_fail=False):
        """Runs a command to its end, and returns its output."""
        self.count += 1
        mark = f"<{self.name}-{self.count}:"
        # The mark is written in two parts, so that an echo of the command is not taken for the mark.
        text = f"{command}\nprintf '%s%s:%d>\\n' '<{self.name}-' {self.count} $?\n"
        os.write(self.file, text.encode())
        found = self.read_until(mark, command)
        status = int(found.group(1))
        if status != 0 and not may_fail:
            raise Failed(f"{self.name}: {command}: exit status {status}\n{self.output[:found.start()].decode()}")
        text = self.output[:found.start()].decode(errors="replace").replace("\r\n", "\n")
        self.output = self.output[found.end():]
        return text

    def read_until(self, mark, command):
        pattern, end = re.compile(re.escape(mark.encode()) + rb"(\d+)>\r?\n"), time.monotonic() + BOUND
        while True:
            found = pattern.search(self.output)
            if found:
                return found
            if not select.select([self.file], [], [], max(0, end - time.monotonic()))[0]:
                raise Failed(f"{self.name}: waited {BOUND} s for the end of {command}\n{self.output[-500:]!r}")
            self.output += os.read(self.file, 65536)

    def end(self):
        """Hangs up, as a closed window does. So the shell and all its jobs end, even if one of them waits."""
        os.kill(self.pid, signal.SIGHUP)
        os.close(self.file)
        os.waitpid(self.pid, 0)


class Partner:
    """A program that runs in the background of a terminal, and that the corpus tells by a named pipe what to do."""

    # The line that ends the program.
    end_line = ""

    def __init__(self, terminal, place, command):
        self.input, self.answers, self.buffer = place + ".in", place + ".out", b""
        os.mkfifo(self.input)
        os.mkfifo(self.answers)
        # Both ends are open here, so that no open of a pipe waits.
        self.reader = os.open(self.answers, os.O_RDWR)
        self.writer = os.open(self.input, os.O_RDWR)
        self.place, self.terminal = place, terminal
        if terminal:
            terminal.run(f"{command} <{self.input} >{place}.log 2>&1 &")

    def tell(self, line):
        os.write(self.writer, line.encode() + b"\n")

    def answer(self):
        end = time.monotonic() + BOUND
        while b"\n" not in self.buffer:
            if not select.select([self.reader], [], [], max(0, end - time.monotonic()))[0]:
                raise Failed(f"{self.place}: waited {BOUND} s for an answer")
            self.buffer += os.read(self.reader, 65536)
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line.decode()

    def ask(self, line):
        self.tell(line)
        return self.answer()


class Agent(Partner):
    """A coding agent: a program that lives long, and reads and writes files itself or by children."""

    end_line = '{"do": "end"}'

    def __init__(self, terminal, place, program):
        super().__init__(terminal, place, f"python3 {shlex.quote(program)} --agent {place}.out")

    def do(self, **order):
        answer = json.loads(self.ask(json.dumps(order)))
        if "error" in answer:
            raise Failed(f"{self.place}: {order}: {answer['error']}")
        return answer.get("text")

    def read(self, path, by="self"):
        return self.do(do="read", path=path, by=by)

    def write(self, path, text, by="truncate"):
        self.do(do="write", path=path, text=text, by=by)


class Vim(Partner):
    """Vim or Neovim with a document in its buffer. Its commands come from a pipe."""

    end_line = "qa!"

    def __init__(self, terminal, place, path, program="vim", options=""):
        clean = "--clean -n" if program == "nvim" else "-u NONE -N -n"
        super().__init__(terminal, place, f"{program} {clean} -es {path}")
        self.ask_ex(f"set noautoread {options}".rstrip())
        # Without this, Vim asks what to do when it notices a change, and takes the next command for an answer.
        self.ask_ex("autocmd FileChangedShell * let v:fcs_choice = ''")

    def ask_ex(self, command):
        """Runs a command of Ex, and waits until it is done."""
        self.tell(command)
        self.tell(f"call writefile(['done'], '{self.answers}')")
        return self.answer()

    def change(self, line, text):
        self.ask_ex(f"call setline({line}, '{text}')")

    def save(self):
        """Saves. If the file has changed, Vim asks whether to write it, and takes no answer that came before its question. If
        Vim does not ask, `y` is a command that does no harm.
        """
        self.tell(f"w! | call writefile(['done'], '{self.answers}')")
        for _ in range(BOUND * 20):
            if select.select([self.reader], [], [], 0.05)[0]:
                break
            self.tell("y")
        self.answer()

    def insert(self, line, text):
        self.ask_ex(f"call append({line - 1}, '{text}')")

    def reload(self):
        self.ask_ex("e!")


class Emacs(Partner):
    """Emacs with a document in its buffer. Its commands are expressions of Lisp, one in each line."""

    end_line = "(kill-emacs)"
    LOOP = ("(progn (load \"userlock\") (setq make-backup-files t create-lockfiles nil auto-save-default nil)"
            "(fset 'ask-user-about-supersession-threat 'ignore) (fset 'yes-or-no-p (lambda (&rest _) t))"
            "(fset 'verify-visited-file-modtime (lambda (&rest _) t))"
            "(let (line) (while (setq line (ignore-errors (read-from-minibuffer \"\")))"
            " (eval (car (read-from-string line))))))")

    def __init__(self, terminal, place, path, options=""):
        super().__init__(terminal, place, f"emacs -Q --batch --eval {shlex.quote(self.LOOP)}")
        self.ask_lisp(f'(progn {options} (set-buffer (find-file-noselect "{path}")))')

    def ask_lisp(self, expression):
        self.tell(f'(progn {expression} (write-region "done\\n" nil "{self.answers}" t (quote quiet)))')
        return self.answer()

    def change(self, line, text):
        self.ask_lisp(f'(goto-char (point-min)) (forward-line {line - 1})'
                      f' (delete-region (point) (line-end-position)) (insert "{text}")')

    def insert(self, line, text):
        self.ask_lisp(f'(goto-char (point-min)) (forward-line {line - 1}) (insert "{text}\\n")')

    def save(self):
        self.ask_lisp("(basic-save-buffer)")

    def reload(self):
        self.ask_lisp("(revert-buffer t t)")


def end_partner(partner):
    """Ends a program and waits until it has closed its pipe."""
    partner.tell(partner.end_line)
    os.close(partner.writer)
    os.close(partner.reader)
