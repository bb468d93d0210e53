"""Selection by the mean dev accuracy of transfer tasks, with random numbers of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from opencse.encoder.encoder import SentenceEncoder
from opencse.evaluation.cross_validation import MODES
from opencse.evaluation.embedding import EmbeddingModel
from opencse.evaluation.transfer import Transfer
from opencse.training.selection import DevScore, History, TransferSelector

GOOD, BAD = ("good", "fine", "great"), ("bad", "poor", "weak")


def lines(n: int, seed: int) -> str:
    """Sentences whose first word tells the class, most of the time."""
    numbers = np.random.default_rng(seed)
    made = []
    for number in range(n):
        label = number % 2
        words = (BAD, GOOD)[label if numbers.random() < 0.8 else 1 - label]
        made.append(f"{label}\tthe {words[numbers.integers(3)]} film number {number}\n")
    return "".join(made)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODES, "fast", replace(MODES["fast"], max_epoch=4, folds=2))


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    """MR, CR and SST2, small, in ``transfer/`` of a folder."""
    for seed, (task, part, n) in enumerate(
        [("mr", "all", 60), ("cr", "all", 50), ("sst2", "train", 60), ("sst2", "dev", 30), ("sst2", "test", 20)]
    ):
        folder = tmp_path / "data" / "transfer" / task
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{part}.tsv").write_text(lines(n, seed))
    return tmp_path / "data"


def test_the_score_is_the_mean_of_the_dev_accuracies(tasks: Path, tiny_folder: Path) -> None:
    encoder = SentenceEncoder.load(tiny_folder, pooling="mean", device="cpu")
    selector = TransferSelector.read(tasks)
    score = selector.begin(encoder)
    suite = Transfer(mode="fast")
    model = EmbeddingModel("tiny", encoder.encode)
    record = suite.evaluate(model, suite.load(tasks / "transfer"))
    accuracies = {key: record[key, "accuracy"].extras["dev_accuracy"] for key in record.tasks}
    assert score.parts == accuracies
    assert score.value == pytest.approx(np.mean([*accuracies.values()]), abs=1e-12)
    assert score.value != pytest.approx(record["average_of_present", "accuracy"].value), "not the test accuracy"
    assert score.record()["dev_mr"] == accuracies["mr"]
    assert selector.score(encoder) == score


def test_a_start_is_kept_only_where_it_is_clearly_better(tasks: Path) -> None:
    selector = TransferSelector.read(tasks)
    start = DevScore(80.0, parts={"mr": 80.0, "cr": 80.0, "sst2": 80.0})
    near, far = (DevScore(v, parts=dict.fromkeys(start.parts, v)) for v in (75.0, 60.0))
    assert not selector.worse(near, start)
    assert selector.worse(far, start)
    history = History({0: start, 10: far})
    choice = selector.choose(history, 10, None, lambda: True)
    assert choice.kept == "start"
    assert "training did not help on the transfer tasks" in choice.verdict
