"""Several processes make exactly the steps of one: gradients, order, noise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import write_tiny_bert
from joined import TESTS, environment, free_port
from steps import NAMES

SOME = ["simcse", "simcse-supervised", "esimcse", "sscl", "simcse++", "gaussian-sampling", "fitted", "barlow", "dual"]
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked")]


def gang(count: int, *arguments: str) -> None:
    """Runs gang.py in ``count`` processes."""
    env = environment(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    command = [sys.executable, str(TESTS / "gang.py"), str(count), *arguments]
    done = subprocess.run(command, env=env, stderr=subprocess.PIPE, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("count", "names"), [(2, NAMES), (4, SOME)], ids=["2", "4"])
def test_gradients_are_those_of_one_process(count: int, names: list[str], tmp_path: Path) -> None:
    model = write_tiny_bert(tmp_path / "tiny", sd=0.1)  # vectors of different texts differ
    out = tmp_path / "gaps.json"
    gang(count, str(model), str(tmp_path), str(out), *names)
    gaps: dict[str, list[float]] = json.loads(out.read_text())
    assert set(gaps) == set(names)
    assert {name: g for name, g in gaps.items() if not max(g[:3]) < 1e-10} == {}
    assert sum(g[3] > 1e-4 for g in gaps.values()) > len(names) - 4, "dropout was on where there is any"
