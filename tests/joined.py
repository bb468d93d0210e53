"""What starts several processes of a test."""

from __future__ import annotations

import os
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

TESTS = Path(__file__).resolve().parent


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join([str(TESTS), *(entry for entry in sys.path if entry)])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **more}


def in_processes(count: int, work: Callable[[], None]) -> None:
    """Runs ``work`` in processes with torchrun's variables, forked from this one, whose imports are made once.

    Raises:
        SystemExit: if one of them failed.
    """
    children = []
    for rank in range(count):
        child = os.fork()
        if child == 0:  # never returns from here
            os.environ |= {"WORLD_SIZE": str(count), "RANK": str(rank), "LOCAL_RANK": str(rank)}
            try:
                work()
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    if any(codes):
        sys.exit(f"processes ended with {codes}")
