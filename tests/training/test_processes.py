"""Several processes make the very steps of one: gradients, order, noise; and a run of them is one run."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from steps import NAMES

TESTS = Path(__file__).resolve().parents[1]
SOME = ["simcse", "simcse-supervised", "esimcse", "sscl", "simcse++", "gaussian-sampling", "fitted", "barlow", "dual"]
pytestmark = pytest.mark.slow


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join([str(TESTS), *(entry for entry in sys.path if entry)])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **more}


def gang(count: int, *arguments: str) -> None:
    """Runs gang.py in ``count`` processes."""
    port = str(free_port())
    started = []
    for rank in range(count):
        own = {"WORLD_SIZE": str(count), "RANK": str(rank), "LOCAL_RANK": str(rank)}
        env = environment(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, **own)
        command = [sys.executable, str(TESTS / "gang.py"), *arguments]
        started.append(subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True))
    told = [process.communicate(timeout=500)[1] for process in started]
    assert [process.returncode for process in started] == [0] * count, told


@pytest.mark.parametrize(("count", "names"), [(2, NAMES), (4, SOME)], ids=["2", "4"])
def test_gradients_are_those_of_one_process(count: int, names: list[str], tiny_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "gaps.json"
    gang(count, str(tiny_folder), str(tmp_path), str(out), *names)
    gaps: dict[str, list[float]] = json.loads(out.read_text())
    assert set(gaps) == set(names)
    assert {name: g for name, g in gaps.items() if not (g[0] < 1e-10 and g[1] < 1e-10)} == {}
    assert sum(g[2] > 1e-4 for g in gaps.values()) > len(names) - 4, "dropout was on where there is any"
