"""Runs that choose by their own text: nothing held out is trained on, and resuming changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers import Stopped
from opencse import SentenceEncoder, train
from opencse.adapting.selection_by_questions import QuestionSelector
from opencse.errors import InterruptedRunError
from opencse.progress import Silent
from opencse.runs.job import TrainJob
from opencse.text import sample
from opencse.text.corpus import text_key
from opencse.text.readers import Source
from opencse.text.scripts import normalised

pytestmark = pytest.mark.slow

SETTINGS = (
    "training.max_steps=12",
    "training.batch_size=32",
    "training.evaluate_every=4",
    "training.checkpoint_every=5",
    "training.precision=float32",
)


@pytest.mark.parametrize(
    ("recipe", "source"),
    [
        ("next-sentence", Source(str(sample.TRAIN))),
        ("simcse-supervised", Source(str(sample.PAIRS), columns=("anchor", "positive"))),
    ],
)
def test_nothing_held_out_is_in_any_batch(recipe: str, source: Source) -> None:
    prepared = TrainJob(text=source, recipe=recipe, settings=SETTINGS).prepare(Silent())
    chooser = prepared.plan.dev
    assert isinstance(chooser, QuestionSelector)
    texts = source.read()
    out = chooser.left_out
    assert out is not None
    assert 0.05 < out.mean() < 0.3
    asked = {normalised(text) for row, left in zip(texts.rows, out, strict=True) if left for text in row}
    seen = {int(key) for step in range(prepared.batches.steps_per_epoch)
            for key in prepared.inputs.build(prepared.batches.batch(step), step).keys.flatten()}  # fmt: skip
    trained = [text for row in texts.rows for text in row if text_key(text) in seen]
    assert len(trained) > 1_000
    assert not [text for text in trained if normalised(text) in asked]


def test_the_best_by_the_text_is_kept_and_scored_as_saved(tmp_path: Path) -> None:
    result = train(sample.TRAIN, tmp_path / "out", recipe="next-sentence", settings=SETTINGS)
    assert result.kept == "best"
    assert "questions from held-out text" in result.verdict
    chooser = TrainJob(text=Source(str(sample.TRAIN)), recipe="next-sentence").prepare(Silent()).plan.dev
    assert chooser is not None
    start = SentenceEncoder.load("opencse-mini")
    assert chooser.begin(start).value == pytest.approx(result.scores[0])
    kept = chooser.score(SentenceEncoder.load(tmp_path / "out"))
    assert kept.value == pytest.approx(max(result.scores.values()))
    assert kept.value > result.scores[0] + 0.3
    lines = [json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "dev" in line] == [0, 4, 8, 12]
    assert all({"dev_error", "dev_neighbours"} <= line.keys() for line in lines if "dev" in line)
    assert not any("guard" in line for line in lines)  # the general questions are of the sample, which is trained on


def test_a_resumed_run_holds_out_and_chooses_the_same(tmp_path: Path) -> None:
    job = TrainJob(text=Source(str(sample.TRAIN)), recipe="next-sentence", settings=SETTINGS)
    whole = job.run(tmp_path / "whole")
    with pytest.raises(InterruptedRunError):
        job.run(tmp_path / "stopped", progress=Stopped(9))
    resumed = job.run(tmp_path / "stopped", resume=True)
    assert (resumed.kept, resumed.verdict, resumed.scores) == (whole.kept, whole.verdict, whole.scores)
    for name in ("model.safetensors", "metrics.jsonl"):
        assert (tmp_path / "stopped" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
