"""Commands in processes that are forked from one that has made the imports, which take seconds.

For tests of what only a process of its own shows: signals, kills, pipes. How a command starts, and what it imports, is
seen where a new process is started for it (tests/serving/test_server.py, tests/cli/test_streams.py).
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from joined import environment

IMPORTS = (
    "torch", "transformers.models.bert.modeling_bert", "uvicorn", "opencse.documents.adaptation", "opencse.cli.app",
    "opencse.encoder.encoder", "opencse.runs.run", "opencse.search.index", "opencse.serving.app",
    "opencse.serving.server", "opencse.serving.service",
)  # fmt: skip


class Command:
    """A command that runs, with what `subprocess.Popen` offers.

    Attributes:
        pid: of its process.
        stdout: what it prints.
        stderr: what it says.
        returncode: its exit code, minus the signal that ended it; None while it runs.
    """

    def __init__(self, status: int, stdout: int, stderr: int) -> None:
        self._status = os.fdopen(status)
        self.stdout, self.stderr = os.fdopen(stdout), os.fdopen(stderr)
        self.pid = int(self._status.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            self.returncode = int(self._status.readline())
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it has ended.

        Raises:
            TimeoutExpired: if it runs for more than ``timeout`` seconds.
        """
        if self.returncode is None and not select.select([self._status], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("opencse", timeout or 0)
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """The rest of what it prints and says, each less than a pipe holds, once it has ended."""
        self.wait(timeout)
        return self.stdout.read(), self.stderr.read()

    def close(self) -> None:
        self.kill()
        self.wait()
        for stream in (self._status, self.stdout, self.stderr):
            stream.close()


class Forks:
    """Starts commands; made by `forks`."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._started: list[Command] = []

    def start(
        self,
        *arguments: object,
        given: str = "",
        cwd: Path | None = None,
        more: Mapping[str, str] | None = None,
        program: Path | str = "",
    ) -> Command:
        """Starts ``opencse`` with arguments.

        Args:
            arguments: of the command line.
            given: what it reads from a pipe, less than a pipe holds.
            cwd: its working folder; this process's if None.
            more: variables of its environment.
            program: a Python file that is run in place of ``opencse``.
        """
        asked = [str(program), list(map(str, arguments)), str(cwd or Path.cwd()), {**os.environ, **(more or {})}]
        (stdin, feed), *outputs = (os.pipe() for _ in range(4))
        os.write(feed, given.encode())
        os.close(feed)
        theirs = [stdin, *(write for _, write in outputs)]
        socket.send_fds(self._connection, [json.dumps(asked).encode() + b"\n"], theirs)
        for descriptor in theirs:
            os.close(descriptor)
        stdout, stderr, status = (read for read, _ in outputs)
        self._started.append(Command(status, stdout, stderr))
        return self._started[-1]

    def run(self, *arguments: object, given: str = "", cwd: Path | None = None) -> tuple[int, str, str]:
        """The exit code, stdout and stderr of a command that ends by itself."""
        command = self.start(*arguments, given=given, cwd=cwd)
        code = command.wait()
        return code, *command.communicate()

    def close(self) -> None:
        for command in self._started:
            command.close()
        self._started.clear()


@contextmanager
def forks() -> Iterator[Forks]:
    """Within the block, commands can be started."""
    ours, theirs = socket.socketpair()
    program = [sys.executable, __file__, str(theirs.fileno())]
    with ours, subprocess.Popen(program, env=environment(), pass_fds=[theirs.fileno()]):
        theirs.close()
        started = Forks(ours)
        try:
            yield started
        finally:
            started.close()
            ours.close()  # which ends the process


def _serve(connection: socket.socket) -> str:
    """Forks a process for each command that is asked for; only a forked one returns, with the program to run."""
    for name in IMPORTS:
        importlib.import_module(name)
    gc.freeze()
    while True:
        message, descriptors, _, _ = socket.recv_fds(connection, 2**16, 4)
        if not message:
            os._exit(0)
        while not message.endswith(b"\n"):
            message += connection.recv(2**16)
        if os.fork() == 0 and _becomes_the_command(*descriptors):
            connection.close()
            program, arguments, folder, variables = json.loads(message)
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(variables)
            sys.argv = [program or "opencse", *arguments]
            return str(program)
        for descriptor in descriptors:
            os.close(descriptor)


def _becomes_the_command(stdin: int, stdout: int, stderr: int, status: int) -> bool:
    """Forks the command's process, where it is true; this one tells its number and its exit code, and ends."""
    child = os.fork()
    if child:
        for descriptor in (stdin, stdout, stderr):
            os.close(descriptor)
        os.write(status, f"{child}\n".encode())
        os.write(status, f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n".encode())
        os._exit(0)
    os.close(status)
    for number, descriptor in enumerate((stdin, stdout, stderr)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    return True


if __name__ == "__main__":
    if asked := _serve(socket.socket(fileno=int(sys.argv[1]))):
        runpy.run_path(asked, run_name="__main__")
    else:
        from opencse.cli import main

        main()
