"""Several processes make exactly the steps of one: gradients, order, noise."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from helpers import write_tiny_bert
from joined import TESTS, environment, free_port
from steps import NAMES

SOME = ["simcse", "simcse-supervised", "esimcse", "sscl", "simcse++", "gaussian-sampling", "fitted", "barlow", "dual"]
GANGS = {2: NAMES, 4: SOME}
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked")]


@pytest.fixture(scope="module")
def gaps(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, list[float]]]:
    """What gang.py finds, by the number of processes."""
    folder = tmp_path_factory.mktemp("gangs")
    model = write_tiny_bert(folder / "tiny", sd=0.1)  # vectors of different texts differ
    env = environment(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    gangs = [json.dumps([count, str(folder / str(count)), names]) for count, names in GANGS.items()]
    command = [sys.executable, str(TESTS / "gang.py"), str(model), str(folder), *gangs]
    done = subprocess.run(command, env=env, stderr=subprocess.PIPE, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    return {count: json.loads((folder / str(count)).read_text()) for count in GANGS}


@pytest.mark.parametrize("count", GANGS)
def test_gradients_are_those_of_one_process(count: int, gaps: dict[int, dict[str, list[float]]]) -> None:
    found, names = gaps[count], GANGS[count]
    assert set(found) == set(names)
    assert {name: g for name, g in found.items() if not max(g[:3]) < 1e-10} == {}
    assert sum(g[3] > 1e-4 for g in found.values()) > len(names) - 4, "dropout was on where there is any"
