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


@pytest.mark.parametrize(
    ("given", "told"),
    [({}, "5000"), ({"GOMP_SPINCOUNT": "77"}, "77"), ({"OMP_WAIT_POLICY": "passive"}, "0")],
    ids=("by itself", "spins given", "policy given"),
)
def test_threads_wait_briefly_unless_told_otherwise(given: dict[str, str], told: str) -> None:
    environment = {**OUTSIDE, "OMP_DISPLAY_ENV": "verbose", "PYTHONPATH": ":".join(sys.path), **given}
    command = [sys.executable, "-c", "from opencse.cli import main; main()", "doctor"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert f"GOMP_SPINCOUNT = '{told}'" in done.stderr
