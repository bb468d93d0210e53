"""What starts several processes of a test."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join([str(TESTS), *(entry for entry in sys.path if entry)])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **more}
