"""Several processes make exactly the steps of one: gradients, order, noise."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import write_tiny_bert
from joined import TESTS, environment, free_port
from steps import NAMES

SOME = ["simcse", "simcse-supervised", "esimcse", "sscl", "simcse++", "gaussian-sampling", "fitted", "barlow", "dual"]
pytestmark = pytest.mark.slow


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
def test_gradients_are_those_of_one_process(count: int, names: list[str], tmp_path: Path) -> None:
    model = write_tiny_bert(tmp_path / "tiny", sd=0.1)  # vectors of different texts differ
    out = tmp_path / "gaps.json"
    gang(count, str(model), str(tmp_path), str(out), *names)
    gaps: dict[str, list[float]] = json.loads(out.read_text())
    assert set(gaps) == set(names)
    assert {name: g for name, g in gaps.items() if not max(g[:3]) < 1e-10} == {}
    assert sum(g[3] > 1e-4 for g in gaps.values()) > len(names) - 4, "dropout was on where there is any"
