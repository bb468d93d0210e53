"""How torch's threads wait for each other, as the library of threads itself tells it when it is loaded."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="torch comes with GNU's threads on Linux"),
]
OUTSIDE = {k: v for k, v in os.environ.items() if k not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "OMP_NUM_THREADS")}


DOCTOR = "from opencse.cli import main; main()"
THEN_TORCH = """
import sys
from opencse.cli import main
try:
    main()
finally:
    assert "torch" not in sys.modules
    import torch
"""


@pytest.mark.parametrize(
    ("given", "told", "code", "command"),
    [
        ({}, "5000", DOCTOR, "doctor"),
        ({"GOMP_SPINCOUNT": "77"}, "77", THEN_TORCH, "--version"),
        ({"OMP_WAIT_POLICY": "passive"}, "0", THEN_TORCH, "--version"),
    ],
    ids=("by itself", "spins given", "policy given"),
)
def test_threads_wait_briefly_unless_told_otherwise(given: dict[str, str], told: str, code: str, command: str) -> None:
    environment = {**OUTSIDE, "OMP_DISPLAY_ENV": "verbose", "PYTHONPATH": ":".join(sys.path), **given}
    command_line = [sys.executable, "-c", code, command]
    done = subprocess.run(command_line, env=environment, capture_output=True, text=True, check=False)
    assert f"GOMP_SPINCOUNT = '{told}'" in done.stderr
