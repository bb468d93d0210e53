"""Several processes evaluate as one does, each encoding its share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import write_tiny_bert
from joined import TESTS, environment, free_port
from opencse import train

pytestmark = pytest.mark.slow


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked on this system")
def test_the_scores_are_those_of_one_process_and_the_texts_are_shared_out(tmp_path: Path) -> None:
    model = write_tiny_bert(tmp_path / "tiny", sd=0.1)
    env = environment(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    command = [sys.executable, str(TESTS / "gang_evaluation.py"), str(model), str(tmp_path)]
    done = subprocess.run(command, env=env, stderr=subprocess.PIPE, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    alone, first, second = (json.loads((tmp_path / name).read_text()) for name in ("alone0", "two0", "two1"))
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


def test_accelerate_starts_a_run_that_chooses_as_one_process(
    tiny_folder: Path, tmp_path: Path, sentences: list[str]
) -> None:
    pytest.importorskip("accelerate")
    text = tmp_path / "text.txt"
    text.write_text("\n".join(sentences[:60]))
    settings = [
        "training.batch_size=8",
        "training.max_steps=6",
        "training.evaluate_every=2",
        "training.chunk=4",
        "training.learning_rate=1e-3",
        "training.average_with_start=[0.5]",
        "training.precision=float32",
        "encoder.pooling=mean",
        "data.max_length=24",
    ]
    launcher = [sys.executable, "-m", "accelerate.commands.launch", "--num_processes", "2", "--cpu", "--no_python"]
    launcher += ["--main_process_port", str(free_port()), "--num_machines", "1", "--mixed_precision", "no"]
    launcher += ["--dynamo_backend", "no"]
    own = [sys.executable, "-c", "from opencse.cli import main; main()", "train", str(text), "--dev", "sample"]
    own += ["--out", str(tmp_path / "two"), "--model", str(tiny_folder), "--device", "cpu", "--no-report"]
    sets = [part for setting in settings for part in ("--set", setting)]
    env = environment(HF_HOME=str(tmp_path), OPENCSE_CACHE=str(tmp_path / "cache"))
    done = subprocess.run([*launcher, *own, *sets], env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    train(text, tmp_path / "one", model=tiny_folder, settings=settings, dev="sample", device="cpu")
    one, two = (
        [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("one", "two")
    )
    results = [json.loads((tmp_path / name / "run.json").read_text())["result"] for name in ("one", "two")]
    assert results[0]["kept"] == results[1]["kept"]
    assert {score != results[1]["scores"]["0"] for score in results[1]["scores"].values()} == {True, False}
    best = [max(result["scores"].items(), key=lambda item: (item[0] != "0", item[1]))[0] for result in results]
    assert best[0] == best[1]
    assert [line["step"] for line in two if "dev" in line] == [0, 2, 4, 6]
    assert len(one) == len(two)
    for ours, theirs in zip(one, two, strict=True):
        for key in ("dev", "loss", "dev_share"):
            assert ours.get(key) == pytest.approx(theirs.get(key), abs=2e-2), key
