"""Several processes make exactly the steps of one (gradients, order, noise), evaluate as one, and choose as one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from forked import Forks
from helpers import json_in, rows_in
from joined import TESTS, free_port
from steps import NAMES

SOME = ["simcse-supervised", "esimcse", "sscl", "fitted", "barlow", "dual"]
GANGS = {2: NAMES, 4: SOME}
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked")]


def started(forked: Forks, program: str, *arguments: object) -> None:
    more = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    done = forked.start(*arguments, program=TESTS / program, more=more)
    assert done.wait(timeout=500) == 0, done.communicate()


def test_gradients_are_those_of_one_process(lively_folder: Path, tmp_path: Path, forked: Forks) -> None:
    gangs = [json.dumps([count, str(tmp_path / str(count)), names]) for count, names in GANGS.items()]
    started(forked, "gang.py", lively_folder, tmp_path, *gangs)
    for count, names in GANGS.items():
        found = json_in(tmp_path / str(count))
        assert set(found) == set(names)
        assert {name: gaps for name, gaps in found.items() if not max(gaps) < 1e-10} == {}


def test_the_scores_are_those_of_one_process_and_the_texts_are_shared_out(
    lively_folder: Path, tmp_path: Path, forked: Forks
) -> None:
    started(forked, "gang_evaluation.py", lively_folder, tmp_path)
    alone, first, second = (json_in(tmp_path / name) for name in ("alone0", "two0", "two1"))
    for dev, found in alone.items():
        whole, shares = found.pop("counted"), [one[dev].pop("counted") for one in (first, second)]
        assert sum(shares) == whole
        assert max(shares) - min(shares) <= 4, "one text at most, of every call"
        assert first[dev] == second[dev], "all know what was found"
        for key, value in found.items():
            if key != "parts" and value is not None:
                assert first[dev][key] == pytest.approx(value, abs=1e-3), key
        assert first[dev]["parts"] == pytest.approx(found["parts"], abs=1e-3)
    assert alone["text"]["guard"] is not None
    assert alone["text"]["parts"]

    runs = [tmp_path / name for name in ("alone-run", "two-run")]
    one, two = (rows_in(run / "metrics.jsonl") for run in runs)
    assert [line["step"] for line in two if "dev" in line] == [0, 2, 4]
    for ours, theirs in zip(one, two, strict=True):
        for key in ("dev", "loss", "dev_share"):
            assert ours.get(key) == pytest.approx(theirs.get(key), abs=2e-2), key
    kept = [json_in(run / "run.json")["result"]["kept"] for run in runs]
    assert kept[0] == kept[1]
